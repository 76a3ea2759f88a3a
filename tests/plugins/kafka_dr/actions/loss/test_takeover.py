"""A planned failover whose source died is continued: one of both holds the lease, and only what is proven
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.loss.takeover import take_over
from kafka_dr.errors import BadInput, LeaseLost
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.run import Run
from kafka_dr.steps.abort.abort_procedure import AbortProcedure
from kafka_dr.steps.abort.close_procedure import CloseAborted
from kafka_dr.steps.abort.return_to_source import ReturnAborted
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.steps.planned.wait_for_zero_lag import WaitForZeroLag
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.steps.unplanned.fence_source import FenceSource
from kafka_dr.steps.unplanned.stop_mirror_maker import StopLeftMirrorMaker
from kafka_dr.vocabulary import Entry, Step

from tests.plugins.kafka_dr.actions.loss.dead_source import (
    ASSESS,
    EARLIER,
    LATER,
    OPEN,
    TRANSLATE,
    as_earlier,
    as_later,
    close,
    continued,
    ended,
    evidence,
    lost,
    mirrored,
    page,
    planned,
    taken,
)
from tests.support.bench import FENCE, PAIR
from tests.support.facts import figures_of

# -- the lease -----------------------------------------------------------------------------------------------------


def test_the_lease_moves_and_both_journals_say_so(died: Any) -> None:
    """Under a new epoch; who continues whom stands in both."""
    before = died.journal.lease(PAIR).epoch
    procedure = continued(died)
    lease = died.journal.lease(PAIR)
    assert (lease.holder, lease.released_at) == (LATER, None) and lease.epoch > before
    assert died.entries(OPEN, "u1")[0].payload["continues"] == {"procedure_id": EARLIER, "fenced": True}
    assert died.journal.last(EARLIER, OPEN, Entry.NOTE).payload == {"continued_by": LATER}
    assert procedure.progress.continues == EARLIER and died.journal.verify() is None


def test_a_cool_down_that_the_planned_run_did_not_wait_for_is_told_on(died: Any) -> None:
    """The move is the same: its approver reads the planned run's reason, and nothing has to be acknowledged anew."""
    told = {
        "procedure_id": "p-0",
        "outcome": "completed",
        "ended_at": "2026-11-20T12:00:00+00:00",
        "ends_at": "2026-11-20T12:15:00+00:00",
        "acknowledged": "why",
    }
    opened = died.entries(OPEN)[0]
    died.journal.append(
        EARLIER, OPEN, Entry.OPENED, died.journal.lease(PAIR).epoch, {**opened.payload, "cool_down": told}
    )
    assert continued(died).progress.cool_down == told


CLEARED = {
    Step.WAIT_FOR_ZERO_LAG: WaitForZeroLag,
    Step.DRAIN_CONSUMERS: DrainConsumers,
    Step.RETURN_TO_SOURCE: ReturnToSource,
    OPEN: OpenProcedure,
    Step.CLOSE_PROCEDURE: CloseProcedure,
}


@pytest.mark.parametrize("step", CLEARED)
def test_no_step_of_the_planned_run_goes_on(died: Any, step: Step) -> None:
    """It refuses and says who goes on; nothing is written or touched, and its evidence stays what it was."""
    continued(died)
    as_earlier(died)
    died.clusters["primary"].away = False
    before = died.journal.entries(EARLIER)
    with pytest.raises(AirflowFailException, match=f"{EARLIER} is continued by {LATER}"):
        CLEARED[step](task_id=step.value).execute(died.context("r1", attempt=2))
    assert died.journal.entries(EARLIER) == before and FENCE in died.clusters["primary"].acls


def test_a_process_of_the_planned_run_that_still_lives_acts_no_more(make: Any) -> None:
    """Its epoch is an older one: it can neither act nor write, and lifts no fence."""
    bench = make()
    process = planned(bench)
    process.authority.hold()
    continued(bench)
    with pytest.raises(LeaseLost, match=f"is continued by {LATER}"):
        process.authority.hold()
    for act in (
        process.lease.take_new_epoch,
        lambda: process.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True}),
        lambda: ReturnToSource(task_id="return_to_source")._give_back(process),
    ):
        bench.clusters["primary"].away = False
        with pytest.raises(LeaseLost):
            act()
    assert FENCE in bench.clusters["primary"].acls


