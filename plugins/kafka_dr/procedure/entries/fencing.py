"""Facts (contents of journal entries) about fences, and records that an old source accepted before its fence.

An old source is the cluster that clients left. In all classes times are ISO 8601 UTC. `fenced_at` None: no probe proved
the fence. `brokers_refusing` has the ids of the cluster's brokers that refused the probe's write; None without a probe
or an authorizer. `acl_entries_added` is the number of the fence's ACL entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.transactions import OpenTransaction
from kafka_dr.procedure.entries.fact import Intent, Line, Note, OrAbsent, StepOutcome, WatchedFact, newest_fact
from kafka_dr.procedure.entries.records import (
    Approval,
    DrainHookAnswer,
    ExcludedNow,
    FenceHookAnswer,
    ObservedProducers,
    PlannedTopic,
    Receipt,
    SourceToFence,
)
from kafka_dr.vocabulary import Step

#: Steps that set a fence by ACL entries.
_FENCING_STEPS = (
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.FENCE_SOURCE,
    Step.FENCE_RETURNED_CLUSTER,
    Step.WATCH_OLD_SOURCE,
)


class AclEntriesToAdd(Intent, WatchedFact, steps=_FENCING_STEPS):
    """ACL entries that a fence is about to add to the cluster with the alias `cluster`.

    Older journal entries have no `cluster`; their ACL entries were added to the source.
    """

    adds_acl_entries: Sequence[AclEntry]
    cluster: OrAbsent[str] = None


class GrantsToReplace(Intent, WatchedFact, steps=_FENCING_STEPS):
    """ALLOW entries for User:* that a fence is about to remove from the cluster with the alias `cluster`.

    The fence has added the entries that replace these entries before.
    """

    replaces_acl_entries: Sequence[AclEntry]
    cluster: str


class WriterDenialsToRemove(Intent, steps=(Step.START_FLOW_BACK, Step.START_REVERSE_REPLICATION)):
    """ACL entries of an earlier open_target, about to be removed so that a flow may write to the cluster again."""

    lets_flow_write: Sequence[AclEntry]
    cluster: str


class CanaryToCopy(Intent, steps=(Step.CHECK_READINESS, Step.RESUME_CHANGED_FLOW)):
    """The connector that is about to copy a canary, and by cluster the entries to be added on the canary's topics."""

    canary: str
    canary_entries: Mapping[str, Sequence[AclEntry]]


class CanaryRemoved(Note, steps=(Step.CHECK_READINESS, Step.RESUME_CHANGED_FLOW, Step.CLOSE_PROCEDURE)):
    """The canary's connector and ACL entries were removed; `left` has what could not be removed, as text."""

    canary_removed: str
    left: Sequence[str]


class FenceHookToAsk(Intent, steps=(Step.FENCE_PRODUCERS, Step.FENCE_SOURCE)):
    """Alias of the cluster that the fence hook is about to be asked to fence."""

    asks_fence_hook: str


class FenceToArm(Intent, steps=(Step.FENCE_SOURCE,)):
    """The source that the watcher is to fence as soon as the source answers."""

    arms_fence: SourceToFence


class TransactionsToAbort(Intent, steps=(Step.FENCE_PRODUCERS,)):
    """Open transactions on the source that are about to be aborted."""

    aborts_transactions: Sequence[OpenTransaction]


class TransactionsOpen(Note, steps=(Step.FENCE_PRODUCERS,)):
    """Transactions that are still open on the fenced source."""

    open_transactions: Sequence[OpenTransaction]


class ProducersFenced(StepOutcome, steps=(Step.FENCE_PRODUCERS,)):
    """Clients' writes are refused on the source.

    Attributes:
        still_after_seconds: seconds from the step's beginning until the source's log ends were stable.
        open_transactions: transactions that were still open on the fenced source.
        transactions_aborted: transactions on the source that this procedure aborted.
        cut_off: receipt of the source's stable log ends.
        fence_hook: answer of the fence hook; None if no hook was asked.
        who_may_write: what says who may write, so that the fence covers all writers: `acl entries` or `fence hook`;
            None if nothing does.
        brokers_accepting: ids of the brokers that accepted the probe's write before the fence; None if not asked.
        brokers_dead: ids of brokers with replicas of these topics on which nothing was proven, as they were not live.
        producers: the producers that the source's brokers list on the plan's partitions.
        topics_since_forecast: topics that move and are not in the plan, as they were created after the forecast.
        left_open: True if no write was fenced, because clients stay on the source that do not move; the cut-off is then
            the log ends when the applications were asked to stop.
    """

    approval: Approval
    drain_hook: DrainHookAnswer
    acl_entries_added: int
    brokers_refusing: Sequence[int] | None
    fence_hook: OrAbsent[FenceHookAnswer] = None
    who_may_write: OrAbsent[str] = None
    brokers_accepting: OrAbsent[Sequence[int]] = None
    brokers_dead: OrAbsent[Sequence[int]] = None
    producers: OrAbsent[ObservedProducers] = None
    topics_since_forecast: OrAbsent[Sequence[PlannedTopic]] = None
    left_open: OrAbsent[bool] = None
    still_after_seconds: float
    open_transactions: Sequence[OpenTransaction]
    transactions_aborted: Sequence[OpenTransaction]
    fenced_at: str | None
    cut_off: Receipt


def was_left_open(entries: Iterable[Line]) -> bool:
    """Whether, by the journal entries of a procedure, it fences no write on its source, where other clients stay."""
    fenced = newest_fact(entries, ProducersFenced)
    return bool(fenced and fenced.left_open)


