"""How far a run is, by its journal, and how its steps wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from kafka_dr.config.params import Request
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.errors import BadInput, Contradiction, DeadlinePassed, Refusal, SwitchbackError
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import (
    Fact,
    MovePlanned,
    ProcedureAborted,
    ProcedureOpened,
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

#: How long a step polls before it gives its worker slot back and is woken later.
PATIENCE_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.2


class NotYet(Exception):
    """The awaited state is not reached yet; the text says how far the state is."""


class WaitLonger(Exception):
    """A wait outlasted PATIENCE_SECONDS; the step should free its slot and look again when it is woken."""


class Progress:
    """What the journal says of one run.

    Args:
        journal: holds the entries.
        procedure_id: the run's id in the journal.
        request: the run's params, deadlines included.
    """

    def __init__(self, journal: Journal, procedure_id: str, request: Request) -> None:
        self._journal, self._id, self._request = journal, procedure_id, request
        self._move: tuple[str, MovePlanned] | None = None

    @property
    def opened(self) -> ProcedureOpened | None:
        """The entry of open_procedure; None if the run was never opened."""
        return self.done(ProcedureOpened)

    @property
    def cool_down(self) -> dict[str, Any] | None:
        """The cool-down that this run skips: after which procedure, until when, and why; None if none is skipped."""
        opened = self.opened
        return None if opened is None or opened.cool_down is None else vars(opened.cool_down)

    @property
    def continues(self) -> str | None:
        """Id of the planned procedure that this run continues, else None.

        By the outcome of open_procedure; before that, by the param `continue_procedure`.
        """
        opened = self.opened
        if opened is None:
            return self._request.choices.get("continue_procedure")
        return None if opened.continues is None else opened.continues.procedure_id

    def facts(self, fact: type[F], step: str | None = None) -> list[F]:
        """Every fact of a class that the run, or one of its steps, wrote, in journal order."""
        writer = step or (fact.steps[0] if len(fact.steps) == 1 else None)
        return facts_in(self._journal.entries(self._id, writer, fact.kind), fact)

    def entries(self, kind: Entry | None = None) -> list[JournalEntry]:
        """Entries of the run, and those of the watcher of old sources for the run, in order; of all kinds or one."""
        watcher_entries = self._journal.entries(Step.WATCH_OLD_SOURCE, Step.WATCH_OLD_SOURCE, kind)
        for_run = [entry for entry, fact in facts_of(watcher_entries, WatchedFact) if fact.procedure_id == self._id]
        return sorted([*self._journal.entries(self._id, kind=kind), *for_run], key=lambda entry: entry.sequence)

    def done(self, outcome: type[F]) -> F | None:
        """The newest fact of a class, such as a step's outcome; None without one."""
        return next(reversed(self.facts(outcome)), None)

    def require(self, outcome: type[F]) -> F:
        """The newest outcome of a class.

        Raises:
            Refusal: its step was not done.
        """
        newest = self.done(outcome)
        if newest is None:
            raise _refusal_not_done(outcome.steps[0])
        return newest

    def outcome_entry(self, step: str) -> JournalEntry:
        """The newest outcome entry of a step.

        Raises:
            Refusal: the step was not done.
        """
        entry = self._journal.last(self._id, step, Entry.OUTCOME)
        if entry is None:
            raise _refusal_not_done(step)
        return entry

    def began(self, step: str) -> float | None:
        """When a step first wrote its intent, in seconds since 1970; None if never."""
        entries = self._journal.entries(self._id, step, Entry.INTENT)
        return entries[0].at.timestamp() if entries else None

    def clock(self, step: str) -> float:
        """When the step's newest try began, in seconds since 1970; a woken step continues its try."""
        tries = list(facts_of(self._journal.entries(self._id, step, Entry.INTENT), TryBegun))
        return next((e.at.timestamp() for e, begun in tries if begun == tries[-1][1]), time.time())

    def refuse_other_run(self, run_id: str) -> None:
        """Refuse a run id that maps to another run's procedure id: both runs would share a lease and a folder."""
        opened = self.opened
        if opened is not None and opened.run_id != run_id:
            raise BadInput(
                f"The run id {run_id} is too much like another",
                opened.run_id,
                "Trigger the DAG again under another run id.",
            )

    def refuse_if_going_back(self) -> None:
        """Refuse to go forward after an abort or the start of a rollback, unless the target may already be open."""
        if self.began(Step.OPEN_TARGET) is not None:
            return
        abort = self._journal.last(self._id, Step.ABORT_PROCEDURE, Entry.ABORT)
        if abort is not None:
            aborted = ProcedureAborted.from_payload(abort.payload)
            raise Refusal(
                f"{aborted.by} aborted the procedure",
                aborted.reason,
                "It returns to the source; start a new one when the reason is gone.",
            )
        if self.began(Step.RETURN_TO_SOURCE) is not None:
            raise Refusal(
                "The source is being given back to its clients",
                "return_to_source had begun",
                "Clear return_to_source until it is done; then start a new procedure.",
            )

    def fence_deadline(self) -> float | None:
        """When the fence will have lasted `max_fence_seconds`, in seconds since 1970; None before the fence."""
        began = self.began(Step.FENCE_PRODUCERS)
        return None if began is None else began + self._request.deadlines.max_fence_seconds

    def check_fence_clock(self) -> None:
        """Raise DeadlinePassed once the fence has lasted too long, unless open_target has begun."""
        deadline = self.fence_deadline()
        if deadline is not None and time.time() > deadline and self.began(Step.OPEN_TARGET) is None:
            raise DeadlinePassed(
                "Clients have been fenced for as long as allowed",
                f"max_fence_seconds={self._request.deadlines.max_fence_seconds:.0f}",
                "The procedure returns to the source; find what took so long before trying again.",
            )

    def wait(self, step: str, what: str, look: Callable[[], T], seconds: float) -> T:
        """Poll until the awaited state is reached.

        Args:
            step: the step that waits; its newest try starts the clock.
            what: the awaited state, as the beginning of a sentence.
            look: returns the result, or raises NotYet.
            seconds: deadline from the start of the step's try; the fence's own deadline counts too.

        Raises:
            DeadlinePassed: with the state seen last.
            WaitLonger: the step should free its slot and be woken later.
        """
        forward = step != Step.RETURN_TO_SOURCE
        deadline = self.clock(step) + seconds
        if forward and step != Step.FENCE_PRODUCERS and self.began(Step.OPEN_TARGET) is None:
            deadline = min(deadline, self.fence_deadline() or deadline)
        patience = time.monotonic() + PATIENCE_SECONDS
        while True:
            if forward:
                self.refuse_if_going_back()
            try:
                return look()
            except NotYet as state:
                if time.time() >= deadline:
                    raise DeadlinePassed(
                        f"{what}: not within {seconds:.0f} s",
                        str(state),
                        "See this step's page for what may be safely done.",
                    ) from None
                if time.monotonic() >= patience:
                    raise WaitLonger(f"{what}: {state}") from None
            time.sleep(_LOOK_AGAIN_SECONDS)

    @property
    def without_source(self) -> bool:
        """Whether the source was declared lost: later steps must work without the source."""
        return self.done(SourceConfirmedLost) is not None

    @property
    def planning(self) -> tuple[Step, Step]:
        """The step that wrote the plan, and the gate that approves it."""
        return (
            (Step.ASSESS_DATA_LOSS, Step.APPROVE_DATA_LOSS)
            if self.without_source
            else (Step.FORECAST, Step.APPROVE_FAILOVER)
        )

    def move(self) -> MovePlanned:
        """The forecast or assessment that holds the plan.

        Raises:
            Contradiction: the plan does not match its digest.
        """
        entry = self.outcome_entry(self.planning[0])
        if self._move is None or self._move[0] != entry.hash:
            planned = newest_fact([entry], MovePlanned)
            if planned is None or digest_of(planned.plan) != planned.plan_digest:
                raise Contradiction(
                    "The plan in the journal is not the one its digest names",
                    entry.hash if planned is None else planned.plan_digest,
                    "Start the procedure anew.",
                )
            self._move = entry.hash, planned
        return self._move[1]


def _refusal_not_done(step: str) -> Refusal:
    return Refusal(
        f"{step} did not happen",
        "no outcome of it in the journal",
        "Marking a task successful does not do its work. Before the opening the procedure returns by itself: start a"
        " new one; after it, clear that task.",
    )


def not_done(error: SwitchbackError) -> StepNotDone:
    """The journal's fact of an error: StepRefused for a refusal, StepFailed for any other error."""
    fact = StepRefused if isinstance(error, Refusal) else StepFailed
    return fact(error=type(error).__name__, reason=error.reason, seen=error.seen, next_step=error.next_step)
