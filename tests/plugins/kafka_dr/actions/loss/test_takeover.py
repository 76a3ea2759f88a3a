"""A planned failover whose source died is continued: one of both holds the lease, and only what is proven
counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.domain.loss.loss_plan import loss_markdown
from kafka_dr.domain.readiness.plan import cell
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.errors import BadInput, LeaseLost
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.steps.abort.abort_procedure import AbortProcedure, CloseAborted, ReturnAborted
from kafka_dr.actions.loss.assessment import AssessDataLoss
from kafka_dr.actions.loss.takeover import take_over
from kafka_dr.actions.evidence import CloseProcedure
from kafka_dr.actions.fencing.acl_fence import DrainConsumers, positions_frame
from kafka_dr.actions.old_source.lost_source_fence import FenceSource
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.actions.replication.drain import WaitForZeroLag
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.unplanned.without_source import StopLeftMirrorMaker, TranslateWithoutSource
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

from tests.support.lost_source import Recorder, held, seen
from tests.support.bench import FENCE, GRANT, ORDERS, PAIR
from tests.support.facts import figures_of

EARLIER, LATER = "planned_failover-r1", "unplanned_failover-u1"
OPEN, ASSESS, TRANSLATE = Step.OPEN_PROCEDURE, Step.ASSESS_DATA_LOSS, Step.TRANSLATE_OFFSETS
PROVING = (
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.WAIT_FOR_ZERO_LAG,
    Step.STOP_MIRROR_MAKER,
    Step.TRANSLATE_OFFSETS,
)
AWAY = {"error": "KafkaUnavailable", "reason": "asking primary failed", "seen": "no answer", "next_step": "look"}
MISSING = [
    {"topic": "orders", "partition": 0, "from_offset": 30, "to_offset": 33, "records": 3, "reason": "not on the target"}
]


def mirrored(bench: Any, count: int) -> None:
    """The target's log: so many different records."""
    bench.clusters["standby"].log_ends[ORDERS] = count
    bench.clusters["standby"].records[ORDERS] = {offset: f"{offset}" for offset in range(count)}


def planned(
    bench: Any,
    until: Step | None = Step.TRANSLATE_OFFSETS,
    fenced_at: str | None = "now",
    holes: list[dict[str, Any]] = [],
) -> Run:
    """A planned run that got as far as one of its proving steps; its source ended at 100, and died in the next step."""
    source = bench.clusters["primary"]
    source.log_ends[ORDERS], source.committed = (
        100,
        {
            "billing": {ORDERS: Position(100)},
            "audit": {ORDERS: Position(60)},
        },
    )
    bench.clusters["standby"].log_ends.setdefault(ORDERS, 100)
    procedure = bench.planned(groups=("billing", "audit"))
    reached = PROVING[: PROVING.index(until) + 1] if until else ()
    for step in reached:
        prove(bench, procedure, step, fenced_at, holes)
    procedure.authority.write(
        PROVING[len(reached)] if len(reached) < len(PROVING) else Step.COMMIT_GROUPS, Entry.INTENT, {"try": 1}
    )
    procedure.authority.write(
        PROVING[len(reached)] if len(reached) < len(PROVING) else Step.COMMIT_GROUPS, Entry.FAILURE, AWAY
    )
    source.away = True
    return procedure


def prove(
    bench: Any, procedure: Run, step: Step, fenced_at: str | None = "now", holes: list[dict[str, Any]] = []
) -> None:
    """One proving step of the planned run is done."""
    source, target = bench.clusters["primary"], bench.clusters["standby"]
    if step is Step.FENCE_PRODUCERS:
        procedure.authority.write(step, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
        source.acls |= {GRANT, FENCE}
        ends = partitions_frame({ORDERS: source.log_ends[ORDERS]}, "offset")
        cut_off = procedure.artifacts.save("cut_off", ends)
        bench.done(procedure, step, cut_off=cut_off, fenced_at=fenced_at and procedure.now())
    elif step is Step.DRAIN_CONSUMERS:
        bench.done(
            procedure,
            step,
            groups=["audit", "billing"],
            positions=procedure.artifacts.save("source_positions", positions_frame(procedure, ["audit", "billing"])),
        )
    elif step is Step.WAIT_FOR_ZERO_LAG:
        bench.done(procedure, step)
    elif step is Step.STOP_MIRROR_MAKER:
        bench.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "STOPPED"))
        bench.done(
            procedure,
            step,
            boundary=procedure.artifacts.save(
                "boundary", partitions_frame({ORDERS: target.log_ends[ORDERS]}, "offset")
            ),
        )
    else:
        bench.done(procedure, step, holes=holes)


