"""Read from the journal the start offsets that earlier procedures seeded for a flow.

A *note* is a journal entry with the log ends of the cluster to which a flow writes, before the flow first ran.
"""

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
    """Return partition -> log end in the oldest note that lists the partition; and whether any note is whole.

    A note is whole if it lists all partitions that the flow may write to. A partition that is not in the oldest whole
    note was created by the flow, and is left out unless an older note lists the partition.

    Args:
        notes: per note its sequence number in the journal, its log ends, and whether the note is whole.
    """
    ends: dict[TopicPartition, int] = {}
    newest_first = sorted(notes, key=itemgetter(0), reverse=True)
    for _, noted, whole in newest_first:
        ends = noted if whole else ends | noted
    return ends, any(whole for *_, whole in notes)


class SeededOffset(NamedTuple):
    """Seeded start offset of a flow in one partition of the flow's source.

    Attributes:
        replicated: last source offset that counts as copied; -1 if no record does.
        target_end: the target's log end was at least this offset once the target had all records up to `replicated`.
    """

    replicated: int
    target_end: int


def seeded_offsets(procedure: Run) -> dict[TopicPartition, SeededOffset]:
    """Return source partition -> start offset seeded by the last client move, or by a failback after that move.

    {} if the last client move did not go to the procedure's source.
    """
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
    """Return partition of a failover's target -> last offset that the failover seeded as copied; -1 if none.

    The seeds are those of the failover's reverse flow; {} if the failover seeded no offset.
    """
    seeded = failover.progress.done(ReverseFlowSeeded)
    if seeded is None or seeded.seeds is None:
        return {}
    return frame_partitions(failover.artifacts.load(seeded.seeds), "replicated")


def prefixed_seeded_offsets(procedure: Run, last: Run) -> dict[TopicPartition, SeededOffset]:
    """Return source partition -> start offset that the failover `last` seeded behind stranded records.

    For prefixed naming. {} if the failover seeded no offset, or if the journal has no log ends from before its reverse
    flow first ran.
    """
    replicated, noted = seeded_by(last), last.progress.facts(EndsNoted, Step.START_REVERSE_REPLICATION)
    if not replicated or not noted:
        return {}
    ends = frame_partitions(last.artifacts.load(noted[0].ends_before), "offset")
    copies = remote_partitions(procedure, replicated)
    return {tp: SeededOffset(offset, ends[copies[tp]]) for tp, offset in replicated.items() if copies[tp] in ends}


def _ends_left(procedure: Run, last: Run) -> dict[TopicPartition, int]:
    """Return target partition -> offset below which all records were on the source when clients left the target.

    After a planned failover `last`, the offset is its cut-off. After an unplanned failover, the offset is the frontier
    that find_stranded_records of `procedure` saved; {} if that step is not done.
    """
    if last.progress.done(ProducersFenced) is not None:
        return cut_off_of(last)
    findings = procedure.progress.done(StrandedRecordsFound)
    return {} if findings is None else frame_partitions(procedure.artifacts.load(findings.frontier), "source_tail")
