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
    """ACL entries that a fence is about to add; without `cluster` (older journal entries) they are for the source."""

    adds_acl_entries: Sequence[AclEntry]
    cluster: OrAbsent[str] = None


class FenceHookToAsk(Intent, steps=(Step.FENCE_SOURCE,)):
    """The fence hook is about to be asked to fence this cluster."""

    asks_fence_hook: str


class FenceToArm(Intent, steps=(Step.FENCE_SOURCE,)):
    """The watcher is to fence the source as soon as it answers."""

    arms_fence: SourceToFence


class TransactionsToAbort(Intent, steps=(Step.FENCE_PRODUCERS,)):
    """Open transactions about to be aborted."""

    aborts_transactions: Sequence[OpenTransaction]


class TransactionsOpen(Note, steps=(Step.FENCE_PRODUCERS,)):
    """Transactions that are open behind the fence."""

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
    """Groups are empty, reads refused, `positions` frozen; `commits_end`: log ends of the topic of commits."""

    groups: Sequence[str]
    groups_since_forecast: Sequence[str]
    excluded: Sequence[ExcludedNow]
    acl_entries_added: int
    positions: Receipt
    commits_end: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AcceptedRecords:
    """Records a source accepted after clients left, by the log ends behind its fence."""

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
    """The source is fenced according to the fence hook."""

    fenced_at: str


class SourceFenceArmed(SourceFenced, steps=(Step.FENCE_SOURCE,)):
    """The source is not fenced yet; the watcher fences the source as soon as it answers."""

    armed_at: str
    topics: int
    watcher_seen_at: str


class ReturnedClusterFenced(StepOutcome, steps=(Step.FENCE_RETURNED_CLUSTER,)):
    """The returned cluster is fenced; `still_partitions` is None if the flow back writes to this cluster."""

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
    """When an armed source first answered again."""

    answers_since: str


class FenceDisarmed(Note, steps=(Step.WATCH_OLD_SOURCE,)):
    """The watch over a procedure's source was ended, with the reason."""

    disarms_fence: str
    source: str
    reason: str


class LoopStopped(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Two flows copied the same topics in a circle; the watcher stopped one flow."""

    both_flows_run: Figures


class OldSourceProducers(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Producers that wrote to an old source after clients left, as far as brokers remember."""

    producers: Mapping[str, Sequence[str]]
    producers_problem: OrAbsent[str] = None


class OldMirrorMakerStopped(StepOutcome, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """States of an old source's MirrorMaker 2, by connector or flow."""

    source: str
    mirror_maker: Mapping[str, str]
    mirror_maker_stopped: bool


class OldSourceFenced(OldMirrorMakerStopped, AcceptedRecords, steps=(Step.WATCH_OLD_SOURCE,)):
    """An old source answered and was fenced `window_seconds` later."""

    fenced: str
    fenced_at: str
    answers_since: str
    window_seconds: float
    acl_entries_added: int
    brokers_refusing: Sequence[int] | None
    ends_when_seen: Receipt | None
