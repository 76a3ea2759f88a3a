"""Facts (contents of journal entries) about a procedure's course: opened, approved, refused, aborted, closed.

Times are ISO 8601 UTC; `by_hand` is the name of the person who did a step manually, None if the step did its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from kafka_dr.procedure.entries.fact import Fact, Intent, Line, Note, OrAbsent, StepOutcome, newest_fact
from kafka_dr.procedure.entries.records import (
    Approval,
    Binding,
    ContinuedRun,
    DrainHookAnswer,
    FenceHookAnswer,
    Figures,
    SkippedCoolDown,
)
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import Entry, Step


class ProcedureOpened(Fact, steps=(Step.OPEN_PROCEDURE,), kind=Entry.OPENED):
    """A run took its lease.

    Attributes:
        request: the run's params.
        continues: the planned run that this run continues.
        binding: None in entries of versions that bound no run.
        objectives: of the flow from source to target, as the topology states them; None if it states none, and in
            entries of versions that recorded none.
        version: the version of Switchback that opened the run; None in entries of versions that did not state this.
        opened_on: name of the machine on which the step ran; None where it wrote no token for later steps.
    """

    dag_id: str
    run_id: str
    source: str
    target: str
    reason: str
    triggered_at: str
    request: Figures
    continues: ContinuedRun | None = None
    cool_down: SkippedCoolDown | None = None
    binding: OrAbsent[Binding] = None
    objectives: OrAbsent[Figures] = None
    version: OrAbsent[str] = None
    opened_on: OrAbsent[str] = None

    @property
    def deadlines(self) -> Mapping[str, float]:
        """The run's deadlines, in seconds."""
        deadlines: Mapping[str, float] = self.request.get("deadlines", {})
        return deadlines


class LeaseTaken(StepOutcome, steps=(Step.OPEN_PROCEDURE,)):
    """The pair of clusters whose lease was taken, and the lease's epoch."""

    epoch: int
    pair: str


class LeasePassed(Note, steps=(Step.OPEN_PROCEDURE,)):
    """A planned run's lease passed to an unplanned run that continues the planned run, or came back from there.

    Attributes:
        continued_by: id of the unplanned run that got the lease; None if the planned run got its lease back.
        given_back_by: id of the unplanned run that gave the lease back; None if `continued_by` is set.
        outcome: how the unplanned run that gave the lease back ended; None if `continued_by` is set.
    """

    continued_by: str | None
    given_back_by: OrAbsent[str] = None
    outcome: OrAbsent[str] = None


def continued_by(entries: Iterable[Line]) -> str | None:
    """Return the id of the unplanned run that continues the planned run which wrote these journal entries.

    None if no run continues the planned run, or if the planned run got its lease back.
    """
    passed = newest_fact(entries, LeasePassed)
    return None if passed is None else passed.continued_by


class TryBegun(Intent, steps=()):
    """A try of a step began; `attempt` is Airflow's number of the try."""

    attempt: int


class AnchorsMissed(Note, steps=()):
    """Places that took no anchor of the journal from a step, or could not be compared with the journal.

    Attributes:
        unread: place -> why its anchors could not be read.
        unwritten: place -> why the step's anchors may be missing there.
        anchored_on: aliases of the clusters that were compared and took the step's anchors.
    """

    unread: Mapping[str, str]
    unwritten: Mapping[str, str]
    anchored_on: Sequence[str]


class JournalAccepted(Note, steps=(Step.OPEN_PROCEDURE,)):
    """A person accepted the journal although it lacked, or had otherwise, the anchored entries in `lacked`."""

    accepted_by: str
    reason: str
    lacked: Sequence[str]


class StepNotDone(Fact):
    """The error because of which a step did not do its work: its class name, and the parts of its message."""

    error: str
    reason: str
    seen: str
    next_step: str


class StepRefused(StepNotDone, steps=(), kind=Entry.REFUSAL):
    """A step refused to act, as a precondition was not met."""


class StepFailed(StepNotDone, steps=(), kind=Entry.FAILURE):
    """A step could not act, or could not prove its result."""


