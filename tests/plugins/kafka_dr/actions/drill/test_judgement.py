"""The report of a drill says who started it, who was informed, how long it is kept, and by whose clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions.drill.judgement import file_drill
from kafka_dr.config.settings import load_topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.procedure.binding import topology_digest

from tests.support.bench import Bench
from tests.support.drills.drill_bench import drill_bench, prepared_drill


def report_of(bench: Bench, run_id: str = "r1", told: bool = False) -> tuple[dict[str, Any], str]:
    """Close a drill; return the twenty fields by name, and the page."""
    drill = prepared_drill(bench, run_id)
    if told:
        bench.journal.claim_notice(f"{drill.id}/fence_on", "smtp mail 0123")
        bench.journal.settle_notice(f"{drill.id}/fence_on", "smtp mail 0123", NoticeState.SENT)
    file_drill(drill, drill.lease.epoch)
    folder = Path(drill.artifacts.folder)
    document = json.loads((folder / "drill_report.json").read_text())
    return {one["name"]: one["value"] for one in document["fields"]}, (folder / "drill_report.html").read_text()


def test_retention_is_that_of_the_topology(make_bench: Callable[..., Bench]) -> None:
    """With the day until which the evidence is kept, counted from the drill's end."""
    fields, page = report_of(drill_bench(make_bench, evidence_kept_days=1826))
    until = datetime.fromisoformat(fields["dates"]["ended_at"]) + timedelta(days=1826)
    assert fields["retention"]["kept_until"] == until.isoformat()
    assert fields["retention"]["retention"] == "1,826 days, by evidence_kept_days of the topology"
    assert "1,826 days" in page and f"{until:%Y-%m-%d %H:%M:%S} UTC" in page


def test_without_the_setting_retention_is_not_stated(make_bench: Callable[..., Bench]) -> None:
    """Nothing is claimed that nobody has stated."""
    fields, page = report_of(drill_bench(make_bench))
    assert fields["retention"]["retention"] is fields["retention"]["kept_until"] is None
    assert "not stated: the topology has no evidence_kept_days" in page


def test_the_time_stamp_names_its_clock(make_bench: Callable[..., Bench]) -> None:
    """And that nobody outside has attested it."""
    fields, page = report_of(drill_bench(make_bench))
    stamp = fields["chain"]["time_stamp"]
    assert stamp["at"] == fields["dates"]["ended_at"] and stamp["authority"] is None
    assert stamp["clock"] == "the clock of the machine that wrote the journal's entry (the journal is a file of SQLite)"
    assert "by the clock of the machine" in page and "No time-stamping authority has signed it." in page
    assert fields["chain"]["signature"].startswith("none: the topology names no key")


@pytest.mark.parametrize(("run_id", "who"), [("r1", "a person"), ("due__primary-standby__1", "schedule_drills")])
def test_who_started_the_drill(make_bench: Callable[..., Bench], run_id: str, who: str) -> None:
    """A person, or the schedule."""
    bench = drill_bench(make_bench)
    if who != "a person":
        bench.api.starter = None
    fields, page = report_of(bench, run_id)
    assert fields["identity"]["started_by"] == who and who in page


def test_people_who_were_informed_and_the_drills_connectors_are_named(make_bench: Callable[..., Bench]) -> None:
    """By the route of each notice that was sent."""
    fields, _ = report_of(drill_bench(make_bench), told=True)
    people = [(one["name"], one["role"]) for one in fields["people"]["people"]]
    assert ("the people of smtp by connection mail", "informed by fence_on") in people
    assert len(fields["scope"]["scope"]["connectors"]) == 4


@pytest.mark.parametrize("value", [0, -1, 1.5, "5 years", True, 40_000])
def test_days_that_are_none_are_refused(make_bench: Callable[..., Bench], value: Any) -> None:
    """With the setting's name."""
    with pytest.raises(BadInput, match="evidence_kept_days"):
        drill_bench(make_bench, evidence_kept_days=value).opened()


def test_a_run_is_not_bound_to_the_setting(make_bench: Callable[..., Bench]) -> None:
    """A site that changes how long it keeps evidence stops no run."""
    one, other = (make_bench(evidence_kept_days=days).topology for days in (10, 20))
    assert topology_digest(load_topology(one)) == topology_digest(load_topology(other))