def continued(bench: Any) -> Run:
    """From now on the bench's steps are those of the run that continues; its open_procedure is done."""
    as_later(bench)
    OpenProcedure(task_id=OPEN.value).execute(bench.context("u1"))
    return bench.procedure("u1")


def as_later(bench: Any) -> None:
    """From now on the bench's steps are those of the run that continues."""
    bench.dag_id, bench.params = "unplanned_failover", bench.params | {"continue_procedure": EARLIER}


def as_earlier(bench: Any) -> None:
    """From now on the bench's steps are those of the planned run."""
    bench.dag_id, bench.params = (
        "planned_failover",
        {name: value for name, value in bench.params.items() if name != "continue_procedure"},
    )


def lost(bench: Any, procedure: Run, state: str = "lost") -> None:
    """Its source is confirmed to be lost."""
    told = {
        "override": None if state == "lost" else "why",
        "overridden": state != "lost",
        "verdict": {"state": state, "rounds": 3, "views": []},
        "window_seconds": 1.0,
    }
    bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state=state, **told)


@pytest.fixture
def make(make_bench: Callable[..., Any], without_spark: Any, quick_path: Path) -> Callable[..., Any]:
    """Makes a bench on which both jobs run without Spark, with or without a recorder's archive."""

    def made(recorded: bool = False) -> Any:
        bench = make_bench(**{"recorder": {"archive": f"file://{quick_path}/archive"}} if recorded else {})
        bench.jobs = without_spark(bench)
        return bench

    return made


@pytest.fixture
def died(make: Callable[..., Any]) -> Any:
    """A planned run whose source died after its translation."""
    bench = make()
    mirrored(bench, 100)
    planned(bench)
    return bench


def evidence(bench: Any, procedure_id: str) -> dict[str, Any]:
    """The evidence on disk."""
    return json.loads((bench.folder / "evidence" / procedure_id / "evidence.json").read_text())


def page(bench: Any, procedure_id: str) -> str:
    """The page on disk."""
    return (bench.folder / "evidence" / procedure_id / "evidence.html").read_text()


def close(bench: Any, run_id: str = "u1", outcome: str = "") -> None:
    """Execute close_procedure; red with an outcome."""
    step = CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value)
    if not outcome:
        step.execute(bench.context(run_id))
        return
    with pytest.raises(AirflowFailException, match=outcome):
        step.execute(bench.context(run_id))


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


def ended(bench: Any) -> None:
    """It returned, and let go of the lease."""
    procedure = bench.procedure("r1")
    bench.journal.release_lease(PAIR, procedure.id, procedure.lease.epoch, "returned")


def taken(bench: Any) -> None:
    """Somebody else has the pair by now."""
    ended(bench)
    bench.opened("r2")