@pytest.mark.parametrize("writes", range(1, 6))
def test_killed_after_each_write_it_ends_in_the_same_state(
    died: Any, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The lease and the planned run's note are one write; the rest is made good when the step runs again."""
    count = [0]

    def dying(name: str) -> Callable[..., Any]:
        write = getattr(Journal, name)

        def call(self: Journal, *args: Any, **kwargs: Any) -> Any:
            done = write(self, *args, **kwargs)
            count[0] += 1
            if count[0] == writes:
                raise MemoryError
            return done

        return call

    with monkeypatch.context() as killed:
        for name in ("append", "take_lease", "pass_lease"):
            killed.setattr(Journal, name, dying(name))
        with pytest.raises(MemoryError):
            continued(died)
    continued(died)
    assert died.journal.lease(PAIR).holder == LATER and figures_of(died.procedure("u1"), OPEN)
    assert [e.payload for e in died.journal.entries(EARLIER, OPEN, Entry.NOTE)] == [{"continued_by": LATER}]
    assert {e.payload["continues"]["procedure_id"] for e in died.journal.entries(LATER, OPEN, Entry.OPENED)} == {
        EARLIER
    }
    died.procedure("u1").authority.hold()


def opened_target(bench: Any) -> None:
    """The planned run had begun to open the target."""
    bench.procedure("r1").authority.write(Step.OPEN_TARGET, Entry.INTENT, {"removes_acl_entries": []})


def aborted(bench: Any) -> None:
    """Somebody aborted it."""
    bench.procedure("r1").authority.write(
        Step.ABORT_PROCEDURE, Entry.ABORT, {"by": "carol", "reason": "no", "run_id": "a1", "at": "now"}
    )


REFUSED = {
    "it is past the point of no return": (
        opened_target,
        {},
        "open_target of planned_failover-r1 has begun.*Clear the failed task",
    ),
    "it was aborted": (aborted, {}, "carol aborted planned_failover-r1.*return_to_source"),
    "it has ended": (ended, {}, "no procedure holds the lease on the clusters.*without continue_procedure"),
    "another one holds the pair": (taken, {}, "planned_failover-r2 holds the lease on the clusters"),
    "there is no such run": (
        lambda bench: None,
        {"continue_procedure": "planned_failover-r9"},
        "planned_failover-r9 cannot be continued.*holds no procedure with this id",
    ),
    "it went the other way": (
        lambda bench: None,
        {"source": "standby", "target": "primary"},
        "planned_failover-r1 is a planned_failover from primary to standby",
    ),
}


@pytest.mark.parametrize(("change", "params", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_continued_is_refused(died: Any, change: Any, params: dict[str, Any], said: str) -> None:
    """Nothing is taken; the run is closed as refused, and says why and what to do."""
    change(died)
    before = died.journal.lease(PAIR)
    as_later(died)
    died.params = died.params | params
    with pytest.raises(AirflowFailException, match=f"cannot be continued.*{said}" if "cannot" not in said else said):
        OpenProcedure(task_id=OPEN.value).execute(died.context("u1"))
    assert died.journal.lease(PAIR) == before and died.kinds(OPEN, "u1") == [Entry.REFUSAL]
    close(died, outcome="refused: open_procedure")
    assert died.journal.lease(PAIR) == before


def test_only_a_planned_failover_is_continued(make_bench: Any) -> None:
    """Not one that was without its source from the beginning."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.opened("u0")
    bench.params = bench.params | {"continue_procedure": "unplanned_failover-u0"}
    with pytest.raises(
        AirflowFailException,
        match="is a unplanned_failover from primary to standby.*is a planned_failover or re_replicate_topics with the"
        " same",
    ):
        OpenProcedure(task_id=OPEN.value).execute(bench.context("u1"))


def test_a_run_that_works_on_while_it_is_looked_at_keeps_its_lease(died: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have begun to open the target just then."""
    pass_lease, process = Journal.pass_lease, died.procedure("r1")

    def late(self: Journal, *args: Any, **kwargs: Any) -> Any:
        process.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"removes_acl_entries": []})
        return pass_lease(self, *args, **kwargs)

    monkeypatch.setattr(Journal, "pass_lease", late)
    as_later(died)
    with pytest.raises(
        AirflowFailException, match="planned_failover-r1 is still at work.*open_target wrote to the journal"
    ):
        OpenProcedure(task_id=OPEN.value).execute(died.context("u1"))
    assert died.journal.lease(PAIR).holder == EARLIER and not died.journal.entries(EARLIER, OPEN, Entry.NOTE)


def test_who_is_refused_the_lease_is_told_how_to_go_on(died: Any) -> None:
    """Where a planned run of this direction holds it, and not where it cannot be continued."""
    died.dag_id = "unplanned_failover"
    with pytest.raises(
        AirflowFailException,
        match=("another procedure holds the lease.*continue_procedure=planned_failover-r1. Otherwise wait until"),
    ):
        OpenProcedure(task_id=OPEN.value).execute(died.context("u1"))
    died.dag_id = "planned_failover"
    opened_target(died)
    died.dag_id = "unplanned_failover"
    with pytest.raises(AirflowFailException, match="another procedure holds the lease") as told:
        OpenProcedure(task_id=OPEN.value).execute(died.context("u2"))
    assert "continue_procedure" not in str(told.value)


def test_only_an_unplanned_failover_takes_the_param(bench: Any) -> None:
    """And only a name that a folder may have."""
    bench.params = bench.params | {"continue_procedure": EARLIER}
    with pytest.raises(BadInput, match="continue_procedure"):
        bench.procedure()
    bench.dag_id, bench.params = "unplanned_failover", bench.params | {"continue_procedure": "../r1"}
    with pytest.raises(BadInput) as told:
        bench.procedure()
    assert "expected a procedure id" in str(told.value)


# -- when it does not get there ------------------------------------------------------------------------------------


def test_a_continuation_that_is_refused_gives_the_lease_back(died: Any) -> None:
    """The source answers after all: the planned run's own return lifts its fence, and both pages say what is so."""
    continued(died)
    refusal = {"error": "SourceNotLost", "reason": "The source still answers", "seen": "", "next_step": ""}
    died.procedure("u1").authority.write(Step.CONFIRM_SOURCE_LOST, Entry.INTENT, {"try": 1})
    died.procedure("u1").authority.write(Step.CONFIRM_SOURCE_LOST, Entry.REFUSAL, refusal)
    ReturnToSource(task_id="return_to_source").execute(died.context("u1"))
    close(died, outcome="refused: confirm_source_lost")
    lease = died.journal.lease(PAIR)
    assert (lease.holder, lease.released_at) == (EARLIER, None) and FENCE in died.clusters["primary"].acls
    found = died.journal.last(EARLIER, OPEN, Entry.NOTE).payload
    assert found == {"continued_by": None, "given_back_by": LATER, "outcome": "refused"}
    told = evidence(died, LATER)
    assert told["continues"] == {"procedure_id": EARLIER, "fenced": True} and told["continued_by"] is None
    assert (
        f"Clients are as {EARLIER} left them: primary stays fenced until return_to_source of {EARLIER} is done."
        in page(died, LATER)
    )
    assert (
        f"clear return_to_source of {EARLIER}: that step lifts the fence on primary. If primary stays lost, start a new"
        f" run of unplanned_failover with continue_procedure={EARLIER}." in page(died, LATER)
    )
    close(died, outcome="refused: confirm_source_lost")
    assert died.journal.lease(PAIR) == lease
    as_earlier(died)
    died.clusters["primary"].away = False
    ReturnToSource(task_id="return_to_source").execute(died.context("r1"))
    close(died, "r1", outcome="returned")
    assert FENCE not in died.clusters["primary"].acls and died.journal.lease(PAIR).outcome == "returned"


def test_what_was_given_back_can_be_continued_again(died: Any) -> None:
    """By another run; the one that has ended takes nothing any more."""
    continued(died)
    ReturnToSource(task_id="return_to_source").execute(died.context("u1"))
    close(died, outcome="refused")
    OpenProcedure(task_id=OPEN.value).execute(died.context("u1"))
    assert died.journal.lease(PAIR).holder == EARLIER
    with pytest.raises(LeaseLost, match="does not hold the lease on the clusters"):
        died.procedure("u1").authority.hold()
    OpenProcedure(task_id=OPEN.value).execute(died.context("u2"))
    assert died.journal.lease(PAIR).holder == "unplanned_failover-u2"


def test_a_lease_taken_over_before_a_crash_is_given_back(died: Any) -> None:
    """open_procedure died with the lease in hand and is not tried again."""
    as_later(died)
    take_over(died.procedure("u1"))
    close(died, outcome="refused")
    assert died.journal.lease(PAIR).holder == EARLIER


def left_by(bench: Any) -> Run:
    """A continuation that has armed its source and stopped nothing, since all stood still, and that turns back."""
    procedure = continued(bench)
    lost(bench, procedure)
    AssessDataLoss(task_id=ASSESS.value).execute(bench.context("u1"))
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures_of(bench.procedure('u1'), ASSESS)['plan_digest']}")
    bench.done(bench.procedure("u1"), Step.APPROVE_DATA_LOSS, asked=True)
    FenceSource(task_id="fence_source").execute(bench.context("u1"))
    StopLeftMirrorMaker(task_id="stop_mirror_maker").execute(bench.context("u1"))
    return bench.procedure("u1")


