"""The base of every step: nothing happens without lease, predecessors and intent; everything that happens is
written.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from kafka_dr.errors import ConnectUnavailable, DeadlinePassed, FenceNotProven, ReadBackFailed, SwitchbackError
from kafka_dr.procedure.entries import ZeroLagProven
from kafka_dr.procedure.progress import WaitLonger
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Entry, Step


class Act(ProcedureStep):
    """A step that counts its acts and may fail."""

    def __init__(self, error: Exception | None = None, bench: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error, self.acts, self.bench, self.before_act = error, 0, bench, []

    def act(self, procedure: Run, context: Any) -> ZeroLagProven:
        """Count, or fail as told."""
        self.acts += 1
        if self.bench:
            self.before_act = self.bench.kinds(self.task_id)
        if self.error:
            raise self.error
        return ZeroLagProven(partitions=self.acts, proofs={})


class Expiring(Act):
    """The same, but what it proved may expire."""

    expires = True


def after(predecessor: str, **kwargs: Any) -> Act:
    """A step with one predecessor."""
    with DAG("chain"):
        step = Act(task_id="forecast", **kwargs)
        Act(task_id=predecessor) >> step
    return step


def test_intent_then_act_then_outcome(bench: Any) -> None:
    """The intent is on disk before the act, the outcome with the figures after it."""
    bench.opened()
    step = Act(task_id="forecast", bench=bench)
    assert step.execute(bench.context()) == {"done": "forecast"}
    assert step.before_act == [Entry.INTENT]
    assert bench.kinds("forecast") == [Entry.INTENT, Entry.OUTCOME]
    assert bench.entries("forecast")[-1].payload == {"partitions": 1, "proofs": {}}


def test_a_done_step_is_not_repeated(bench: Any) -> None:
    """Executed twice, a step acts once and writes nothing more."""
    bench.opened()
    step = Act(task_id="forecast")
    step.execute(bench.context())
    step.execute(bench.context())
    assert (step.acts, bench.kinds("forecast")) == (1, [Entry.INTENT, Entry.OUTCOME])


def test_an_expiring_step_looks_again(bench: Any) -> None:
    """What may have changed is looked at again."""
    bench.opened()
    step = Expiring(task_id="fence_producers")
    step.execute(bench.context())
    step.execute(bench.context())
    assert step.acts == 2


def test_a_predecessor_marked_successful_by_hand_is_refused(bench: Any) -> None:
    """Without the predecessor's outcome in the journal nothing is done, and the refusal names it."""
    bench.opened()
    step = after("check_readiness")
    with pytest.raises(AirflowFailException, match="check_readiness did not happen"):
        step.execute(bench.context())
    assert (step.acts, bench.kinds("forecast")) == (0, [Entry.REFUSAL])


def test_the_error_names_the_heading_of_the_step(bench: Any) -> None:
    """Last in the message, without a full stop behind it; a failure before the lease was checked names it, too."""
    bench.opened()
    step = Act(error=ConnectUnavailable("Connect did not answer", "timeout", "Start Connect"), task_id="forecast")
    said = (
        r"^Connect did not answer\. Seen: timeout\. Next: Start Connect\. Page: runbooks/stuck_procedure\.md#forecast$"
    )
    with pytest.raises(AirflowException, match=said):
        step.execute(bench.context())
    assert bench.entries("forecast")[-1].payload["next_step"] == "Start Connect"
    with pytest.raises(AirflowFailException, match=r"Page: runbooks/stuck_procedure\.md#open_target$"):
        Act(task_id="open_target").execute(bench.context("r2"))


def test_a_predecessor_that_happened_lets_the_step_act(bench: Any) -> None:
    """With the outcome there the step acts."""
    bench.done(bench.opened(), "check_readiness")
    step = after("check_readiness")
    step.execute(bench.context())
    assert step.acts == 1


def test_without_a_lease_nothing_is_done(bench: Any) -> None:
    """open_procedure marked successful by hand gives no lease: refused, not retried."""
    step = Act(task_id="check_readiness")
    with pytest.raises(AirflowFailException, match="holds no lease"):
        step.execute(bench.context())
    assert step.acts == 0


def test_a_lost_lease_stops_the_step(bench: Any) -> None:
    """Another procedure took the pair: no act, and no retry either."""
    old = bench.opened("r1")
    bench.journal.release_lease("primary+standby", old.id, old.lease.epoch, "refused")
    bench.opened("r2")
    step = Act(task_id="forecast")
    with pytest.raises(AirflowFailException, match="r1"):
        step.execute(bench.context("r1"))
    assert step.acts == 0


def test_a_released_lease_stops_the_step(bench: Any) -> None:
    """A procedure that has ended does not act any more, even if nobody took the pair since."""
    old = bench.opened()
    bench.journal.release_lease("primary+standby", old.id, old.lease.epoch, "refused")
    step = Act(task_id="forecast")
    with pytest.raises(AirflowFailException):
        step.execute(bench.context())
    assert (step.acts, bench.kinds("forecast")) == (0, [Entry.REFUSAL])


@pytest.mark.parametrize(
    "error", [FenceNotProven("open", "User:app", "look"), DeadlinePassed("late"), ReadBackFailed("differs")]
)
def test_a_refusal_ends_the_step_at_once(bench: Any, error: SwitchbackError) -> None:
    """What would give the same answer again is not retried, and stands in the journal with what was seen and what to
    do.
    """
    bench.opened()
    with pytest.raises(AirflowFailException):
        Act(error=error, task_id="forecast").execute(bench.context())
    last = bench.entries("forecast")[-1]
    assert last.kind == (Entry.REFUSAL if isinstance(error, FenceNotProven) else Entry.FAILURE)
    assert last.payload == {
        "error": type(error).__name__,
        "reason": error.reason,
        "seen": error.seen,
        "next_step": error.next_step,
    }