REFUSED = {
    "it is past the point of no return": (
        opened_target,
        {},
        "open_target had begun.*only forward: clear its failed step",
    ),
    "it was aborted": (aborted, {}, "carol aborted it.*return_to_source"),
    "it has ended": (ended, {}, "nobody holds the clusters.*without continue_procedure"),
    "another one holds the pair": (taken, {}, "planned_failover-r2 holds the clusters"),
    "there is no such run": (
        lambda bench: None,
        {"continue_procedure": "planned_failover-r9"},
        "planned_failover-r9 cannot be continued.*knows no procedure",
    ),
    "it went the other way": (
        lambda bench: None,
        {"source": "standby", "target": "primary"},
        "it is a planned_failover from primary to standby",
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
        AirflowFailException, match="it is a unplanned_failover from primary to standby.*Only a planned failover"
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
    with pytest.raises(AirflowFailException, match="planned_failover-r1 is still at work.*open_target wrote meanwhile"):
        OpenProcedure(task_id=OPEN.value).execute(died.context("u1"))
    assert died.journal.lease(PAIR).holder == EARLIER and not died.journal.entries(EARLIER, OPEN, Entry.NOTE)


def test_who_is_refused_the_lease_is_told_how_to_go_on(died: Any) -> None:
    """Where a planned run of this direction holds it, and not where it cannot be continued."""
    died.dag_id = "unplanned_failover"
    with pytest.raises(
        AirflowFailException,
        match=(
            "in another procedure's hands.*continue_procedure=planned_failover-r1; else wait for it, or abort it first"
        ),
    ):
        OpenProcedure(task_id=OPEN.value).execute(died.context("u1"))
    died.dag_id = "planned_failover"
    opened_target(died)
    died.dag_id = "unplanned_failover"
    with pytest.raises(AirflowFailException, match="in another procedure's hands") as told:
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
    assert "a procedure's id" in str(told.value)


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
        f"Clients are as {EARLIER} left them: primary stays fenced until return_to_source of that one is done."
        in page(died, LATER)
    )
    assert (
        "clear return_to_source of that run: it gives primary back. Or continue it anew, with"
        f" continue_procedure={EARLIER}." in page(died, LATER)
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
    with pytest.raises(LeaseLost, match="does not hold the clusters"):
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
    monkeypatch.setattr("kafka_dr.steps.abort.abort_procedure._OWN_RETURN_SECONDS", 0.1)
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
    assert f"was continued by {LATER}" in text and f"Where clients are stands in the evidence of {LATER}." in text
    assert "it still holds both clusters" not in text
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


def assess(bench: Any, state: str = "lost") -> dict[str, Any]:
    """Continue, and assess the loss; its figures."""
    lost(bench, continued(bench), state)
    AssessDataLoss(task_id=ASSESS.value).execute(bench.context("u1"))
    return bench.entries(ASSESS, "u1")[-1].payload


def row(figures: dict[str, Any]) -> tuple[Any, ...]:
    """Offsets of the only row of loss in the plan."""
    (one,) = figures["plan"]["loss"]
    return one["from_offset"], one["certain_to"], one["possible_to"]


def doubts(figures: dict[str, Any]) -> list[str]:
    """What was not taken over."""
    return [note for note in figures["plan"]["unproven"] if "taken over" in note]


def with_recorder(make: Any, recorder: Recorder, *more: Any) -> Any:
    """A bench whose recorder saw the source end at 90, and every record of it."""
    recorder.sample(seen(50, 40, replicated=39), held("billing", 45), held("audit", 45), held("cron", 30))
    pair = (
        Kind.PAIR,
        {"topic": "orders", "partition": 0, "upstream": 40, "downstream": 40, "source_end": 90, "records": 49},
    )
    syncs = [
        (Kind.SYNC, {"topic": "orders", "partition": 0, "upstream": at, "downstream": at, "sequence": at})
        for at in (50, 60)
    ]
    recorder.sample(
        seen(90, 70, replicated=58),
        held("billing", 70),
        held("audit", 20),
        (Kind.GROUP, {"group": "cron", "members": 1, "state": "Stable"}),
        *syncs,
        pair,
        *more,
    )
    return make(recorded=True)


def test_a_proven_fence_bounds_the_loss(make: Any) -> None:
    """Without any recorder: nothing after the cut-off is lost, and nothing of it counts as accepted since."""
    bench = make()
    mirrored(bench, 80)
    bench.workers["standby"].replicated = {ORDERS: 70}
    planned(bench, Step.FENCE_PRODUCERS)
    figures = assess(bench)
    assert row(figures) == (71, None, 100) and doubts(figures) == []
    assert (figures["plan"]["inventory"]["possible"], figures["plan"]["inventory"]["unknown"]) == (29, 0)
    kept = bench.procedure("u1").artifacts.load
    assert [frame_partitions(kept(figures[name]), "offset") for name in ("cut_off", "source_ends")] == [
        {ORDERS: 100}
    ] * 2
    told = loss_markdown(figures["plan"], "d")
    assert f"**This continues {cell(EARLIER)}.**" in told
    assert "1 partitions ended for good on primary when it was fenced" in told
    assert "| orders-0 | 71 | none | 100 |" in told
    assert "of them are drained" not in told and "a super user of primary" in told


def test_the_cut_off_is_the_last_that_was_seen_of_the_source(make: Any, recorder: Recorder) -> None:
    """The recorder's last sample is older: everything from the last mirrored record to the cut-off is certainly
    lost.
    """
    bench = with_recorder(make, recorder)
    mirrored(bench, 80)
    bench.workers["standby"].replicated = {ORDERS: 58}
    planned(bench, Step.FENCE_PRODUCERS)
    assert row(assess(bench)) == (80, 100, 100)


def test_a_run_that_had_proven_nothing_is_continued_like_any_other(make: Any) -> None:
    """Its plan's topics are known, and no more."""
    bench = make()
    mirrored(bench, 80)
    bench.workers["standby"].away = True
    planned(bench, None)
    figures = assess(bench)
    assert row(figures) == (0, None, None) and figures["cut_off"] is None and doubts(figures) == []
    assert figures["plan"]["topics"] == [["orders", "orders", 1, "id-orders"]]
    assert "- nothing." in loss_markdown(figures["plan"], "d")


@pytest.mark.parametrize(("until", "wanted"), [(None, "newer"), (Step.FENCE_PRODUCERS, "id-orders")])
def test_whose_word_counts_for_a_topics_id(make: Any, recorder: Recorder, until: Step | None, wanted: str) -> None:
    """The plan's as soon as the fence has shown that nothing was made anew since; before that, what the recorder saw
    last.
    """
    kind, told = seen(90, 70)
    recorder.sample((kind, told | {"topic_id": "newer"}))
    bench = make(recorded=True)
    mirrored(bench, 80)
    planned(bench, until)
    assert assess(bench)["plan"]["topics"] == [["orders", "orders", 1, wanted]]


def reopens(bench: Any, procedure: Run) -> None:
    """It may have lifted its fence."""
    procedure.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True})


