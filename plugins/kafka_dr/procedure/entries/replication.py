"""Facts (contents of journal entries) about flows of MirrorMaker 2: drained, stopped, seeded, started again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome, WatchedFact
from kafka_dr.procedure.entries.records import Receipt
from kafka_dr.vocabulary import Step

_STOPPING = (Step.STOP_MIRROR_MAKER, Step.WATCH_OLD_SOURCE, Step.FENCE_RETURNED_CLUSTER, Step.PREPARE_TOPICS)
_STARTING = (Step.START_REVERSE_REPLICATION, Step.START_FLOW_BACK)


class ZeroLagProven(StepOutcome, steps=(Step.WAIT_FOR_ZERO_LAG,)):
    """Number of drained partitions, by kind of proof."""

    partitions: int
    proofs: Mapping[str, int]


class ConnectorsToStop(Intent, WatchedFact, steps=_STOPPING):
    """Connectors about to be asked to stop."""

    stops_connectors: Sequence[str]


class ProcessesToStop(Intent, WatchedFact, steps=_STOPPING):
    """The dedicated-mode flow whose processes are about to be stopped."""

    stops_processes: str


class MirrorMakerStopped(StepOutcome, steps=(Step.STOP_MIRROR_MAKER,)):
    """MirrorMaker 2 was stopped; the target's stable log ends are the boundary.

    Attributes:
        boundary: receipt of the target's stable log ends, by partition.
        replicated: receipt of the last replicated source offset by partition, as Connect stores it.
        stopped: connectors that are STOPPED without tasks.
        states: in an unplanned failover, state by connector, or in dedicated mode by flow; `still_stopping`: the
            connectors or the flow that had not stopped yet.
        worker_silent: why the worker did not answer the request to stop; None if the worker answered.
        cut_off: receipt of source offsets, by partition, if the flow runs on: the target has, below the boundary, the
            records below these offsets; None if the flow is stopped.
    """

    boundary: Receipt
    cut_off: OrAbsent[Receipt] = None
    replicated: OrAbsent[Receipt] = None
    stopped: OrAbsent[Sequence[str]] = None
    partitions_drained: OrAbsent[int] = None
    asked: OrAbsent[bool] = None
    states: OrAbsent[Mapping[str, str]] = None
    still_stopping: OrAbsent[Sequence[str]] = None
    worker_silent: OrAbsent[str] = None


class OffsetsToSeed(Intent, steps=(Step.SEED_REVERSE_REPLICATION, Step.SEED_FLOW_BACK)):
    """Number of source partitions whose offsets in Connect are about to be set."""

    partitions: int


class ReverseFlowSeeded(StepOutcome, steps=(Step.SEED_REVERSE_REPLICATION,)):
    """The reverse flow was seeded; if not, `why_not` has the reason.

    Attributes:
        seeded: number of seeded partitions; `seeds`: receipt of their offsets.
        by_hand: name of the person who seeded the flow manually; None if the step did.
    """

    seeded: int
    why_not: OrAbsent[str] = None
    connector: OrAbsent[str] = None
    seeds: OrAbsent[Receipt] = None
    by_hand: OrAbsent[str] = None


class FlowBackSeeded(StepOutcome, steps=(Step.SEED_FLOW_BACK,)):
    """Receipt of the flow back's start offsets; `topic_ids`: ids of the topics on the returned cluster at that time.

    Attributes:
        seeded: number of partitions whose offsets were changed; `unchanged`: number whose offsets were right already.
        ran_before: whether the flow was started after an earlier seed.
        other_aliases: source aliases, other than the flow's, under which Connect stores offsets.
        why_not: why a running flow was not seeded; None if the flow was seeded.
    """

    seeded: int
    ran_before: bool
    connector: str
    seeds: Receipt
    topic_ids: Mapping[str, str]
    unchanged: OrAbsent[int] = None
    other_aliases: OrAbsent[Sequence[str]] = None
    why_not: OrAbsent[str] = None


class SourcesToEnable(Intent, steps=(*_STARTING, Step.RETURN_TO_SOURCE)):
    """Source connectors that were disabled and are about to be enabled, because their flow may copy again."""

    enables_connectors: Sequence[str]


class SourcesToDisable(Intent, steps=_STARTING):
    """STOPPED source connectors of the opposite flow that are about to be disabled: a resume starts no task of them."""

    disables_connectors: Sequence[str]


class EndsNoted(Note, steps=_STARTING):
    """Log ends of the partitions to which a flow is about to write for the first time.

    Attributes:
        ends_before: receipt of the log ends.
        all_noted: True if each partition that the receipt lacks was created later. In older journal entries False:
            the receipt may lack partitions that existed.
    """

    ends_before: Receipt
    all_noted: bool = False


class FlowStarted(StepOutcome, steps=_STARTING):
    """The flow runs, and its first copies were compared with their originals; if not, `note` has the reason.

    Attributes:
        started: False if the run's params do not ask for the flow, or the topology has no such flow.
        disabled: source connectors of the opposite flow that were disabled, so that a resume starts no task of them.
        partitions_flowing: number of partitions whose first new record and its copy were compared.
    """

    started: bool
    connectors: OrAbsent[Sequence[str]] = None
    disabled: OrAbsent[Sequence[str]] = None
    partitions_flowing: OrAbsent[int] = None
    note: OrAbsent[str] = None


class SourceEndsNoted(Note, steps=(Step.WAIT_FOR_CATCH_UP,)):
    """Receipt of the new primary's log ends, up to which the flow back must have copied."""

    source_ends: Receipt


class FlowBackCaughtUp(StepOutcome, steps=(Step.WAIT_FOR_CATCH_UP,)):
    """The flow back has caught up with the new primary.

    Attributes:
        partitions: number of partitions that were compared.
        behind_seconds: how many seconds ago the log ends were read up to which all records are copied.
        allowed_seconds: the largest `behind_seconds` with which the flow back counts as caught up.
    """

    partitions: int
    behind_seconds: float
    allowed_seconds: float
