"""Offset pairs (source offset, target offset) of the same record, and the ranges of records between them.

Every offset sync is a pair (u, d). After a restart MirrorMaker 2 jumps back and mirrors a block again. The sync that
would show the restart can be lost, because a later sync of the partition replaces a sync that still waits to be sent.

Invariants:

1. Pairs keep the order in which they were written, with d strictly increasing. Where d falls, the target was truncated
   or recreated: all earlier pairs are contradicted and discarded.
2. Take the last pair with u <= p, for a position p. Every later pair has u > p, so every source record from p on has
   its last copy above the d of that last pair.
3. The range between two pairs can hide a restart from before p only if the range has at least as many target offsets
   as there are source records from p to the range's end: a hidden restart would have copied each of these records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.logs.bounds import LogBounds, TargetBounds
from kafka_dr_spark.logs.segment import Segment

#: Stands for a length, in offsets, that is unknown: larger than any length.
UNUSABLE = np.iinfo(np.int64).max // 2


#: The segment that covers both logs in full, for a partition whose replication direction never changed.
WHOLE = Segment()


@dataclass(frozen=True)
class Pairs:
    """Offset pairs (u, d) of one partition, oldest first, without pairs of an older target log.

    Attributes:
        upstream: int64 source offsets u.
        downstream: int64 target offsets d, strictly increasing.
        discarded: number of offset syncs that were left out because they belong to an older target log.
    """

    upstream: Ints
    downstream: Ints
    discarded: int = 0

    def __len__(self) -> int:
        return len(self.upstream)

    def without(self, index: int) -> Pairs:
        """Return the pairs without the pair at ``index``."""
        return Pairs(np.delete(self.upstream, index), np.delete(self.downstream, index), self.discarded)

    def first(self, count: int) -> Pairs:
        """Return the ``count`` earliest pairs."""
        return self.only(slice(count))

    def only(self, indexes: Ints | Mask | slice) -> Pairs:
        """Return the pairs with the given indexes."""
        return Pairs(self.upstream[indexes], self.downstream[indexes], self.discarded)

    def name(self, index: int) -> str:
        """Return the pair at ``index`` as text, source offset first: ``1200->1187``."""
        return f"{self.upstream[index]}->{self.downstream[index]}"


def usable_pairs(upstream: Ints, downstream: Ints, sequence: Ints, bounds: LogBounds, unwatched: bool = False) -> Pairs:
    """Return one partition's offset syncs as pairs, oldest first.

    Where the target offset does not rise from one sync to the next, the target's log was truncated or recreated: all
    syncs from before the last such place are left out. Syncs outside ``bounds`` are left out, too. A sync that was
    written twice in a row counts once.

    Args:
        upstream: source offsets of the syncs.
        downstream: target offsets of the syncs.
        sequence: numbers that rise in the order in which the syncs were written.
        bounds: log starts and log ends of both clusters, of the whole logs or of one segment.
        unwatched: True if the source cannot be read and the flight recorder has no sample of the partition. Then only
            the syncs can show that the target's log was truncated or recreated: if the newest sync lies at or above
            the target's log end, all syncs are left out. ``bounds`` must then be those of the whole logs.
    """
    order = np.argsort(sequence, kind="stable")
    u, d = upstream[order].astype(np.int64), downstream[order].astype(np.int64)
    repeated = np.zeros(len(u), np.bool_)
    repeated[1:] = (u[1:] == u[:-1]) & (d[1:] == d[:-1])
    u, d = u[~repeated], d[~repeated]
    falls = np.flatnonzero(d[1:] <= d[:-1]) + 1
    # Danger: a pair of an older target log may be far too high, and no later pair would show the error.
    first_valid = int(falls[-1]) if len(falls) else 0
    if unwatched and len(d) and bounds.boundary is not None and d[-1] >= bounds.boundary:
        # The newest pair lies beyond the target's end: this pair and all earlier pairs belong to an older, longer log.
        first_valid = len(d)
    u, d = u[first_valid:], d[first_valid:]
    inside = _inside(u, bounds.source_start, bounds.cut_off) & _inside(d, bounds.target_start, bounds.boundary)
    return Pairs(u[inside], d[inside], first_valid)


def _inside(offsets: Ints, start: int | None, end: int | None) -> Mask:
    inside = offsets >= (0 if start is None else start)
    return inside if end is None else inside & (offsets < end)


def pair_below(pairs: Pairs, positions: Ints) -> Ints:
    """Return per source position the index of the last pair with u <= position; -1 without such a pair."""
    lowest_later = np.minimum.accumulate(pairs.upstream[::-1])[::-1]
    return np.searchsorted(lowest_later, positions, side="right") - 1


def lengths_after_pairs(pairs: Pairs, bounds: TargetBounds) -> tuple[Ints, Ints]:
    """Return the lengths, in source and in target offsets, of the range after each pair.

    The last range ends at both logs' ends. If the source's end is unknown, the source length of the last range is -1,
    which equals no target length.
    """
    cut_off = pairs.upstream[-1:] - 1 if bounds.cut_off is None else [bounds.cut_off]
    on_source = np.diff(np.append(pairs.upstream, cut_off))
    return on_source, np.diff(np.append(pairs.downstream, bounds.boundary if len(pairs) else []))
