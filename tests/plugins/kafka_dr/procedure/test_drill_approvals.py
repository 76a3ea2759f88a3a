"""A drill's pass needs no approval by a person: its scope stands for one. A drill itself is no pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from kafka_dr.errors import ApprovalMissing, Refusal
from kafka_dr.procedure.approvals import Approvals, DrillApprovals
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import ApprovedThrough, Step

from tests.support.bench import Bench
from tests.support.drills.drill_bench import drill_bench, pass_run, prepared_drill
from tests.support.facts import open_run

DIGEST = "a" * 64


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both; nobody answers a gate."""
    return drill_bench(make_bench)


@pytest.fixture
def drill(bench: Bench) -> Run:
    """A drill that has begun to make its things."""
    return prepared_drill(bench)


@pytest.mark.parametrize("gate", GATES)
def test_each_gate_of_a_pass_is_approved_by_its_drill(drill: Run, gate: Step) -> None:
    """The record names the drill, the digest and the time, and is no approval through Airflow."""
    made = pass_run(drill.id)
    approval = made.approvals.require(gate, DIGEST)
    assert isinstance(made.approvals, DrillApprovals)
    assert (approval.gate, approval.digest, approval.by) == (gate, DIGEST, f"drill {drill.id}")
    assert approval.through == ApprovedThrough.DRILL != ApprovedThrough.AIRFLOW
    assert datetime.fromisoformat(approval.at).tzinfo is not None


def test_the_plan_of_a_pass_is_approved_under_its_own_digest(bench: Bench, drill: Run) -> None:
    """Each act asks for the approval of the very plan that the pass has made."""
    made = pass_run(drill.id)
    open_run(made)
    bench.done(made, Step.FORECAST, plan_digest=DIGEST)
    approval = made.approvals.require_plan()
    assert (approval.gate, approval.digest) == (Step.APPROVE_FAILOVER, DIGEST)


def test_the_plan_of_a_loss_is_approved_under_its_own_digest(bench: Bench, drill: Run) -> None:
    """The unplanned pass asks at its own gate."""
    made = pass_run(drill.id, "unplanned_failover")
    open_run(made)
    bench.done(made, Step.CONFIRM_SOURCE_LOST, state="lost", override=None)
    bench.done(made, Step.ASSESS_DATA_LOSS, plan_digest=DIGEST)
    approval = made.approvals.require_plan()
    assert (approval.gate, approval.digest) == (Step.APPROVE_DATA_LOSS, DIGEST)


def test_without_a_plan_nothing_is_approved(drill: Run) -> None:
    """Not even in a drill."""
    made = pass_run(drill.id)
    open_run(made)
    with pytest.raises(Refusal, match="forecast did not happen"):
        made.approvals.require_plan()


def test_the_gates_of_a_drill_itself_ask_people(drill: Run) -> None:
    """announce_drill and sign_off_drill: the run of failover_drill has no scope."""
    assert type(drill.approvals) is Approvals
    for gate in (Step.ANNOUNCE_DRILL, Step.SIGN_OFF_DRILL):
        with pytest.raises(ApprovalMissing):
            drill.approvals.require(gate, DIGEST)


def test_an_ordinary_run_is_approved_by_nobody_but_people(bench: Bench, drill: Run) -> None:
    """Also while a drill runs."""
    bench.dag_id = "planned_failover"
    with pytest.raises(ApprovalMissing, match="never answered"):
        bench.procedure("r9").approvals.require(Step.APPROVE_FAILOVER, DIGEST)
