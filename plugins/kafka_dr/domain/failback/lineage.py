"""Which stretches of a partition's log each of two clusters copied from the other, as directions turned.

Each time clients change sides, the direction of replication turns round. Under identity naming both logs of a partition
then consist of stretches that were written by clients on the one side and copied to the other, by turns.

Invariants
1. Stretches follow each other on both logs, in the same order; between two of them records may stand that were never
   copied (stranded).
2. What is not known is left out, and all that is older with it: no stretch is guessed.
3. A topic that was made anew begins a new lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class SideChange(NamedTuple):
    """One change of sides, as one partition saw it; offsets are log ends.

    Attributes:
        source: the cluster that clients left; until then it was copied to the other one.
        target: the cluster they went to.
        source_end: up to it the source's log was copied to the target, and nothing behind it; None where nobody knows
            that.
        target_end: where the target's log ended when the copying stood: what follows there was written by clients; None
            as above.
        source_resumes: where the copies of that begin in the source's log; more than `source_end` where records are
            stranded in between.
        anew: the target's log was made anew before this change of sides, and copied from the source's beginning.
        drained: the last copy was proven to be of the last record below `source_end`.
    """

    source: str
    target: str
    source_end: int | None
    target_end: int | None
    source_resumes: int | None = None
    anew: bool = False
    drained: bool = False


class CopiedSegment(NamedTuple):
    """A stretch of the source's log and the target's copy of it; ends are exclusive, None is open.

    Attributes:
        copied_back: the source's records are copies of the target's; otherwise it is the other way round.
        drained: its last copy was proven to be of its last original; false on an open one.
    """

    source_from: int
    source_to: int | None
    target_from: int
    target_to: int | None
    copied_back: bool
    drained: bool = False


class Lineage(NamedTuple):
    """The segments of a partition, oldest first; where source records below the first one went is unknown.

    Attributes:
        unknown: why something lies below it, None where nothing does.
    """

    segments: tuple[CopiedSegment, ...]
    unknown: str | None = None


def lineage_of(moves: Sequence[SideChange], source: str, target: str) -> Lineage:
    """Return a partition's lineage as seen from where clients are now.

    Args:
        moves: all changes of sides that the partition saw, oldest first.
        source: where clients are now, and where the last one took them.
        target: the other cluster.
    """
    begin = {source: 0, target: 0}
    segments: list[CopiedSegment] = []
    unknown = None
    for move in moves:
        if move.anew:
            begin, segments, unknown = {source: 0, target: 0}, [], None
        end = _known({move.source: move.source_end, move.target: move.target_end})
        if len(end) < 2:
            segments, unknown = [], f"nobody knows what of {move.source} was on {move.target} when clients left it"
        elif len(begin) == 2 and not _nothing_came(begin, end, move):
            segments.append(_segment(begin, end, source, target, move.source == target, move.drained))
        begin = _known({move.source: _resumes(move), move.target: move.target_end})
    if len(begin) < 2:
        return Lineage((), unknown)
    return Lineage((*segments, _segment(begin, {}, source, target, copied_back=False)), unknown)


def _known(offsets: Mapping[str, int | None]) -> dict[str, int]:
    return {cluster: offset for cluster, offset in offsets.items() if offset is not None}


def _nothing_came(begin: dict[str, int], end: dict[str, int], move: SideChange) -> bool:
    """Whether neither log grew before this change of sides, and nothing is stranded: a stretch of nothing."""
    return end == begin and _resumes(move) == move.source_end


def _segment(
    begin: dict[str, int],
    end: dict[str, int],
    source: str,
    target: str,
    copied_back: bool,
    drained: bool = False,
) -> CopiedSegment:
    return CopiedSegment(begin[source], end.get(source), begin[target], end.get(target), copied_back, drained)


def _resumes(move: SideChange) -> int | None:
    known = [offset for offset in (move.source_end, move.source_resumes) if offset is not None]
    return max(known, default=None)