def test_what_did_not_answer_is_tried_again(bench: Any) -> None:
    """An outside system that did not answer is Airflow's to retry; the next try has its own intent and can succeed."""
    bench.opened()
    step = Act(error=ConnectUnavailable("no answer"), task_id="forecast")
    with pytest.raises(AirflowException) as caught:
        step.execute(bench.context())
    assert not isinstance(caught.value, AirflowFailException)
    step.error = None
    step.execute(bench.context(attempt=2))
    assert bench.kinds("forecast") == [Entry.INTENT, Entry.FAILURE, Entry.INTENT, Entry.OUTCOME]
    assert [e.payload["try"] for e in bench.entries("forecast") if e.kind == Entry.INTENT] == [1, 2]


def test_without_a_try_number_there_is_one_try(bench: Any) -> None:
    """A context without a task instance counts as the first try."""
    bench.opened()
    context = {k: v for k, v in bench.context().items() if k != "ti"}
    Act(task_id="forecast").execute(context)
    assert bench.entries("forecast")[0].payload == {"try": 1}


def test_a_journal_that_cannot_be_written_stops_everything(bench: Any) -> None:
    """Without a journal there is no action, and it is tried again."""
    bench.opened()
    bench.url = f"sqlite:///{bench.folder}/no/such/folder/journal.db"
    step = Act(task_id="forecast")
    with pytest.raises(AirflowException) as caught:
        step.execute(bench.context())
    assert step.acts == 0 and not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(
    "change",
    [{"source": "nowhere"}, {"target": "primary"}, {"reason": " "}, {"topics": "orders"}, {"max_fence_second": 5}],
)
def test_bad_params_are_refused_before_anything_is_touched(bench: Any, change: dict[str, Any]) -> None:
    """Unknown clusters, equal ends, no reason, a narrower choice, a misspelt param: refused, and not even a journal
    is made.
    """
    bench.params = bench.params | change
    step = Act(task_id="forecast")
    with pytest.raises(AirflowFailException):
        step.execute(bench.context())
    assert step.acts == 0 and not (bench.folder / "journal.db").exists()


def test_a_long_wait_gives_the_slot_back_and_looks_again(bench: Any) -> None:
    """A wait beyond the step's patience defers; woken, the step acts again and can end."""
    bench.opened()
    step = Act(error=WaitLonger("not yet"), task_id="wait_for_zero_lag")
    with pytest.raises(TaskDeferred) as deferred:
        step.execute(bench.context())
    assert deferred.value.method_name == "resume"
    step.error = None
    assert step.resume(bench.context(), {}) == {"done": "wait_for_zero_lag"}
    assert bench.kinds("wait_for_zero_lag") == [Entry.INTENT, Entry.OUTCOME]


def test_a_woken_step_remembers_how_long_a_system_is_away(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow hands the time back, so that many short waits do not outlast `outage_seconds` together."""
    monkeypatch.setattr("kafka_dr.procedure.progress.PATIENCE_SECONDS", 0.0)
    bench.opened()
    step = Act(error=ConnectUnavailable("no answer", may_pass=True), task_id="forecast")
    with pytest.raises(TaskDeferred) as deferred:
        step.execute(bench.context())
    outlasted = deferred.value.kwargs["outlasted"]
    with pytest.raises(TaskDeferred) as again:
        step.resume(bench.context(), {}, outlasted=outlasted)
    assert again.value.kwargs["outlasted"] > outlasted >= 5
    with pytest.raises(AirflowException) as ended:
        step.resume(bench.context(), {}, outlasted=86_400)
    assert not isinstance(ended.value, AirflowFailException) and step.acts == 3
    assert bench.kinds("forecast") == [Entry.INTENT, Entry.FAILURE]


def test_the_fence_clock_stops_every_step(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once clients have been fenced for max_fence_seconds no step before the opening acts."""
    procedure = bench.opened()
    bench.done(procedure, Step.FENCE_PRODUCERS)
    bench.change_params(max_fence_seconds=0.001)
    step = Act(task_id="commit_groups")
    with pytest.raises(AirflowFailException, match="fenced for as long as allowed"):
        step.execute(bench.context())
    assert (step.acts, bench.kinds("commit_groups")) == (0, [Entry.FAILURE])


def test_the_fence_clock_ends_with_the_opening(bench: Any) -> None:
    """Past the point of no return there is only forward: the clock stops nobody."""
    procedure = bench.opened()
    bench.done(procedure, Step.FENCE_PRODUCERS)
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {})
    bench.change_params(max_fence_seconds=0.001)
    step = Act(task_id="redirect_clients")
    step.execute(bench.context())
    assert step.acts == 1


def test_an_unexpected_error_is_not_swallowed(bench: Any) -> None:
    """A fault of our own fails the task; the step has no outcome."""
    bench.opened()
    with pytest.raises(ZeroDivisionError):
        Act(error=ZeroDivisionError(), task_id="forecast").execute(bench.context())
    assert Entry.OUTCOME not in bench.kinds("forecast")


def test_an_unexpected_error_is_written(bench: Any) -> None:
    """Invariant 1 of the evidence: what is said about a failed step is what happened to it."""
    bench.opened()
    with pytest.raises(ZeroDivisionError):
        Act(error=ZeroDivisionError(), task_id="forecast").execute(bench.context())
    assert bench.kinds("forecast") == [Entry.INTENT, Entry.FAILURE]
