"""What a run achieved beside its objectives: from the evidence alone, and never better than it proves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.evidence.achieved import achieved_of, downtime_of
from kafka_dr.domain.evidence.warnings import breach_warnings
from kafka_dr.vocabulary import Outcome

PROOFS = ("wait_for_zero_lag", "translate_offsets", "assess_data_loss")
STATED = {"rto_seconds": 60.0, "rpo_seconds": 10.0, "rpo_records": 0}
TEN = 1_795_255_200_000  # 2026-11-21 10:00 UTC


def at(second: float) -> str:
    """So many seconds after ten."""
    return f"2026-11-21T10:{int(second) // 60:02d}:{int(second) % 60:02d}+00:00"


def step(name: str, began: float, ended: float, state: str = "done", **figures: Any) -> dict[str, Any]:
    """A step."""
    return {"id": name, "state": state, "started_at": at(began), "ended_at": at(ended), "figures": figures}


def evidence(dag_id: str, *steps: dict[str, Any], outcome: str = "completed", **changes: Any) -> dict[str, Any]:
    """Evidence of a run that was triggered at ten and closed after 200 s, with all proofs of loss."""
    run = {"dag_id": dag_id, "source": "east", "target": "west", "outcome": outcome, "problems": [], "plan": {}}
    run |= {"loss": [], "fenced_at": None, "closed_at": at(200), "seconds": {"whole": 200.0}, "objectives": STATED}
    return run | {"steps": [*(step(name, 1, 2) for name in PROOFS), *steps]} | changes


def verdicts(told: dict[str, Any]) -> dict[str, str]:
    """The verdict on each objective."""
    achieved = achieved_of(told)
    assert achieved is not None
    return {name: one["verdict"] for name, one in achieved["verdicts"].items()}


MOVED = (step("fence_producers", 30, 32), step("redirect_clients", 80, 81))
LOST = [{"topic": "t", "partition": 0, "from_offset": 0, "certain_to": 3, "possible_to": 3, "records": 3}]


@pytest.mark.parametrize("dag_id", ["planned_failover", "failback"])
def test_a_move_is_measured_from_fence_to_redirect(dag_id: str) -> None:
    """51 s: met; with an RTO of 50 s breached. No loss: nothing of it is unknown."""
    told = evidence(dag_id, *MOVED)
    achieved = achieved_of(told)
    assert achieved is not None and (achieved["downtime_seconds"], achieved["downtime_since"]) == (51.0, "fence")
    assert achieved["lost_records"] == achieved["lost_seconds"] == {"certain": 0, "possible": 0}
    assert verdicts(told) == dict.fromkeys(STATED, "met")
    assert verdicts(told | {"objectives": {"rto_seconds": 50.0}}) == {"rto_seconds": "breached"}


def test_records_that_a_planned_move_lacked_break_the_objective() -> None:
    """Certainly lost by count; how old they are nobody read."""
    told = evidence("planned_failover", *MOVED, loss=LOST)
    assert verdicts(told) == {"rto_seconds": "met", "rpo_seconds": "unknown", "rpo_records": "breached"}
    first, second = breach_warnings(STATED, achieved_of(told))
    assert first.startswith("Objective RPO 10 s: possible breach: ")
    assert second == "Objective RPO 0 records breached: 3 records certainly lost."


REDIRECTED = step("redirect_clients", 80, 81)


@pytest.mark.parametrize(
    ("plan", "seconds", "since", "verdict"),
    [
        ({"seen": {"recorded_at": TEN - 9_000}}, 90.0, "last_sign_of_life", "breached"),
        ({"seen": {"recorded_at": TEN - 9_000, "heartbeat_at": TEN - 4_000}}, 85.0, "last_sign_of_life", "breached"),
        ({"seen": {"heartbeat_at": TEN + 50_000}}, 81.0, "trigger", "breached"),
        ({"seen": {"recorded_at": None}}, 81.0, "trigger", "breached"),
        (
            {"seen": {"recorded_at": TEN - 9_000}, "continues": {"fenced_at": "2026-11-21T09:59:00+00:00"}},
            141.0,
            "earlier_fence",
            "breached",
        ),
    ],
)
def test_an_unplanned_failover_is_measured_from_the_last_sign_of_life(
    plan: dict[str, Any], seconds: float, since: str, verdict: str
) -> None:
    """Or from an earlier fence, or from the trigger: whichever is earliest."""
    told = evidence("unplanned_failover", REDIRECTED, plan=plan)
    achieved = achieved_of(told)
    assert achieved is not None and (achieved["downtime_seconds"], achieved["downtime_since"]) == (seconds, since)
    assert verdicts(told)["rto_seconds"] == verdict


def test_without_a_sign_of_life_an_rto_is_never_met() -> None:
    """Nobody knows how long the source had been away when the run was triggered."""
    long = {"objectives": {"rto_seconds": 3600.0}}
    assert verdicts(evidence("unplanned_failover", REDIRECTED, **long)) == {"rto_seconds": "unknown"}
    sign = {"plan": {"seen": {"recorded_at": TEN - 1}}}
    assert verdicts(evidence("unplanned_failover", REDIRECTED, **long, **sign)) == {"rto_seconds": "met"}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.COMPLETED])
@pytest.mark.parametrize("dag_id", ["planned_failover", "unplanned_failover", "failback"])
def test_a_run_that_did_not_complete_achieved_nothing(dag_id: str, outcome: str) -> None:
    """Unknown, with the reason; how long clients stood still is named."""
    told = evidence(dag_id, MOVED[0], step("return_to_source", 40, 60, touched=True), outcome=outcome)
    achieved = achieved_of(told)
    assert achieved is not None and achieved["downtime_seconds"] is None
    assert {one["verdict"] for one in achieved["verdicts"].values()} == {"unknown"}
    stood = "" if dag_id == "unplanned_failover" else "; clients stood still for 30 s"
    assert achieved["verdicts"]["rto_seconds"]["reason"] == f"the run did not complete ({outcome}){stood}"
    assert breach_warnings(STATED, achieved) == []


@pytest.mark.parametrize("dag_id", ["restore_group_offsets", "abort_procedure"])
def test_a_procedure_that_moves_no_client_achieves_nothing(dag_id: str) -> None:
    """No objective applies."""
    assert achieved_of(evidence(dag_id)) is downtime_of(evidence(dag_id)) is None


def test_what_was_not_proven_or_not_read_is_not_met() -> None:
    """A target that was opened manually before the proofs, and evidence that lacks a file."""
    by_hand = evidence("planned_failover", *MOVED)
    by_hand["steps"] = [row for row in by_hand["steps"] if row["id"] not in PROOFS]
    for told in (by_hand, evidence("planned_failover", *MOVED, problems=["loss.parquet is gone"])):
        assert verdicts(told) == {"rto_seconds": "met", "rpo_seconds": "unknown", "rpo_records": "unknown"}


@given(
    st.sampled_from(["planned_failover", "unplanned_failover", "failback"]),
    st.sampled_from(list(Outcome)),
    st.sets(st.sampled_from(["fence_producers", "redirect_clients", *PROOFS])),
    st.none() | st.integers(-60, 60),
)
def test_an_objective_is_met_only_with_every_proof(dag_id: str, outcome: str, done: set[str], sign: int | None) -> None:
    """Whatever is missing, nothing is met that rests on it."""
    seen = {} if sign is None else {"recorded_at": TEN + 1000 * sign}
    told = evidence(dag_id, outcome=outcome, plan={"seen": seen}, objectives={"rto_seconds": 1e6, "rpo_records": 9})
    told["steps"] = [step(name, 10, 20) for name in done]
    planned = dag_id != "unplanned_failover"
    for_rto = {"fence_producers", "redirect_clients"} if planned else {"redirect_clients"}
    for_rpo = set(PROOFS[:2]) if planned else {"assess_data_loss"}
    completed = outcome is Outcome.COMPLETED
    assert (verdicts(told)["rto_seconds"] == "met") == (completed and for_rto <= done and (planned or sign is not None))
    assert (verdicts(told)["rpo_records"] == "met") == (completed and for_rpo <= done)