def refused(step: Step, error: str) -> Callable[..., None]:
    """A later step looked again, and found it changed."""
    return lambda bench, procedure: procedure.authority.write(
        step, Entry.REFUSAL, {"error": error, "reason": "Somebody wrote", "seen": "x", "next_step": "y"}
    )


def changed_file(name: str) -> Callable[..., None]:
    """A file of its evidence folder is not what it wrote."""
    return lambda bench, procedure: next(procedure.artifacts.folder.glob(f"{name}-*.parquet")).write_bytes(b"x")


IN_DOUBT = {
    "it may have given the source back": (reopens, "had begun to give the source back"),
    "somebody wrote after the cut-off": (
        refused(Step.STOP_MIRROR_MAKER, "FenceNotProven"),
        "stop_mirror_maker found: Somebody wrote",
    ),
    "evidence contradicted itself": (refused(Step.WAIT_FOR_ZERO_LAG, "Contradiction"), "wait_for_zero_lag found"),
    "the last look found a group that came alive": (refused(Step.OPEN_TARGET, "FenceNotProven"), "open_target found"),
    "the file of the cut-off was changed": (changed_file("cut_off"), "fence_producers of planned_failover-r1"),
}


@pytest.mark.parametrize(("change", "said"), IN_DOUBT.values(), ids=IN_DOUBT)
def test_when_in_doubt_nothing_is_final(died: Any, change: Any, said: str) -> None:
    """No bound, no drained partition, no position of its own; and the doubt is told to the approver."""
    died.clusters["standby"].internal = {}
    procedure = died.procedure("r1")
    change(died, procedure)
    figures = assess(died)
    assert row(figures)[2] is None and (figures["cut_off"], figures["positions"]["rows"]) == (None, 0)
    (doubt,) = doubts(figures)
    assert said in doubt


def test_a_step_that_was_cleared_in_vain_takes_nothing_away(died: Any) -> None:
    """It refused because the way back had begun: that says nothing against the fence."""
    refused(Step.OPEN_TARGET, "Refusal")(died, died.procedure("r1"))
    refused(Step.DRAIN_CONSUMERS, "Refusal")(died, died.procedure("r1"))
    figures = assess(died)
    assert doubts(figures) == [] and figures["plan"]["loss"] == []


