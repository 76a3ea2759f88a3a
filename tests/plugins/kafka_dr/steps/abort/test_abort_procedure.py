"""Aborting from outside: who runs returns, nobody goes forward any more, and the outcome says who stopped it and
why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import ProcedureAborted
from kafka_dr.procedure.progress import NotYet
from kafka_dr.steps.abort import return_to_source as abort_return
from kafka_dr.steps.abort.abort_procedure import AbortProcedure
from kafka_dr.steps.abort.close_procedure import CloseAborted
from kafka_dr.steps.abort.return_to_source import ReturnAborted
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(abort_return, "_OWN_RETURN_SECONDS", 0.3)
    return


def abort(bench: Any, run_id: str = "a1") -> None:
    """The whole DAG, as a run of its own."""
    bench.params = {"source": "primary", "target": "standby", "reason": "the shop is open"}
    for kind, step in (
        (AbortProcedure, Step.ABORT_PROCEDURE),
        (ReturnAborted, Step.RETURN_TO_SOURCE),
        (CloseAborted, Step.CLOSE_PROCEDURE),
    ):
        kind(task_id=step.value).execute(bench.context(run_id))


def fences(bench: Any) -> set[str]:
    """The denials on the source."""
    return {str(e) for e in bench.clusters["primary"].acls if e.permission == "deny"}


def told(bench: Any) -> dict[str, Any]:
    """The aborted run's evidence."""
    return json.loads((bench.folder / "evidence" / "planned_failover-r1" / "evidence.json").read_text())


def test_where_nothing_runs_the_abort_returns(bench: Any) -> None:
    """Everything is as it was found, the lease is free, the evidence says who aborted and why."""
    bench.stopped()
    assert fences(bench)
    abort(bench)
    evidence = told(bench)
    assert fences(bench) == set() and bench.workers["standby"].states["p.source"] == "RUNNING"
    assert evidence["outcome"] == "aborted" and evidence["failing_step"] == "abort_procedure"
    assert (evidence["aborted_by"]["by"], evidence["aborted_by"]["reason"]) == ("alice", "the shop is open")
    assert bench.journal.lease("primary+standby").outcome == "aborted"


def test_an_abort_acknowledges_no_cool_down(bench: Any) -> None:
    """Nobody shall believe that it waives the one that follows: refused by name, and nothing is aborted; a null says
    nothing.
    """
    bench.stopped()
    before = bench.journal.entries()
    bench.params |= {"acknowledge_cool_down": "at once"}
    with pytest.raises(
        AirflowFailException, match="acknowledge_cool_down: this procedure does not take it.*nothing was aborted"
    ):
        AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
    assert bench.journal.entries() == before and fences(bench)
    bench.params |= {"acknowledge_cool_down": None}
    AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
    assert bench.procedure().progress.done(ProcedureAborted) is not None


def test_an_unknown_starter_may_abort(bench: Any) -> None:
    """The safe direction is refused to nobody; that nobody is known is written down."""
    bench.stopped()
    bench.api.starter = None
    abort(bench)
    assert told(bench)["aborted_by"]["by"] == "unknown"


def test_no_step_goes_forward_after_the_abort(bench: Any) -> None:
    """Every step of the aborted run refuses, names who aborted, and touches nothing."""
    bench.stopped()
    bench.params = {"source": "primary", "target": "standby", "reason": "stop"}
    AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
    before = fences(bench)
    for kind, step in ((DrainConsumers, Step.DRAIN_CONSUMERS), (OpenTarget, Step.OPEN_TARGET)):
        with pytest.raises(AirflowFailException, match="alice aborted the procedure"):
            kind(task_id=step.value).execute(bench.context())
    assert fences(bench) == before and bench.kinds(Step.OPEN_TARGET) == [Entry.REFUSAL]


def test_a_wait_ends_with_the_abort(bench: Any) -> None:
    """A step in the middle of a wait sees the abort at its next look."""
    procedure = bench.planned()

    def look() -> None:
        bench.params = {"source": "primary", "target": "standby", "reason": "stop"}
        AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
        raise NotYet("lag")

    with pytest.raises(Refusal, match="aborted"):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", look, 30)


def test_the_runs_own_return_counts(bench: Any) -> None:
    """The run saw the abort and returned by itself: nothing is asked for twice, and the outcome is aborted either
    way.
    """
    bench.stopped()
    bench.params = {"source": "primary", "target": "standby", "reason": "stop"}
    AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    asked = list(bench.workers["standby"].asked)
    with pytest.raises(AirflowFailException, match="aborted: abort_procedure: alice aborted the procedure: stop"):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    first = told(bench)
    ReturnAborted(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context("a1"))
    CloseAborted(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context("a1"))
    assert bench.workers["standby"].asked == asked and told(bench) == first


def test_aborting_twice_is_aborting_once(bench: Any) -> None:
    """The first one's name and reason stay."""
    bench.stopped()
    bench.params = {"source": "primary", "target": "standby", "reason": "first"}
    AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
    bench.params["reason"] = "second"
    AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a2"))
    assert bench.procedure().progress.done(ProcedureAborted).reason == "first"


@pytest.mark.parametrize("outcome", [False, True], ids=["begun", "done"])
def test_past_the_point_of_no_return_there_is_no_abort(bench: Any, outcome: bool) -> None:
    """open_target's intent is enough; nothing is written down."""
    procedure = bench.stopped()
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"removes_acl_entries": []})
    if outcome:
        procedure.authority.write(Step.OPEN_TARGET, Entry.OUTCOME, {})
    bench.params = {"source": "primary", "target": "standby", "reason": "stop"}
    with pytest.raises(AirflowFailException, match="point of no return"):
        AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
    assert bench.procedure().progress.done(ProcedureAborted) is None and fences(bench)


def test_nothing_to_abort_is_said(bench: Any) -> None:
    """No procedure ever held the pair."""
    with pytest.raises(AirflowFailException, match=r"No procedure holds primary\+standby"):
        AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))


def test_what_has_ended_is_not_aborted(bench: Any) -> None:
    """The newest procedure of the pair released its lease: refused."""
    procedure = bench.opened()
    bench.journal.release_lease("primary+standby", procedure.id, procedure.lease.epoch, "completed")
    with pytest.raises(AirflowFailException, match="outcome completed"):
        AbortProcedure(task_id=Step.ABORT_PROCEDURE.value).execute(bench.context("a1"))