class GatePassed(StepOutcome, steps=GATES):
    """A gate passed by itself: no approval was needed."""

    asked: Literal[False]
    by_hand: OrAbsent[str] = None


class GateApproved(StepOutcome, Approval, steps=GATES):
    """A second person approved at the gate."""

    asked: Literal[True]


class SignedFact(Fact):
    """A fact that the journal's key signs, if the topology names the key.

    Attributes:
        signature: over procedure, step, kind and all other fields; None if the fact is not signed.
        unsigned: why the fact is not signed although the topology names a key; else None.
    """

    signature: OrAbsent[str] = None
    unsigned: OrAbsent[str] = None


class ApprovalGiven(SignedFact, Approval, steps=GATES, kind=Entry.APPROVAL):
    """The approval that a gate read from Airflow's API."""


class QuestionAsked(Intent, steps=GATES):
    """A gate is about to ask a person, who is notified by this entry.

    Attributes:
        asks: the question.
        digest: the digest of what is to be approved.
        wait_seconds: how long the gate waits for an answer.
        figures: what to decide by, as sentences; no content of records.
    """

    asks: str
    digest: str
    wait_seconds: float
    figures: Sequence[str] = ()


class AnswerIgnored(Note, steps=GATES):
    """An answer to a gate does not count, for the reason in `answer_ignored`."""

    answer_ignored: str


class ProcedureAborted(Fact, steps=(Step.ABORT_PROCEDURE,), kind=Entry.ABORT):
    """Who aborted the procedure, by which run of abort_procedure, and why."""

    by: str
    reason: str
    run_id: str
    at: str


class AbortNoted(StepOutcome, steps=(Step.ABORT_PROCEDURE,)):
    """Id of the procedure that was aborted."""

    aborted: str


class SourceToReopen(Intent, steps=(Step.RETURN_TO_SOURCE,)):
    """A rollback is about to open the source to clients again."""

    reopens_source: bool
    by_hand: OrAbsent[str] = None


class SourceAclEntriesToRemove(Intent, steps=(Step.RETURN_TO_SOURCE,)):
    """Number of the fence's ACL entries that are about to be removed from the source."""

    removes_acl_entries: int


class SourceReturned(StepOutcome, steps=(Step.RETURN_TO_SOURCE,)):
    """The rollback is done. The fields after `touched` are set only if fencing the source had been begun.

    Attributes:
        touched: whether the run had changed anything on a cluster.
        replication_left_stopped: why connectors could not be resumed; None if the connectors were resumed.
        probe_refused_by: brokers that still refused the probe's write, with their answers.
        records_written_since: records that clients wrote on the source after its fence was lifted;
            `records_mirrored_since`: how many of these records were mirrored to the target.
        records_not_seen: why these records could not be counted; None if the records were counted.
        left_on_returned_cluster: steps of a failback whose changes stay, whether or not the source was fenced.
        settings_restored: connectors that have their former settings again; set only by a change of a flow.
        flow_after_return: whether records flow with the former settings, as a sentence; set as `settings_restored`.
        fence_kept_for: another run of a common plan, which has opened its target; the source's fence stays for it.
    """

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
    settings_restored: OrAbsent[Sequence[str]] = None
    flow_after_return: OrAbsent[str] = None
    fence_kept_for: OrAbsent[str] = None


class ClosingBegun(Intent, steps=(Step.CLOSE_PROCEDURE,)):
    """The evidence is about to be written.

    Attributes:
        after: sequence number of the newest journal entry that the evidence covers.
        clock: whose clock states the journal's times; None in entries of versions that did not state this.
        notices: what became of notices about the procedure so far, as of `actions.notices_sent`; None as for `clock`.
    """

    after: int
    clock: OrAbsent[str] = None
    notices: OrAbsent[Sequence[Figures]] = None


class ProcedureClosed(SignedFact, steps=(Step.CLOSE_PROCEDURE,), kind=Entry.CLOSED):
    """How the procedure ended, and the digest of its evidence."""

    outcome: str
    failing_step: str | None
    reason_for_outcome: str
    digest: str
