"""Facts of fences, and of the records that an old source accepted before its fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.transactions import OpenTransaction
from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome, WatchedFact
from kafka_dr.procedure.entries.records import (
    Approval,
    DrainHookAnswer,
    ExcludedNow,
    FenceHookAnswer,
    Figures,
    Receipt,
    SourceToFence,
)
from kafka_dr.vocabulary import Step


class AclEntriesToAdd(
    Intent,
    WatchedFact,
    steps=(
        Step.FENCE_PRODUCERS,
        Step.DRAIN_CONSUMERS,
        Step.FENCE_SOURCE,
        Step.FENCE_RETURNED_CLUSTER,
        Step.WATCH_OLD_SOURCE,
    ),
):
    """ACL entries that a fence is about to add to a cluster; `cluster` None (older journal entries): the source."""

    adds_acl_entries: Sequence[AclEntry]
    cluster: OrAbsent[str] = None


class FenceHookToAsk(Intent, steps=(Step.FENCE_SOURCE,)):
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
    """Clients' writes are refused on the source; `cut_off` holds the source's stable log ends."""

    approval: Approval
    drain_hook: DrainHookAnswer
    acl_entries_added: int
    brokers_refusing: Sequence[int] | None
    still_after_seconds: float
    open_transactions: Sequence[OpenTransaction]
    transactions_aborted: Sequence[OpenTransaction]
    fenced_at: str | None
    cut_off: Receipt


class ConsumersDrained(StepOutcome, steps=(Step.DRAIN_CONSUMERS,)):
    """Groups are empty, their reads on the source are refused, and their positions are frozen.

    Attributes:
        groups_since_forecast: groups that are not in the plan, as they were created after the forecast.
        positions: receipt of the frozen positions.
        commits_end: log ends of __consumer_offsets before the positions were read, by partition; {} if not visible.
    """

    groups: Sequence[str]
    groups_since_forecast: Sequence[str]
    excluded: Sequence[ExcludedNow]
    acl_entries_added: int
    positions: Receipt
    commits_end: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AcceptedRecords:
    """Records that a source accepted after its clients had left: its fenced log ends above those of the inventory.

    Attributes:
        accepted: receipt of the ranges, one per partition.
        may_have_written: principals with the right to write; no record names its writer.
        ends_at_fence: receipt of the log ends behind the fence.
        known_ends_problem: why the inventory's log ends could not be read, in which case all records of the log count;
            None if these log ends could be read.
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
    """How a source declared lost is fenced; `fenced` is a constant of `domain.fencing.armed_fence`."""

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
    """The source is not fenced yet; the watcher fences the source as soon as it answers."""

    armed_at: str
    topics: int
    watcher_seen_at: str


class ReturnedClusterFenced(StepOutcome, steps=(Step.FENCE_RETURNED_CLUSTER,)):
    """The returned cluster is fenced, and the flow from it is stopped.

    Attributes:
        stopped: states of the flows' parts that were asked to stop.
        disarmed: procedures whose armed fences of this cluster ended with this fence.
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
    """When a source with an armed fence first answered again."""

    answers_since: str


class FenceDisarmed(Note, steps=(Step.WATCH_OLD_SOURCE,)):
    """The watch over a source was ended, and why; `disarms_fence`: the procedure that had armed the fence."""

    disarms_fence: str
    source: str
    reason: str


class LoopStopped(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Two flows copied the same topics in a circle; the watcher stopped one of these flows."""

    both_flows_run: Figures


class OldSourceProducers(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """By partition, producers that wrote to an old source after its clients had left, from brokers' producer state."""

    producers: Mapping[str, Sequence[str]]
    producers_problem: OrAbsent[str] = None


class OldMirrorMakerStopped(StepOutcome, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """States of an old source's MirrorMaker 2 after the request to stop, by connector, or in dedicated mode by flow."""

    source: str
    mirror_maker: Mapping[str, str]
    mirror_maker_stopped: bool


class OldSourceFenced(OldMirrorMakerStopped, AcceptedRecords, steps=(Step.WATCH_OLD_SOURCE,)):
    """An old source answered again, and was fenced `window_seconds` later.

    Attributes:
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
