"""Seeded start offsets of a flow."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from kafka_dr.actions.history.moves import PairJournal, completed_moves
from kafka_dr.actions.scope.flow_scope import names_separate_directions, remote_partitions
from kafka_dr.actions.scope.plan_scope import cut_off_of
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import (
    EndsNoted,
    FlowBackSeeded,
    ProducersFenced,
    ReverseFlowSeeded,
    StrandedRecordsFound,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def first_noted(notes: Iterable[tuple[int, dict[TopicPartition, int], bool]]) -> tuple[dict[TopicPartition, int], bool]:
    """Log ends by the oldest note of each partition, and whether any note is whole.

    A partition that only notes after a whole note contain was created by the flow, and is left out.

    Args:
        notes: journal sequence, log ends, and whether the note is whole: covers all partitions the flow may write to.
    """
    ends: dict[TopicPartition, int] = {}
    newest_first = sorted(notes, key=itemgetter(0), reverse=True)
    for _, noted, whole in newest_first:
        ends = noted if whole else ends | noted
    return ends, any(whole for *_, whole in notes)


class SeededOffset(NamedTuple):
    """Seeded start offset of a flow in one partition.

    Attributes:
        replicated: last source offset that counts as copied; -1 for none.
        target_end: lower bound of the target's log end once all records that count as copied were there.
    """

    replicated: int
    target_end: int


def seeded_offsets(procedure: Run) -> dict[TopicPartition, SeededOffset]:
    """Seeded start offsets since clients moved to the flow's source; {} if no procedure moved clients there."""
    moved = completed_moves(procedure)
    if not moved or moved[-1][1].request.target != procedure.request.source:
        return {}
    opened, last = moved[-1]
    if names_separate_directions(procedure):
        return prefixed_seeded_offsets(procedure, last)
    replicated = seeded_by(last)
    for _, writer, seeded in PairJournal(procedure).facts(FlowBackSeeded, Step.SEED_FLOW_BACK, opened.sequence):
        replicated |= frame_partitions(writer.artifacts.load(seeded.seeds), "replicated")
    ends = _ends_left(procedure, last)
    return {tp: SeededOffset(offset, ends[tp]) for tp, offset in replicated.items() if tp in ends}


def seeded_by(failover: Run) -> dict[TopicPartition, int]:
    """Last offsets that a failover set as copied for the flow from its target; -1 for none."""
    seeded = failover.progress.done(ReverseFlowSeeded)
    if seeded is None or seeded.seeds is None:
        return {}
    return frame_partitions(failover.artifacts.load(seeded.seeds), "replicated")


def prefixed_seeded_offsets(procedure: Run, last: Run) -> dict[TopicPartition, SeededOffset]:
    """Seeded start offsets under prefixed naming, behind stranded records; {} without seeds or noted log ends."""
    replicated, noted = seeded_by(last), last.progress.facts(EndsNoted, Step.START_REVERSE_REPLICATION)
    if not replicated or not noted:
        return {}
    ends = frame_partitions(last.artifacts.load(noted[0].ends_before), "offset")
    copies = remote_partitions(procedure, replicated)
    return {tp: SeededOffset(offset, ends[copies[tp]]) for tp, offset in replicated.items() if copies[tp] in ends}


def _ends_left(procedure: Run, last: Run) -> dict[TopicPartition, int]:
    """Target offsets below which all was mirrored when clients left: the cut-off, or what this failback found."""
    if last.progress.done(ProducersFenced) is not None:
        return cut_off_of(last)
    findings = procedure.progress.done(StrandedRecordsFound)
    return {} if findings is None else frame_partitions(procedure.artifacts.load(findings.frontier), "source_tail")
