"""What the evidence says of objectives is counted again: each lie is found, the truth is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.domain.evidence.evidence import _with_objectives

from lab.checker.objective_claims import objective_findings

TEN = 1_795_255_200_000  # 2026-11-21 10:00 UTC
STATED = {"rto_seconds": 60.0, "rpo_seconds": 30.0, "rpo_records": 5}
ROW = {"topic": "t", "partition": 0, "from_offset": 0, "certain_to": 9, "possible_to": None}


def told(dag_id: str) -> dict[str, Any]:
    """Evidence of a completed move of 70 s as the product writes it; an unplanned one lost nine records or more."""
    lost = dag_id == "unplanned_failover"
    ids = ("fence_producers", "wait_for_zero_lag", "translate_offsets", "assess_data_loss", "redirect_clients")
    moments = {"started_at": "2026-11-21T10:00:10+00:00", "ended_at": "2026-11-21T10:01:20+00:00"}
    made = {"dag_id": dag_id, "source": "east", "target": "west", "outcome": "completed", "problems": []}
    made |= {"steps": [{"id": name, "state": "done", "figures": {}, **moments} for name in ids], "fenced_at": None}
    made |= {"plan": {"seen": {"recorded_at": TEN - 5_000, "looked_for_at": TEN}}, "loss": [ROW] if lost else []}
    made |= {"closed_at": "2026-11-21T10:02:00+00:00", "seconds": {"whole": 120.0}, "warnings": []}
    return copy.deepcopy(_with_objectives(made, STATED))


def lie(*path: Any) -> Callable[[dict[str, Any]], Any]:
    """Return a change of one value; the last part of the path is the new value."""
    *places, name, value = path

    def change(evidence: dict[str, Any]) -> None:
        for place in places:
            evidence = evidence[place]
        evidence[name] = value

    return change


@pytest.mark.parametrize("dag_id", ["planned_failover", "failback", "unplanned_failover"])
def test_what_the_product_writes_holds(dag_id: str) -> None:
    """Breaches are in it, and the first lines name them."""
    evidence = told(dag_id)
    assert objective_findings(evidence) == []
    assert evidence["achieved"]["verdicts"]["rto_seconds"]["verdict"] == "breached" and evidence["warnings"]


@pytest.mark.parametrize(
    "change",
    [
        lambda evidence: evidence.pop("objectives"),
        lie("achieved", None),
        lie("achieved", "downtime_seconds", 59.0),
        lie("achieved", "downtime_seconds", None),
        lie("seconds", "downtime", 1.0),
        lie("achieved", "lost_records", {"certain": 0, "possible": None}),
        lie("achieved", "lost_records", {"certain": 9, "possible": 9}),
        lie("achieved", "lost_seconds", {"certain": 0, "possible": 0}),
        lie("achieved", "lost_seconds", {"certain": 5.0, "possible": 1.0}),
        lie("achieved", "verdicts", "rto_seconds", "verdict", "met"),
        lie("achieved", "verdicts", "rpo_records", "verdict", "unknown"),
        lie("achieved", "verdicts", "rpo_seconds", "verdict", "met"),
        lie("achieved", "verdicts", {}),
        lie("warnings", []),
        lie("plan", "seen", "recorded_at", TEN - 9_000),
        lie("loss", [ROW | {"certain_to": 90}]),
    ],
)
def test_every_lie_is_found(change: Callable[[dict[str, Any]], Any]) -> None:
    """A better figure, another verdict, a breach without a word."""
    evidence = told("unplanned_failover")
    change(evidence)
    assert {finding.check for finding in objective_findings(evidence)} == {"evidence"}
