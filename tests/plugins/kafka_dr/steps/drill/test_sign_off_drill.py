"""Who may sign a drill: whoever may approve a procedure, and never the person who started the drill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskAwaitingInput
from kafka_dr.hooks.airflow_api import HitlAnswer
from kafka_dr.procedure.entries import AnswerIgnored, DrillSignedOff
from kafka_dr.procedure.run import Run
from kafka_dr.steps.drill.sign_off_drill import SignOffDrill
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench
from tests.support.drills.drill_bench import drill_bench

GATE = Step.SIGN_OFF_DRILL


def gate() -> SignOffDrill:
    """The gate, made anew as Airflow does for each try."""
    return SignOffDrill(task_id=GATE.value)


@pytest.fixture
def make_drill(make_bench: Callable[..., Bench], asked: list[dict[str, Any]]) -> Callable[..., tuple[Bench, Run]]:
    """Makes a drill that has asked for its signature, under a topology with these approvers."""

    def make(approvers: dict[str, Any] | None = None, starter: str | None = "alice") -> tuple[Bench, Run]:
        bench = drill_bench(make_bench, approvers=approvers or {})
        bench.api.starter = starter
        drill = bench.opened()
        with pytest.raises(TaskAwaitingInput):
            gate().execute(bench.context())
        assert len(asked) == 1
        return bench, drill

    return make


def answer(bench: Bench, by: str, chosen: str = "Approve", attempt: int = 1) -> None:
    """Let a person answer the gate, and Airflow wake it."""
    bench.api.answers[GATE] = HitlAnswer(
        "Sign off?", "", ("Approve", "Reject"), (chosen,), by, by, bench.api.now(), {"conclusion": "fine"}, None
    )
    gate().execute_complete(bench.context(attempt=attempt), {"chosen_options": [chosen]})


@pytest.mark.parametrize(
    ("approvers", "by", "roles"),
    [
        ({}, "bob", ()),
        ({"users": ["bob"]}, "bob", ()),
        ({"roles": ["Approver"]}, "bob", ("Approver",)),
        ({"users": ["carol"], "roles": ["Approver"]}, "bob", ("Approver",)),
    ],
)
def test_whoever_may_approve_signs(
    make_drill: Callable[..., tuple[Bench, Run]], approvers: dict[str, Any], by: str, roles: tuple[str, ...]
) -> None:
    """By name or by role; everybody but the starter if the topology names nobody."""
    bench, drill = make_drill(approvers)
    bench.api.roles[by] = frozenset(roles)
    answer(bench, by)
    (signed,) = drill.progress.facts(DrillSignedOff)
    assert (signed.signed_by, signed.accepted, signed.texts) == (by, True, {"conclusion": "fine"})


@pytest.mark.parametrize(
    ("approvers", "by", "why"),
    [
        ({}, "alice", "alice started the drill and answered sign_off_drill"),
        ({"users": ["alice"]}, "alice", "alice started the drill"),
        ({}, "switchback", "switchback is Switchback's own account"),
        ({"users": ["carol"]}, "bob", "bob is no approver; approvers by the topology: carol"),
        ({"roles": ["Approver"]}, "bob", "bob is no approver; approvers by the topology: role Approver"),
    ],
)
def test_a_signature_of_nobody_who_may_sign_is_noted_and_asked_for_again(
    make_drill: Callable[..., tuple[Bench, Run]], approvers: dict[str, Any], by: str, why: str
) -> None:
    """It counts for nothing; the gate asks again, and an approver's signature then counts."""
    bench, drill = make_drill(approvers)
    with pytest.raises(AirflowException, match="asks again") as caught:
        answer(bench, by)
    assert not isinstance(caught.value, AirflowFailException)
    (ignored,) = drill.progress.facts(AnswerIgnored)
    assert why in ignored.answer_ignored and drill.progress.facts(DrillSignedOff) == []
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context(attempt=2))
    bench.api.roles["carol"] = frozenset({"Approver"})
    if approvers.get("users") != ["alice"]:
        answer(bench, "carol", attempt=2)
        assert [signed.signed_by for signed in drill.progress.facts(DrillSignedOff)] == ["carol"]


def test_a_gate_that_was_answered_in_vain_too_often_ends(make_drill: Callable[..., tuple[Bench, Run]]) -> None:
    """The message says what becomes of the drill, and what to do; close_procedure then closes it unsigned."""
    bench, drill = make_drill({"users": ["carol"]})
    with pytest.raises(AirflowFailException, match=r"asked 6 times.*closed without a signature.*`approvers`"):
        answer(bench, "bob", attempt=6)
    assert drill.progress.facts(DrillSignedOff) == []


def test_a_rejection_counts_whoever_rejects(make_drill: Callable[..., tuple[Bench, Run]]) -> None:
    """As at every gate."""
    bench, drill = make_drill({"users": ["carol"]})
    answer(bench, "bob", "Reject")
    (signed,) = drill.progress.facts(DrillSignedOff)
    assert (signed.signed_by, signed.accepted) == ("bob", False)


def test_a_scheduled_drill_has_no_starter(make_drill: Callable[..., tuple[Bench, Run]]) -> None:
    """Everybody signs it who may approve."""
    bench, drill = make_drill(starter=None)
    answer(bench, "alice")
    assert [signed.signed_by for signed in drill.progress.facts(DrillSignedOff)] == ["alice"]
