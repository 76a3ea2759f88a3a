"""Pairs of offsets known to be the same record, and what the stretches between them may hide.

Every offset sync is a pair (u, d). After a restart MirrorMaker 2 jumps back and mirrors a block again; the sync that
would show it can be lost, because a later sync of the same partition replaces one that is still waiting to be sent.

Invariants:

1. Pairs are kept in the order in which they were written, with d strictly increasing. Where d falls the target was
   truncated or recreated: everything before is contradicted and discarded.
2. After the last pair with u <= p every pair has u > p, so every record from p on has its last copy after that pair's
   d.
3. A stretch between two pairs can hide a restart from before p only if it is at least as long on the target as there
   are records from p to its end: it would have to hold a copy of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.logs.bounds import LogBounds, TargetBounds
from kafka_dr_spark.logs.segment import Segment

UNUSABLE = np.iinfo(np.int64).max // 2


#: Both logs from their beginnings on: one was always copied to the other.
WHOLE = Segment()


@dataclass(frozen=True)
class Pairs:
    """Usable pairs of one partition in the order of time.

    Attributes:
        upstream: int64 source offsets u.
        downstream: int64 target offsets d, strictly increasing.
        discarded: how many syncs later ones contradict.
    """

    upstream: Ints
    downstream: Ints
    discarded: int = 0

    def __len__(self) -> int:
        return len(self.upstream)

    def without(self, index: int) -> Pairs:
        """Return the pairs but for one that did not stand up to a look at the records."""
        return Pairs(np.delete(self.upstream, index), np.delete(self.downstream, index), self.discarded)

    def first(self, count: int) -> Pairs:
        """Return the ``count`` earliest pairs."""
        return self.only(slice(count))

    def only(self, indexes: Ints | Mask | slice) -> Pairs:
        """Return the pairs with the given indexes."""
        return Pairs(self.upstream[indexes], self.downstream[indexes], self.discarded)

    def name(self, index: int) -> str:
        """Return a pair as people write it: ``1200->1187``."""
        return f"{self.upstream[index]}->{self.downstream[index]}"


def usable_pairs(upstream: Ints, downstream: Ints, sequence: Ints, bounds: LogBounds, unwatched: bool = False) -> Pairs:
    """Order syncs by time, discard what later ones contradict, and keep those inside both logs.

    Args:
        unwatched: nobody else can tell that the target's log is another one by now, and the bounds are those of the
            whole log.
    """
    order = np.argsort(sequence, kind="stable")
    u, d = upstream[order].astype(np.int64), downstream[order].astype(np.int64)
    repeated = np.zeros(len(u), np.bool_)
    repeated[1:] = (u[1:] == u[:-1]) & (d[1:] == d[:-1])
    u, d = u[~repeated], d[~repeated]
    falls = np.flatnonzero(d[1:] <= d[:-1]) + 1
    # Danger: a pair of an older target log may be far too high, and nothing later would show it.
    since = int(falls[-1]) if len(falls) else 0
    if unwatched and len(d) and bounds.boundary is not None and d[-1] >= bounds.boundary:
        # The newest one names a record that the target has no more: it is of a longer log, and all before it are, too.
        since = len(d)
    u, d = u[since:], d[since:]
    inside = _inside(u, bounds.source_start, bounds.cut_off) & _inside(d, bounds.target_start, bounds.boundary)
    return Pairs(u[inside], d[inside], since)


def _inside(offsets: Ints, start: int | None, end: int | None) -> Mask:
    inside = offsets >= (0 if start is None else start)
    return inside if end is None else inside & (offsets < end)


def pair_below(pairs: Pairs, positions: Ints) -> Ints:
    """Return for each position the index of the last pair with u <= position, -1 if there is none."""
    lowest_from_here = np.minimum.accumulate(pairs.upstream[::-1])[::-1]
    return np.searchsorted(lowest_from_here, positions, side="right") - 1


def lengths_after_pairs(pairs: Pairs, bounds: TargetBounds) -> tuple[Ints, Ints]:
    """Return the lengths on source and target of the stretch after each pair; the last one ends at both logs' ends.

    A source whose end is unknown gives the last stretch a length of -1, which equals none.
    """
    cut_off = pairs.upstream[-1:] - 1 if bounds.cut_off is None else [bounds.cut_off]
    on_source = np.diff(np.append(pairs.upstream, cut_off))
    return on_source, np.diff(np.append(pairs.downstream, bounds.boundary if len(pairs) else []))
