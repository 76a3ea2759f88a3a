"""How far a run is, by its journal entries, and how its steps wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from kafka_dr.config.params import Request
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.errors import BadInput, Contradiction, DeadlinePassed, Refusal, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.artifacts import Artifacts
from kafka_dr.procedure.entries import (
    Fact,
    MovePlanned,
    Planned,
    PlannedTopic,
    ProcedureAborted,
    ProcedureOpened,
    ProducersFenced,
    SourceConfirmedLost,
    StepFailed,
    StepNotDone,
    StepRefused,
    TryBegun,
    WatchedFact,
    facts_in,
    facts_of,
    newest_fact,
)
from kafka_dr.vocabulary import Entry, Step

T = TypeVar("T")
F = TypeVar("F", bound=Fact)
P = TypeVar("P", bound=Planned)

#: How long a step polls before it gives its Airflow worker slot back; Airflow wakes the step later.
PATIENCE_SECONDS = 10.0
_LOOK_AGAIN_SECONDS, _ACT_AGAIN_SECONDS = 0.2, 1.0


class NotYet(Exception):
    """What a step waits for is not reached yet; the text says what was observed instead."""


class WaitLonger(Exception):
    """A step has polled for PATIENCE_SECONDS: it frees its worker slot and polls on when Airflow wakes the step.

    Attributes:
        outlasted: for how many seconds the step has outlasted errors of systems; None if it waits for something else.
    """

    def __init__(self, text: str, outlasted: float | None = None) -> None:
        super().__init__(text)
        self.outlasted = outlasted


class Progress:
    """Reads from the journal how far one run is; the run's steps wait in `wait`.

    Args:
        journal: holds the entries.
        procedure_id: the run's id in the journal.
        request: the run's params, deadlines included.
        artifacts: holds the run's plan.
    """

    def __init__(self, journal: Journal, procedure_id: str, request: Request, artifacts: Artifacts) -> None:
        self._journal, self._id, self._request, self._artifacts = journal, procedure_id, request, artifacts
        self._move: tuple[str, MovePlanned] | None = None
        #: For how many seconds the step has outlasted errors of systems, before Airflow woke it.
        self.outlasted = 0.0

    @property
    def opened(self) -> ProcedureOpened | None:
        """Return what open_procedure wrote when the run took its lease; None if the run never took a lease."""
        return self.done(ProcedureOpened)

    @property
    def cool_down(self) -> dict[str, Any] | None:
        """Return the fields of SkippedCoolDown if this run was started in spite of a cool-down, else None."""
        opened = self.opened
        return None if opened is None or opened.cool_down is None else vars(opened.cool_down)

    @property
    def objectives(self) -> dict[str, Any] | None:
        """Return the objectives of the run's flow as the run began; None if the topology stated none."""
        opened = self.opened
        return None if opened is None or opened.objectives is None else dict(opened.objectives)

    @property
    def continues(self) -> str | None:
        """Return the id of the planned procedure that this run continues; None if it continues no procedure.

        The id is the one that open_procedure recorded; before that, the param `continue_procedure`.
        """
        opened = self.opened
        if opened is None:
            return self._request.choices.get("continue_procedure")
        return None if opened.continues is None else opened.continues.procedure_id

    def facts(self, fact: type[F], step: str | None = None) -> list[F]:
        """Return every fact of a class that the run wrote, oldest first; with `step`, only what that step wrote."""
        writer = step or (fact.steps[0] if len(fact.steps) == 1 else None)
        return facts_in(self._journal.entries(self._id, writer, fact.kind), fact)

    def entries(self, kind: Entry | None = None) -> list[JournalEntry]:
        """Return the run's journal entries, and the watcher's about the run, oldest first; only of `kind` if given."""
        watcher_entries = self._journal.entries(Step.WATCH_OLD_SOURCE, Step.WATCH_OLD_SOURCE, kind)
        for_run = [entry for entry, fact in facts_of(watcher_entries, WatchedFact) if fact.procedure_id == self._id]
        return sorted([*self._journal.entries(self._id, kind=kind), *for_run], key=lambda entry: entry.sequence)

    def done(self, outcome: type[F]) -> F | None:
        """Return the newest fact of a class that the run wrote, such as a step's outcome; None without such a fact."""
        return next(reversed(self.facts(outcome)), None)

    def require(self, outcome: type[F]) -> F:
        """Return the newest outcome of a class that the run wrote.

        Raises:
            Refusal: the run has no such outcome, because the step that writes this outcome was not done.
        """
        newest = self.done(outcome)
        if newest is None:
            raise _refusal_not_done(outcome.steps[0])
        return newest

    def outcome_entry(self, step: str) -> JournalEntry:
        """Return the journal entry with a step's newest outcome.

        Raises:
            Refusal: the step was not done.
        """
        entry = self._journal.last(self._id, step, Entry.OUTCOME)
        if entry is None:
            raise _refusal_not_done(step)
        return entry

    def began(self, step: str) -> float | None:
        """Return when a step wrote its first intent, in seconds since 1970; None if the step never wrote an intent."""
        entries = self._journal.entries(self._id, step, Entry.INTENT)
        return entries[0].at.timestamp() if entries else None

    def now(self) -> float:
        """Return the journal's time, in seconds since 1970, to be compared with the times that this class returns."""
        return self._journal.now().timestamp()

    def clock(self, step: str) -> float:
        """Return when the step's newest try began, in seconds since 1970; the present time if no try has begun.

        A step that Airflow wakes after a wait continues its try.
        """
        tries = list(facts_of(self._journal.entries(self._id, step, Entry.INTENT), TryBegun))
        return next(e.at.timestamp() for e, begun in tries if begun == tries[-1][1]) if tries else self.now()

    def refuse_other_run(self, run_id: str) -> None:
        """Raise BadInput if another run has the same procedure id, because both runs would share lease and folder."""
        opened = self.opened
        if opened is not None and opened.run_id != run_id:
            raise BadInput(
                f"The run id {run_id} gives the same procedure id as the run id of another run",
                f"the journal has this procedure id for the run {opened.run_id}",
                "Start a new run under another run id, because two runs with one procedure id would share lease and"
                " evidence folder; this run has changed nothing.",
            )

    def refuse_if_going_back(self) -> None:
        """Raise Refusal after an abort or the start of a rollback; never once open_target has begun."""
        if self.began(Step.OPEN_TARGET) is not None:
            return
        abort = self._journal.last(self._id, Step.ABORT_PROCEDURE, Entry.ABORT)
        if abort is not None:
            aborted = ProcedureAborted.from_payload(abort.payload)
            raise Refusal(
                f"{aborted.by} aborted the procedure",
                aborted.reason,
                "The procedure returns to the source by itself. Start a new run when the reason for the abort is gone.",
            )
        if self.began(Step.RETURN_TO_SOURCE) is not None:
            raise Refusal(
                "This run returns to the source, and no other step may run",
                "return_to_source has begun",
                "If return_to_source is red, correct the cause in its message and clear return_to_source. When"
                " return_to_source is done, start a new run.",
            )

    def fence_deadline(self) -> float | None:
        """Return when `max_fence_seconds` will have passed since fence_producers began, in seconds since 1970.

        None before fence_producers.
        """
        began = self.began(Step.FENCE_PRODUCERS)
        return None if began is None else began + self._request.deadlines.max_fence_seconds

    def check_fence_clock(self) -> None:
        """Raise DeadlinePassed if `max_fence_seconds` have passed since fence_producers began.

        Once open_target has begun, nothing is raised.
        """
        deadline = self.fence_deadline()
        if deadline is not None and self.now() > deadline and self.began(Step.OPEN_TARGET) is None:
            raise DeadlinePassed(
                "Clients have been fenced for as long as allowed",
                f"on {self._request.source}, max_fence_seconds={self._request.deadlines.max_fence_seconds:.0f}",
                "The procedure returns to the source by itself. Find out which step took so long before you start a new"
                " run.",
            )

    def wait(self, step: str, what: str, look: Callable[[], T], seconds: float) -> T:
        """Call `look` again and again until `look` no longer raises NotYet; return the result of `look`.

        An error of a system that may pass is waited for as NotYet is.

        Args:
            step: the step that waits.
            what: what is waited for, as the beginning of an error message.
            look: checks once; returns the result, or raises NotYet.
            seconds: longest wait, from the start of the step's newest try. Until open_target has begun, the wait also
                ends at `fence_deadline`, except in fence_producers and return_to_source.

        Raises:
            DeadlinePassed: the longest wait is over; the error has the text of the last NotYet, or of the error.
            WaitLonger: PATIENCE_SECONDS are over; the step frees its worker slot and is woken later.
            Refusal: the procedure was aborted, or its rollback has begun.
        """
        forward = step != Step.RETURN_TO_SOURCE
        began = self.clock(step)
        deadline = began + seconds
        if forward and step != Step.FENCE_PRODUCERS and self.began(Step.OPEN_TARGET) is None:
            deadline = min(deadline, self.fence_deadline() or deadline)
        patience = time.monotonic() + PATIENCE_SECONDS
        while True:
            if forward:
                self.refuse_if_going_back()
            try:
                return look()
            except (NotYet, SystemUnavailable) as state:
                if isinstance(state, SystemUnavailable) and not state.may_pass:
                    raise
                if self.now() >= deadline:
                    cut_short = ", because max_fence_seconds are over" if deadline < began + seconds else ""
                    raise DeadlinePassed(
                        f"{what}: not within {max(0.0, deadline - began):.0f} s{cut_short}",
                        str(state),
                        f"Read the section {step} of runbooks/stuck_procedure.md, which states what is safe to do.",
                    ) from None
                if time.monotonic() >= patience:
                    raise WaitLonger(f"{what}: {state}") from None
            time.sleep(_LOOK_AGAIN_SECONDS)

    def outlast(self, act: Callable[[], T]) -> T:
        """Call `act`, again after an error of a system that may pass; return the result of `act`.

        Raises:
            SystemUnavailable: the error will not pass, or systems have not answered for `outage_seconds`.
            WaitLonger: PATIENCE_SECONDS are over; the step frees its worker slot and is woken later.
        """
        began, first_error = time.monotonic(), None
        while True:
            try:
                return act()
            except SystemUnavailable as error:
                now = time.monotonic()
                first_error = first_error or now
                outlasted = self.outlasted + now - first_error
                if not error.may_pass or outlasted >= self._request.deadlines.outage_seconds:
                    raise
                if now >= began + PATIENCE_SECONDS:
                    raise WaitLonger(str(error), outlasted) from None
            time.sleep(_ACT_AGAIN_SECONDS)

    @property
    def without_source(self) -> bool:
        """Whether confirm_source_lost is done: the source counts as lost, and later steps must work without it."""
        return self.done(SourceConfirmedLost) is not None

    @property
    def planning(self) -> tuple[Step, Step]:
        """Return the step that writes the run's plan, and the gate that approves the plan."""
        return (
            (Step.ASSESS_DATA_LOSS, Step.APPROVE_DATA_LOSS)
            if self.without_source
            else (Step.FORECAST, Step.APPROVE_FAILOVER)
        )

    def move(self) -> MovePlanned:
        """Return the outcome of the step that wrote the plan (forecast or assess_data_loss), with the plan.

        Raises:
            Contradiction: the plan does not match its digest.
        """
        entry = self.outcome_entry(self.planning[0])
        if self._move is None or self._move[0] != entry.hash:
            planned = newest_fact([entry], MovePlanned)
            planned = planned and self.with_plan(planned)
            if planned is None or digest_of(planned.plan) != planned.plan_digest:
                digests = (
                    "the entry holds no plan"
                    if planned is None
                    else f"the entry names {planned.plan_digest[:12]}..., the plan has {digest_of(planned.plan)[:12]}"
                )
                raise Contradiction(
                    "The plan in the journal does not match its digest",
                    f"outcome of {entry.step} of {self._id}: {digests}",
                    f"This entry was changed: compare the outcome of {entry.step} in the journal's database with a"
                    " backup. Before open_target has begun: start a new run. After open_target is done: restore the"
                    " entry in the database, then clear the red step.",
                )
            self._move = entry.hash, planned
        return self._move[1]

    def moved_topics(self) -> list[PlannedTopic]:
        """Return the topics that move: the plan's, and those that fence_producers saw created since the forecast."""
        fenced = self.done(ProducersFenced)
        return [*self.move().planned.topics, *((fenced and fenced.topics_since_forecast) or ())]

    def moved_topic_ids(self) -> dict[str, str]:
        """Return topic -> its id on the source, of the topics that move and whose id is known."""
        return {moved.topic: moved.topic_id for moved in self.moved_topics() if moved.topic_id}

    def with_plan(self, planned: P) -> P:
        """Return an outcome with its plan, which is read from the plan's file if the journal has the receipt alone.

        Raises:
            Contradiction: the file is missing or differs from the receipt.
        """
        if planned.plan is not None or planned.plan_file is None:
            return planned
        return replace(planned, plan=self._artifacts.load_json(planned.plan_file))


def _refusal_not_done(step: str) -> Refusal:
    return Refusal(
        f"{step} did not happen",
        f"the journal holds no outcome of {step}",
        "Marking a task successful does not do its work. Before open_target has begun: start a new run when this run"
        f" has ended. After open_target is done: clear {step} with its downstream tasks.",
    )


def not_done(error: SwitchbackError) -> StepNotDone:
    """Return the fact to record for an error: StepRefused for a Refusal, StepFailed for any other error."""
    fact = StepRefused if isinstance(error, Refusal) else StepFailed
    return fact(error=type(error).__name__, reason=error.reason, seen=error.seen, next_step=error.next_step)