@pytest.mark.parametrize("kind", [Entry.INTENT, Entry.FAILURE])
def test_a_fence_that_was_begun_anew_proves_nothing(make: Any, kind: Entry) -> None:
    """What it had found before may have changed."""
    bench = make()
    mirrored(bench, 80)
    procedure = planned(bench, Step.FENCE_PRODUCERS)
    procedure.authority.write(Step.FENCE_PRODUCERS, kind, {"try": 2, **AWAY})
    assert row(assess(bench))[2] is None


def test_a_fence_that_no_probe_has_proven_is_not_final(make: Any) -> None:
    """Some broker may let clients write."""
    bench = make()
    mirrored(bench, 80)
    planned(bench, Step.FENCE_PRODUCERS, fenced_at=None)
    figures = assess(bench)
    assert row(figures)[2] is None and "not proven on every broker" in doubts(figures)[0]


def test_what_the_recorder_saw_behind_the_cut_off_is_a_doubt(make: Any, recorder: Recorder) -> None:
    """Somebody wrote there all the same."""
    bench = with_recorder(make, recorder, seen(103, 70, replicated=58))
    mirrored(bench, 80)
    planned(bench, Step.FENCE_PRODUCERS)
    figures = assess(bench)
    assert row(figures)[2] is None and "orders-0: 100 -> 103" in doubts(figures)[0]


def test_a_return_that_waits_for_the_dead_source_takes_nothing_away(died: Any) -> None:
    """It says that it reopens the source only once that answers: until then the fence stands."""
    died.topology.write_text(
        died.topology.read_text().replace('"stable_seconds"', '"return_seconds": 0.3, "stable_seconds"')
    )
    with pytest.raises(AirflowFailException, match="Everything as it was found: not within"):
        ReturnToSource(task_id="return_to_source").execute(died.context("r1"))
    assert [e.payload for e in died.journal.entries(EARLIER, Step.RETURN_TO_SOURCE, Entry.INTENT)] == [{"try": 1}]
    figures = assess(died)
    assert doubts(figures) == [] and figures["plan"]["loss"] == []


def test_frozen_positions_are_final(make: Any, recorder: Recorder) -> None:
    """They take the place of what the recorder saw; a group that was not frozen keeps what was seen of it, and who
    was active is waited for.
    """
    bench = with_recorder(make, recorder)
    mirrored(bench, 80)
    procedure = planned(bench, Step.DRAIN_CONSUMERS)
    figures = assess(bench)
    positions = bench.procedure("u1").artifacts.load(figures["positions"]).set_index("group")
    assert positions["position"].to_dict() == {"audit": 60, "billing": 100, "cron": 30}
    frozen = procedure.artifacts.load(figures_of(procedure, Step.DRAIN_CONSUMERS)["positions"])
    assert positions.loc["audit", "position_at"] == frozen["position_at"].iloc[0]
    assert set(figures["active_groups"]) == {"audit", "billing", "cron"}
    assert figures["plan"]["continues"]["positions"] == 2
    assert "2 positions are final" in loss_markdown(figures["plan"], "d")


def test_what_was_drained_is_not_lost(make: Any) -> None:
    """Proven before the stop and after it; the question says so."""
    bench = make()
    mirrored(bench, 100)
    bench.workers["standby"].replicated = {}
    planned(bench, Step.STOP_MIRROR_MAKER)
    figures = assess(bench)
    assert figures["plan"]["loss"] == [] and figures["plan"]["continues"]["drained"] == 1
    told = loss_markdown(figures["plan"], "d")
    assert "1 of them are drained" in told and "No partition loses a record." in told
    assert "Possibly lost: at most 0" in told


@pytest.mark.parametrize("end", [99, 101])
def test_a_target_that_is_not_as_it_was_left_is_not_called_drained(died: Any, end: int) -> None:
    """Whatever was written or lost there; the cut-off still bounds the loss."""
    mirrored(died, end)
    died.workers["standby"].replicated = {ORDERS: 70}
    figures = assess(died)
    assert row(figures) == (71, None, 100) and figures["plan"]["continues"]["drained"] == 0


def test_zero_lag_alone_proves_no_boundary(make: Any) -> None:
    """MirrorMaker 2 may have gone on; the loss is bounded and no more."""
    bench = make()
    mirrored(bench, 100)
    bench.workers["standby"].replicated = {ORDERS: 70}
    planned(bench, Step.WAIT_FOR_ZERO_LAG)
    assert row(assess(bench)) == (71, None, 100)


