"""Which segments of a partition's log each of two clusters copied from the other, over all client moves.

Each client move reverses the direction of replication. Under identity naming both logs of a partition then consist of
alternating segments: written by clients on one cluster, copied to the other.

Invariants
1. Segments have the same order in both logs; between two segments records may lie that were never copied (stranded).
2. A segment with unknown ends is left out together with all older segments: no segment is guessed.
3. A recreated topic begins a new lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class MoveOffsets(NamedTuple):
    """One client move, for one partition; offsets are log ends.

    Attributes:
        source: the cluster that clients left in this move; until the move it was mirrored to the target.
        target: the cluster that clients moved to.
        source_end: end (exclusive) of the source records that were copied to the target; None if unknown.
        target_end: the target's log end after mirroring had stopped: clients wrote the target's records from this
            offset on; None if unknown.
        source_resumes: offset on the source of the first record that was copied back from the target after this move;
            above `source_end` if stranded records lie in between; None if unknown.
        recreated: before this move the target's topic was recreated and copied again from the source's log start.
        drained: the target's last copied record was proven to be a copy of the last record below `source_end`.
    """

    source: str
    target: str
    source_end: int | None
    target_end: int | None
    source_resumes: int | None = None
    recreated: bool = False
    drained: bool = False


class CopiedSegment(NamedTuple):
    """A segment of the source's log, and the same records in the target's log.

    Attributes:
        source_to, target_to: ends, exclusive; None in the open segment: the newest, to which records are still added.
        copied_back: true if the source's records are the copies; false if the target's records are the copies.
        drained: the last copy in the segment was proven to be a copy of the segment's last original record; always
            false for an open segment.
        copied_to: set if the flow target->source still copies, or may not have copied all: target offset below which
            all originals are known to have copies.
    """

    source_from: int
    source_to: int | None
    target_from: int
    target_to: int | None
    copied_back: bool
    drained: bool = False
    copied_to: int | None = None


class Lineage(NamedTuple):
    """The segments of a partition, oldest first.

    Attributes:
        unknown: why it is unknown which records below the first segment are copies; None if no record lies below the
            first segment.
    """

    segments: tuple[CopiedSegment, ...]
    unknown: str | None = None


def lineage_of(moves: Sequence[MoveOffsets], source: str, target: str) -> Lineage:
    """Return the segments of a partition's logs, with the cluster that clients use now as source.

    Args:
        moves: all client moves since the partition was created, oldest first.
        source: the cluster that clients use now: the target of the last move.
        target: the other cluster.
    """
    begin = {source: 0, target: 0}
    segments: list[CopiedSegment] = []
    unknown = None
    for move in moves:
        if move.recreated:
            begin, segments, unknown = {source: 0, target: 0}, [], None
        end = _without_unknown({move.source: move.source_end, move.target: move.target_end})
        if len(end) < 2:
            segments, unknown = [], f"which records of {move.source} were on {move.target} when clients left is unknown"
        elif len(begin) == 2 and not _is_empty_segment(begin, end, move):
            segments.append(_segment(begin, end, source, target, move.source == target, move.drained))
        begin = _without_unknown({move.source: _source_resume_offset(move), move.target: move.target_end})
    if len(begin) < 2:
        return Lineage((), unknown)
    return Lineage((*segments, _segment(begin, {}, source, target, copied_back=False)), unknown)


def _without_unknown(offsets: Mapping[str, int | None]) -> dict[str, int]:
    return {cluster: offset for cluster, offset in offsets.items() if offset is not None}


def _is_empty_segment(begin: dict[str, int], end: dict[str, int], move: MoveOffsets) -> bool:
    """Whether the segment that ends at this move is empty: neither log grew in it, and no record is stranded.

    Args:
        begin: alias -> offset at which the segment begins in this cluster's log.
        end: alias -> offset at which the segment ends in this cluster's log.
    """
    return end == begin and _source_resume_offset(move) == move.source_end


def _segment(
    begin: dict[str, int],
    end: dict[str, int],
    source: str,
    target: str,
    copied_back: bool,
    drained: bool = False,
) -> CopiedSegment:
    return CopiedSegment(begin[source], end.get(source), begin[target], end.get(target), copied_back, drained)


def _source_resume_offset(move: MoveOffsets) -> int | None:
    ends = [offset for offset in (move.source_end, move.source_resumes) if offset is not None]
    return max(ends, default=None)