def test_its_return_undoes_only_what_it_did_itself(died: Any) -> None:
    """Connectors that the planned run had stopped stay stopped, its fence stays, and no application is told to go
    on.
    """
    left_by(died)
    ReturnToSource(task_id="return_to_source").execute(died.context("u1"))
    told = died.entries(Step.RETURN_TO_SOURCE, "u1")[-1].payload
    assert told["touched"] is True and told["connectors_resumed"] == [] and told["drain_hook"] == {"told": False}
    assert died.workers["standby"].asked == [] and FENCE in died.clusters["primary"].acls
    close(died, outcome="returned")
    assert died.journal.lease(PAIR).holder == EARLIER and "primary stays fenced" in page(died, LATER)


def test_a_connector_that_it_stopped_itself_runs_again(make: Any) -> None:
    """The planned run had not come so far."""
    bench = make()
    mirrored(bench, 80)
    planned(bench, Step.DRAIN_CONSUMERS)
    bench.workers["standby"].states["p.checkpoint"] = "STOPPED"
    left_by(bench)
    ReturnToSource(task_id="return_to_source").execute(bench.context("u1"))
    assert bench.workers["standby"].asked == [("stop", "p.source"), ("resume", "p.source")]


@pytest.mark.parametrize("first", ["its own run", "the abort"])
def test_an_aborted_continuation_gives_the_lease_back(died: Any, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """Whoever closes it; the abort is green, and never takes the planned run for the aborted one."""
    monkeypatch.setattr("kafka_dr.steps.abort.return_to_source._OWN_RETURN_SECONDS", 0.1)
    left_by(died)
    steps = [
        (AbortProcedure, Step.ABORT_PROCEDURE),
        (ReturnAborted, Step.RETURN_TO_SOURCE),
        (CloseAborted, Step.CLOSE_PROCEDURE),
    ]
    own = died.params
    for kind, step in steps:
        if kind is CloseAborted and first == "its own run":
            died.params = own
            close(died, outcome="aborted")
        died.params = {"source": "primary", "target": "standby", "reason": "no"}
        kind(task_id=step.value).execute(died.context("a1"))
    assert evidence(died, LATER)["outcome"] == "aborted" and died.journal.lease(PAIR).holder == EARLIER
    assert died.journal.lease(PAIR).released_at is None and not died.journal.entries(EARLIER, Step.CLOSE_PROCEDURE)


# -- when it does --------------------------------------------------------------------------------------------------


def beyond_the_opening(bench: Any) -> Run:
    """A continuation that has opened the target."""
    procedure = left_by(bench)
    for step, told in (
        (TRANSLATE, {"digest": "t", "holes": [], "cut": [], "classes": {"END": 1}, "bound": 0, "repeats": {}}),
        (Step.OPEN_TARGET, {}),
        (Step.REDIRECT_CLIENTS, {}),
    ):
        bench.done(procedure, step, **told)
    return procedure


def test_a_completed_continuation_ends_both(died: Any) -> None:
    """The lease is free; the planned run's evidence says by whom it was continued, and is what the journal knows."""
    procedure = beyond_the_opening(died)
    died.done(procedure, Step.VERIFY_CLIENTS)
    close(died)
    assert (died.journal.lease(PAIR).holder, died.journal.lease(PAIR).outcome) == (LATER, "completed")
    told = evidence(died, EARLIER)
    assert (told["outcome"], told["continued_by"]) == ("failed", LATER)
    assert died.journal.last(EARLIER, Step.CLOSE_PROCEDURE, Entry.CLOSED).payload["digest"] == told["digest"]
    text = page(died, EARLIER)
    assert f"was continued by {LATER}" in text and f"The evidence of {LATER} states where clients are." in text
    assert "still holds the lease on" not in text
    close(died)
    assert evidence(died, EARLIER) == told
    as_earlier(died)
    close(died, "r1", outcome=f"is continued by {LATER}")


def test_a_continuation_that_fails_after_the_opening_keeps_the_lease(died: Any) -> None:
    """There is only forward; the planned run is over all the same."""
    beyond_the_opening(died)
    close(died, outcome="failed")
    assert (died.journal.lease(PAIR).holder, died.journal.lease(PAIR).released_at) == (LATER, None)
    assert evidence(died, EARLIER)["continued_by"] == LATER


def test_the_evidence_has_the_cut_off_that_was_taken_over(died: Any) -> None:
    """Beside its own boundary."""
    beyond_the_opening(died)
    close(died, outcome="failed")
    told = evidence(died, LATER)
    assert told["cut_off"] == told["boundary"] == [{"topic": "orders", "partition": 0, "offset": 100}]


# -- what was proven -----------------------------------------------------------------------------------------------


# -- the translation -----------------------------------------------------------------------------------------------


# -- a source that can be read -------------------------------------------------------------------------------------
