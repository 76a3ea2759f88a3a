"""The document keeps since when a finding is there, and names it once more when it is mended."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from kafka_dr.domain.readiness.movements import Movement
from kafka_dr.domain.readiness.report import Checked, Outlook, document_of, movements_of
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding

from tests.plugins.kafka_dr.domain.readiness.test_state import DRILL, NOW

SILENT = ReadinessFinding("recorder_silent", Gravity.FAILED, "", "40 s")
CHECKED = Checked("primary", "standby", NOW, [], Outlook(unknown={"seconds": "no run"}), drill=DRILL, drill_days=92.0)


def later(minutes: int, *findings: ReadinessFinding) -> Checked:
    """The check so many minutes later."""
    return replace(CHECKED, at=NOW + timedelta(minutes=minutes), findings=findings)


def test_the_fields_that_others_read_are_there() -> None:
    """Whether anything was found or not; the document is JSON."""
    document = json.loads(json.dumps(document_of(CHECKED, None), allow_nan=False))
    assert document["state"] == "VERIFIED" and document["reasons"] == []
    assert datetime.fromisoformat(document["checked_at"]) == NOW
    assert datetime.fromisoformat(document["stale_after"]) > NOW
    assert {"certain", "possible", "rereads", "seconds"} <= document["if_now"].keys()
    assert document["if_now"]["seconds"] is None and document["if_now"]["unknown"] == {"seconds": "no run"}
    assert document["last_drill"]["procedure_id"] == DRILL.procedure_id
    assert document["next_drill_due"] == (datetime.fromisoformat(DRILL.ended_at) + timedelta(days=92)).isoformat()
    assert document_of(replace(CHECKED, drill=None), None)["last_drill"] is None


@pytest.mark.parametrize(("days", "retest_days", "due"), [(92.0, 30.0, 30), (20.0, 30.0, 20)])
def test_a_failed_drill_is_due_to_be_repeated(days: float, retest_days: float, due: int) -> None:
    """Sooner than one that passed, and never later: page, metrics and notices go by this date."""
    failed = replace(CHECKED, drill=replace(DRILL, verdict="failed"), drill_days=days, retest_days=retest_days)
    expected = datetime.fromisoformat(DRILL.ended_at) + timedelta(days=due)
    assert document_of(failed, None)["next_drill_due"] == expected.isoformat()


def test_a_finding_keeps_its_since_and_is_mended_once() -> None:
    """Its text may change with its figures."""
    first = document_of(later(0, SILENT), None)
    second = document_of(later(5, replace(SILENT, text="340 s")), first)
    assert second["findings"][0]["since"] == first["checked_at"] and second["findings"][0]["text"] == "340 s"
    assert second["state"] == "NOT_VERIFIED" and second["mended"] == []
    third = document_of(later(10), second)
    assert third["findings"] == [] and [m["id"] for m in third["mended"]] == ["recorder_silent"]
    assert third["mended"][0]["since"] == first["checked_at"]
    assert document_of(later(15), third)["mended"] == []
    again = document_of(later(20, SILENT), third)
    assert again["findings"][0]["since"] == again["checked_at"]


def test_what_was_not_looked_at_is_not_called_mended() -> None:
    """It keeps its since until a check has looked, also over two checks that could not."""
    first = document_of(later(0, SILENT), None)
    away = ReadinessFinding("cannot_read", Gravity.UNKNOWN, "observation", "no answer")
    blind = document_of(replace(later(5, away), complete=False), first)
    assert blind["mended"] == [] and [one["id"] for one in blind["not_looked_at"]] == ["recorder_silent"]
    blind = document_of(replace(later(10, away), complete=False), blind)
    seen = document_of(later(15, SILENT), blind)
    assert seen["findings"][0]["since"] == first["checked_at"] and seen["not_looked_at"] == []
    assert [one["id"] for one in seen["mended"]] == ["cannot_read"]
    assert {one["id"] for one in document_of(later(15), blind)["mended"]} == {"recorder_silent", "cannot_read"}


def test_changes_of_state_are_kept_and_repeats_are_not() -> None:
    """The newest fifty."""
    document = None
    for minute in range(120):
        document = document_of(later(minute, *[SILENT] * (minute // 2 % 2)), document)
    assert document is not None and len(document["changes"]) == 50
    states = [change["state"] for change in document["changes"]]
    assert all(one != two for one, two in itertools.pairwise(states))


def test_movements_are_read_by_the_next_check() -> None:
    """An older document has none, or none of their parts."""
    movement = Movement(7, 5.0, 1.0, 5.0, ((17, 3), (0, 4)))
    document = json.loads(json.dumps(document_of(replace(CHECKED, movements={"positions": movement}), None)))
    assert movements_of(document) == {"positions": movement}
    assert movements_of({}) == {} and movements_of(None) == {}
    del document["movements"]["positions"]["parts"]
    assert movements_of(document) == {"positions": replace(movement, parts=())}


def test_failures_are_named_before_what_is_only_unverified() -> None:
    """The first reason is the one that makes the state."""
    due = ReadinessFinding("drill_due", Gravity.UNVERIFIED, "", "old")
    assert document_of(later(0, due, SILENT), None)["reasons"][0].startswith("recorder_silent: ")
    assert NOW.tzinfo is UTC


def test_the_offset_option_is_in_the_document() -> None:
    """As it was compared; empty if the flow was not observed."""
    option = {"option": "custom_policy", "recorded": True}
    assert document_of(replace(CHECKED, offset_option=option), None)["offset_option"] == option
    assert document_of(CHECKED, None)["offset_option"] == {}
