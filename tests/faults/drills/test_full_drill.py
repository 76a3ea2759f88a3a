"""A full drill on a lab: people move the real clients there and back by ordinary runs, which the drill follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from kafka_dr.hooks.journal.journal import Journal

from lab.checker import CheckResult
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning, RoundTrips
from lab.rehearsal.run import run_dag
from tests.faults.support.scene import until
from tests.support.rehearsals import SEED, kept_if_it_fails

CONF = {"source": "primary", "target": "standby", "reason": "the yearly full drill", "kind": "full"}
#: A move takes two minutes; on a busy machine a quarter of an hour was too short.
MOVE_SECONDS = 2_400


def set_notice_hours(lab: Lab, hours: int) -> None:
    """Set the notice time of all flows."""
    topology = yaml.safe_load(lab.topology.read_text(encoding="utf-8"))
    for flow in topology["flows"]:
        flow["objectives"] = flow.get("objectives", {}) | {"notice_hours": hours}
    lab.topology.write_text(yaml.safe_dump(topology), encoding="utf-8")


def evidence_of_drill(lab: Lab) -> dict[str, Any]:
    """Return the evidence of the only drill on this lab."""
    (path,) = lab.evidence.glob("failover_drill-*/evidence.json")
    assert (path.parent / "drill_report.html").exists()
    evidence: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return evidence


def without_findings(verdict: CheckResult) -> None:
    """Assert that the checker has no finding on a client move."""
    assert verdict.passed, "\n".join(verdict.lines(limit=5))


def test_a_drill_follows_the_moves_that_people_make(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Real clients go and return, judged by ids; the report has both moves, and that they came before the notice."""
    lab = Lab(fresh_lab("identity"))
    set_notice_hours(lab, 1)
    trips = RoundTrips(lab.root, tmp_path, SEED, 200, scale=0.05, groups=6)
    trips.seconds = MOVE_SECONDS
    journal = Journal(f"sqlite:///{lab.journal}")
    with kept_if_it_fails(lab.root, tmp_path), ThreadPoolExecutor(1) as pool:
        try:
            trips.seed_topics()
            drill = pool.submit(run_dag, lab, "failover_drill", CONF, "approver", 2 * MOVE_SECONDS)
            until(lambda: journal.entries(step="run_planned_failover"), "the drill to wait for the move", 240.0)
            without_findings(trips.leave(Leaving(more=5)))
            without_findings(trips.come_back(Returning(more=5)))
            assert drill.result(MOVE_SECONDS) == 0
        finally:
            trips.stop()
    section = evidence_of_drill(lab)["drill"]
    moves = [(one["name"], one["dag_id"], one["outcome"]) for one in section["passes"]]
    assert moves == [
        ("run_planned_failover", "planned_failover", "completed"),
        ("run_failback", "failback", "completed"),
    ]
    early = [one["what"] for one in section["deviations"] if "before the notice time was over" in one["what"]]
    assert len(early) == 2, section["deviations"]
    assert section["kind"] == "full" and section["verdict"] == "conditional", section["reasons"]