# -- the translation -----------------------------------------------------------------------------------------------


def translate(bench: Any, change: Callable[[], Any] = lambda: None) -> tuple[dict[str, Any], pd.DataFrame]:
    """Continue, assess, have the loss approved, let something happen, stop, translate: figures and rows by group."""
    assess(bench)
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures_of(bench.procedure('u1'), ASSESS)['plan_digest']}")
    bench.done(bench.procedure("u1"), Step.APPROVE_DATA_LOSS, asked=True)
    bench.done(bench.procedure("u1"), Step.FENCE_SOURCE, fenced="armed")
    change()
    StopLeftMirrorMaker(task_id="stop_mirror_maker").execute(bench.context("u1"))
    TranslateWithoutSource(task_id=TRANSLATE.value).execute(bench.context("u1"))
    figures = bench.entries(TRANSLATE, "u1")[-1].payload
    return figures, bench.procedure("u1").artifacts.load(figures["translation"]).set_index("group")


def test_what_that_translation_found_missing_counts(make: Any) -> None:
    """In the question, in the figures, and in the evidence."""
    bench = make()
    mirrored(bench, 100)
    planned(bench, holes=MISSING)
    figures, _ = translate(bench)
    assert figures["holes"] == MISSING
    assert "3 records below that end were not found on standby" in loss_markdown(
        bench.procedure("u1").progress.move().plan, "d"
    )
    close(bench, outcome="failed")
    assert [(one["from_offset"], one["certain_to"], one["records"]) for one in evidence(bench, LATER)["loss"]] == [
        (30, 33, 3)
    ]


def test_positions_at_the_cut_off_are_at_the_boundary(make: Any) -> None:
    """A drained partition's ends are a pair; below them it is as without a source."""
    bench = make()
    mirrored(bench, 100)
    planned(bench, Step.STOP_MIRROR_MAKER)
    _, rows = translate(bench)
    assert rows.loc["billing", ["target_position", "class", "exact"]].tolist() == [100, "END", True]
    assert rows.loc["audit", "class"] == "POLICY"


def test_a_boundary_that_moved_meanwhile_makes_it_an_ordinary_translation(died: Any) -> None:
    """Somebody wrote on the target: its end says nothing of the source's."""
    figures, rows = translate(died, change=lambda: mirrored(died, 103))
    assert set(rows["class"]) == {"POLICY"} and figures["exact"] == 0


# -- a source that can be read -------------------------------------------------------------------------------------


def readable(make: Any) -> Any:
    """A planned run that stood still behind its fence; its source answers, and is given up all the same."""
    bench = make()
    mirrored(bench, 80)
    planned(bench, Step.FENCE_PRODUCERS)
    source = bench.clusters["primary"]
    source.away, source.records[ORDERS] = False, {offset: f"{offset}" for offset in range(110)}
    return bench


def test_a_source_that_is_fenced_still_has_no_more_to_lose(make: Any) -> None:
    """Looked at now."""
    assert row(assess(readable(make), "refuses_writes")) == (80, 100, 100)


CHANGED = {
    "its fence was lifted": lambda bench: bench.clusters["primary"].acls.discard(FENCE),
    "somebody wrote": lambda bench: bench.clusters["primary"].log_ends.update({ORDERS: 104}),
    "it does not answer any more": lambda bench: setattr(bench.clusters["primary"], "away", True),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_source_that_is_not_as_it_was_has_no_bound(make: Any, change: Any) -> None:
    """Whoever writes there goes on."""
    bench = readable(make)
    change(bench)
    figures = assess(bench, "refuses_writes")
    assert row(figures)[2] is None and len(doubts(figures)) == 1


def test_a_step_that_was_superseded_is_tried_again_and_refuses(died: Any) -> None:
    """A planned run's return that waits is told at its next look who goes on."""
    process = died.procedure("r1")
    process.lease.take_new_epoch()
    continued(died)
    with pytest.raises(AirflowException, match="is continued by"):
        as_earlier(died)
        ReturnToSource(task_id="return_to_source").resume(died.context("r1"))
