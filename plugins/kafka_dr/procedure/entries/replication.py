"""Facts of MirrorMaker 2: drained, stopped, seeded, started again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome, WatchedFact
from kafka_dr.procedure.entries.records import Receipt
from kafka_dr.vocabulary import Step

_STOPPING = (Step.STOP_MIRROR_MAKER, Step.WATCH_OLD_SOURCE, Step.FENCE_RETURNED_CLUSTER, Step.PREPARE_TOPICS)


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
        stopped: connectors that are STOPPED without tasks.
        states: state by connector or flow, if the source was declared lost; `still_stopping` were not waited for.
    """

    boundary: Receipt
    replicated: OrAbsent[Receipt] = None
    stopped: OrAbsent[Sequence[str]] = None
    partitions_drained: OrAbsent[int] = None
    asked: OrAbsent[bool] = None
    states: OrAbsent[Mapping[str, str]] = None
    still_stopping: OrAbsent[Sequence[str]] = None
    worker_silent: OrAbsent[str] = None


class OffsetsToSeed(Intent, steps=(Step.SEED_REVERSE_REPLICATION, Step.SEED_FLOW_BACK)):
    """Number of partitions whose offsets in Connect are about to be set."""

    partitions: int


class ReverseFlowSeeded(StepOutcome, steps=(Step.SEED_REVERSE_REPLICATION,)):
    """Start offsets of the reverse flow; `why_not` if it needs no seed."""

    seeded: int
    why_not: OrAbsent[str] = None
    connector: OrAbsent[str] = None
    seeds: OrAbsent[Receipt] = None
    by_hand: OrAbsent[str] = None


class FlowBackSeeded(StepOutcome, steps=(Step.SEED_FLOW_BACK,)):
    """Start offsets of the flow back, in topics of these ids; `why_not` if it runs and was not seeded."""

    seeded: int
    ran_before: bool
    connector: str
    seeds: Receipt
    topic_ids: Mapping[str, str]
    unchanged: OrAbsent[int] = None
    other_aliases: OrAbsent[Sequence[str]] = None
    why_not: OrAbsent[str] = None


class EndsNoted(Note, steps=(Step.START_REVERSE_REPLICATION, Step.START_FLOW_BACK)):
    """Log ends before the flow that writes to these logs was resumed; of all logs if `all_noted`."""

    ends_before: Receipt
    all_noted: bool = False


class FlowStarted(StepOutcome, steps=(Step.START_REVERSE_REPLICATION, Step.START_FLOW_BACK)):
    """The flow runs, and its copies were checked unless `note` says why not; or no start was requested."""

    started: bool
    connectors: OrAbsent[Sequence[str]] = None
    partitions_flowing: OrAbsent[int] = None
    note: OrAbsent[str] = None


class SourceEndsNoted(Note, steps=(Step.WAIT_FOR_CATCH_UP,)):
    """The source's log ends up to which the catch-up is waited for."""

    source_ends: Receipt


class FlowBackCaughtUp(StepOutcome, steps=(Step.WAIT_FOR_CATCH_UP,)):
    """Lag of the flow back in seconds, and the allowed lag."""

    partitions: int
    behind_seconds: float
    allowed_seconds: float
