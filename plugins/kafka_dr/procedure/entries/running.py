"""Facts of how a procedure runs: opened, tried, refused, approved, aborted, returned, closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from kafka_dr.procedure.entries.fact import Fact, Intent, Line, Note, OrAbsent, StepOutcome, newest_fact
from kafka_dr.procedure.entries.records import (
    Approval,
    ContinuedRun,
    DrainHookAnswer,
    FenceHookAnswer,
    Figures,
    SkippedCoolDown,
)
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import Entry, Step


class ProcedureOpened(Fact, steps=(Step.OPEN_PROCEDURE,), kind=Entry.OPENED):
    """A run took its lease; `request` is what it was triggered with."""

    dag_id: str
    run_id: str
    source: str
    target: str
    reason: str
    triggered_at: str
    request: Figures
    continues: ContinuedRun | None = None
    cool_down: SkippedCoolDown | None = None

    @property
    def deadlines(self) -> Mapping[str, float]:
        """The deadlines that the run was triggered with, in seconds."""
        found: Mapping[str, float] = self.request.get("deadlines", {})
        return found


class LeaseTaken(StepOutcome, steps=(Step.OPEN_PROCEDURE,)):
    """The lease of the pair, and its epoch."""

    epoch: int
    pair: str


class LeasePassed(Note, steps=(Step.OPEN_PROCEDURE,)):
    """A planned run's lease went to the unplanned run that continues it, or came back from it (`continued_by` None)."""

    continued_by: str | None
    given_back_by: OrAbsent[str] = None
    outcome: OrAbsent[str] = None


def continued_by(entries: Iterable[Line]) -> str | None:
    """The procedure that goes on from the one whose entries these are; None if none does, or none any more."""
    passed = newest_fact(entries, LeasePassed)
    return None if passed is None else passed.continued_by


class TryBegun(Intent, steps=()):
    """A try of a step began, by Airflow's number."""

    attempt: int


class StepNotDone(Fact):
    """Why a step did not do its work."""

    error: str
    reason: str
    seen: str
    next_step: str


class StepRefused(StepNotDone, steps=(), kind=Entry.REFUSAL):
    """A step looked and did not act."""


class StepFailed(StepNotDone, steps=(), kind=Entry.FAILURE):
    """A step could not act, or could not prove what it did."""


class GatePassed(StepOutcome, steps=GATES):
    """A gate opened by itself: nothing had to be asked."""

    asked: Literal[False]
    by_hand: OrAbsent[str] = None


class GateApproved(StepOutcome, Approval, steps=GATES):
    """A second person approved."""

    asked: Literal[True]


class ApprovalGiven(Fact, Approval, steps=GATES, kind=Entry.APPROVAL):
    """What Airflow's API says of the answer that approved."""


class AnswerIgnored(Note, steps=GATES):
    """An answer that counts for nothing, and why."""

    answer_ignored: str


class ProcedureAborted(Fact, steps=(Step.ABORT_PROCEDURE,), kind=Entry.ABORT):
    """Who aborted the procedure, by which run, and why."""

    by: str
    reason: str
    run_id: str
    at: str


class AbortNoted(StepOutcome, steps=(Step.ABORT_PROCEDURE,)):
    """The procedure that was aborted."""

    aborted: str


class SourceToReopen(Intent, steps=(Step.RETURN_TO_SOURCE,)):
    """The source is about to be given back to its clients."""

    reopens_source: bool
    by_hand: OrAbsent[str] = None


class SourceAclEntriesToRemove(Intent, steps=(Step.RETURN_TO_SOURCE,)):
    """How many ACL entries of the fence are about to be removed."""

    removes_acl_entries: int


class SourceReturned(StepOutcome, steps=(Step.RETURN_TO_SOURCE,)):
    """Everything is as it was found, as far as it was `touched`; later fields only if clients had been fenced."""

    touched: bool
    connectors_resumed: OrAbsent[Sequence[str]] = None
    replication_left_stopped: OrAbsent[str] = None
    acl_entries_lifted: OrAbsent[int] = None
    fence_hook: OrAbsent[FenceHookAnswer] = None
    drain_hook: OrAbsent[DrainHookAnswer] = None
    returned_at: OrAbsent[str] = None
    probe_refused_by: OrAbsent[Mapping[str, str]] = None
    records_written_since: OrAbsent[int] = None
    records_mirrored_since: OrAbsent[int] = None
    records_not_seen: OrAbsent[str] = None
    left_on_returned_cluster: OrAbsent[Sequence[str]] = None


class ClosingBegun(Intent, steps=(Step.CLOSE_PROCEDURE,)):
    """The evidence is about to be assembled; `after` is the newest entry's number."""

    after: int


class ProcedureClosed(Fact, steps=(Step.CLOSE_PROCEDURE,), kind=Entry.CLOSED):
    """How the procedure ended, and the digest of its evidence."""

    outcome: str
    failing_step: str | None
    reason_for_outcome: str
    digest: str