class ConsumersDrained(StepOutcome, steps=(Step.DRAIN_CONSUMERS,)):
    """Groups are empty, their reads on the source are refused, and their positions are frozen.

    Attributes:
        excluded: groups for which the drain does not wait.
        groups_since_forecast: groups that are not in the plan, as they were created after the forecast.
        positions: receipt of the frozen positions.
        commits_end: log ends of the source's __consumer_offsets before the positions were read; {} if unknown.
    """

    groups: Sequence[str]
    groups_since_forecast: Sequence[str]
    excluded: Sequence[ExcludedNow]
    acl_entries_added: int
    positions: Receipt
    commits_end: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AcceptedRecords:
    """Records that a source accepted after its clients had left.

    The records lie between the log ends that the loss assessment recorded, called known ends, and the log ends after
    the fence was set.

    Attributes:
        accepted: receipt of the offset ranges, one per partition.
        records_at_most: number of offsets in all ranges.
        partitions_written: number of ranges.
        partitions_not_known_before: number of partitions with a range, but without a known end.
        logs_shorter_than_known: partitions whose log end is below the known end, as text; at most ten.
        newest_records: newest records of the largest ranges, as text.
        may_have_written: principals with the right to write; no record names its writer.
        ends_at_fence: receipt of the log ends after the fence was set.
        known_ends_problem: why the known ends could not be read; all records of the log are then in the ranges. None if
            the known ends could be read.
    """

    accepted: Receipt
    records_at_most: int
    partitions_written: int
    partitions_not_known_before: int
    logs_shorter_than_known: Sequence[str]
    newest_records: Sequence[str]
    may_have_written: Sequence[str]
    ends_at_fence: Receipt
    known_ends_problem: str | None


class SourceFenced(StepOutcome):
    """How a source declared lost is fenced.

    Attributes:
        approval: the approval of the plan.
        fenced: `by acl`, `by hook` (by the fence hook), or `armed` (the watcher sets the fence later).
        answer: the fence hook's answer; None if the hook was not asked.
    """

    steps = (Step.FENCE_SOURCE,)
    approval: Approval
    fenced: str
    answer: FenceHookAnswer | None


class SourceFencedByAcl(SourceFenced, AcceptedRecords, steps=(Step.FENCE_SOURCE,)):
    """The source is fenced by ACL entries."""

    acl_entries_added: int
    brokers_refusing: Sequence[int] | None
    fenced_at: str | None


class SourceFencedByHook(SourceFenced, steps=(Step.FENCE_SOURCE,)):
    """The source is fenced by the fence hook, as the hook's answer states."""

    fenced_at: str


class SourceFenceArmed(SourceFenced, steps=(Step.FENCE_SOURCE,)):
    """The source is not fenced yet; the watcher fences the source as soon as the source answers.

    Attributes:
        topics: number of topics to fence.
        watcher_seen_at: time of the watcher's last heartbeat.
    """

    armed_at: str
    topics: int
    watcher_seen_at: str


class ReturnedClusterFenced(StepOutcome, steps=(Step.FENCE_RETURNED_CLUSTER,)):
    """The returned cluster is fenced, and the flow from it is stopped.

    Attributes:
        topics: number of fenced topics; `groups`: number of groups whose reads are refused.
        groups_active: groups that still have members on the returned cluster.
        stopped: state by connector, or in dedicated mode by flow, after the request to stop.
        disarmed: ids of procedures that had armed a fence of this cluster; this fence replaces their fences.
        still_partitions: number of partitions with stable log ends; None if the flow back runs, which writes to the
            returned cluster.
    """

    returned_cluster: str
    topics: int
    groups: int
    acl_entries_added: int
    authorizer: bool
    brokers_refusing: Sequence[int] | None
    fenced_at: str | None
    groups_active: Sequence[str]
    stopped: Mapping[str, str]
    disarmed: Sequence[str]
    still_partitions: int | None


class OldSourceAnswers(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """A source with an armed fence answers again; `answers_since`: time of the first answer."""

    answers_since: str


class FenceDisarmed(Note, steps=(Step.WATCH_OLD_SOURCE,)):
    """An armed fence of `source` was ended for `reason`; `disarms_fence`: the procedure that had armed the fence."""

    disarms_fence: str
    source: str
    reason: str


class OldSourceProducers(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """The last producers on the partitions of an old source that got most records after the clients had left.

    Attributes:
        producers: by partition, the latest producers in the leader's producer state, as text; at most three partitions.
        producers_problem: why the brokers' producer state could not be read; None if it was read.
    """

    producers: Mapping[str, Sequence[str]]
    producers_problem: OrAbsent[str] = None


class OldMirrorMakerStopped(StepOutcome, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """States of an old source's MirrorMaker 2 after the request to stop, by connector, or in dedicated mode by flow."""

    source: str
    mirror_maker: Mapping[str, str]
    mirror_maker_stopped: bool


class OldSourceFenced(OldMirrorMakerStopped, AcceptedRecords, steps=(Step.WATCH_OLD_SOURCE,)):
    """An old source answered again, and was fenced.

    Attributes:
        window_seconds: seconds from `answers_since` to `fenced_at`, in which both clusters may have accepted writes.
        ends_when_seen: receipt of the log ends when the fence was begun; None if the source did not return its log ends
            in time.
    """

    fenced: str
    fenced_at: str
    answers_since: str
    window_seconds: float
    acl_entries_added: int
    brokers_refusing: Sequence[int] | None
    ends_when_seen: Receipt | None
