"""Facts of MirrorMaker 2: drained, stopped, told where to begin, started again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome, WatchedFact
from kafka_dr.procedure.entries.records import Receipt
from kafka_dr.vocabulary import Step

_STOPPING = (Step.STOP_MIRROR_MAKER, Step.WATCH_OLD_SOURCE, Step.FENCE_RETURNED_CLUSTER, Step.PREPARE_TOPICS)


class ZeroLagProven(StepOutcome, steps=(Step.WAIT_FOR_ZERO_LAG,)):
    """How many partitions are drained, by kind of proof."""

    partitions: int
    proofs: Mapping[str, int]


class ConnectorsToStop(Intent, WatchedFact, steps=_STOPPING):
    """Connectors that are about to be asked to stop."""

    stops_connectors: Sequence[str]


class ProcessesToStop(Intent, WatchedFact, steps=_STOPPING):
    """The flow whose processes are about to be stopped, in dedicated mode."""

    stops_processes: str


class MirrorMakerStopped(StepOutcome, steps=(Step.STOP_MIRROR_MAKER,)):
    """The target's still log ends are the boundary.

    Attributes:
        stopped: connectors that stand without tasks.
        states: state by connector or flow, where the source was given up; `still_stopping` of them were not waited for.
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
    """Of how many partitions Connect's offsets are about to be set."""

    partitions: int


class ReverseFlowSeeded(StepOutcome, steps=(Step.SEED_REVERSE_REPLICATION,)):
    """Where the reverse flow begins; `why_not` where it needs no seed."""

    seeded: int
    why_not: OrAbsent[str] = None
    connector: OrAbsent[str] = None
    seeds: OrAbsent[Receipt] = None
    by_hand: OrAbsent[str] = None


class FlowBackSeeded(StepOutcome, steps=(Step.SEED_FLOW_BACK,)):
    """Where the flow back begins, in topics of these ids; `why_not` where it runs and goes on."""

    seeded: int
    ran_before: bool
    connector: str
    seeds: Receipt
    topic_ids: Mapping[str, str]
    unchanged: OrAbsent[int] = None
    other_aliases: OrAbsent[Sequence[str]] = None
    why_not: OrAbsent[str] = None


class EndsNoted(Note, steps=(Step.START_REVERSE_REPLICATION, Step.START_FLOW_BACK)):
    """Where logs ended before the flow that writes to them was resumed; all of them if `all_noted`."""

    ends_before: Receipt
    all_noted: bool = False


class FlowStarted(StepOutcome, steps=(Step.START_REVERSE_REPLICATION, Step.START_FLOW_BACK)):
    """The flow runs, and what it copies was looked at where that proves anything; or it was not to be started."""

    started: bool
    connectors: OrAbsent[Sequence[str]] = None
    partitions_flowing: OrAbsent[int] = None
    note: OrAbsent[str] = None


class SourceEndsNoted(Note, steps=(Step.WAIT_FOR_CATCH_UP,)):
    """Where the source's logs ended: all below is waited for."""

    source_ends: Receipt


class FlowBackCaughtUp(StepOutcome, steps=(Step.WAIT_FOR_CATCH_UP,)):
    """How far the flow back is behind, and how far it may be."""

    partitions: int
    behind_seconds: float
    allowed_seconds: float
