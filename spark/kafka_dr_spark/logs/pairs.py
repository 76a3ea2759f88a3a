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

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask

UNUSABLE = np.iinfo(np.int64).max // 2


@dataclass(frozen=True)
class Bounds:
    """What is known of one source partition and its target; offsets as in the ``bounds`` schema."""

    topic: str
    partition: int
    target_topic: str
    source_start: int | None
    cut_off: int | None
    target_start: int | None
    boundary: int | None
    drained: bool
    complete: bool
    other_writer: bool
    source_compacted: bool
    target_compacted: bool
    compare_timestamps: bool
    recreated: bool

    @property
    def target_exists(self) -> bool:
        """Whether the target partition exists."""
        return self.target_start is not None and self.boundary is not None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SourceBounds(Bounds):
    """Bounds whose source offsets are known."""

    source_start: int
    cut_off: int


class TargetBounds(Bounds):
    """Bounds of a partition whose target exists."""

    target_start: int
    boundary: int


class FullBounds(SourceBounds, TargetBounds):
    """Bounds of which all offsets are known."""


class Segment(NamedTuple):
    """A stretch of the source's log and the target's copy of it; ends are exclusive, None is open.

    Attributes:
        copied_back: the source's records are copies of the target's; otherwise it is the other way round.
        drained: its last copy is of its last original, as was proven when the direction turned.
    """

    source_from: int = 0
    source_to: int | None = None
    target_from: int = 0
    target_to: int | None = None
    copied_back: bool = False
    drained: bool = False

    @property
    def closed(self) -> bool:
        """Whether the direction turned at its end, where all that the one log holds of it was in the other."""
        return self.source_to is not None


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


@dataclass(frozen=True)
class Floors:
    """Both logs' ends of one partition at each sample, ordered by time; no column ever falls.

    Attributes:
        replicated: the last replicated offset that Connect kept then, -1 where none is known: a task goes on, and
            begins anew, behind it.
        sampled_at: when the sample was begun, in milliseconds since 1970.
        fell: whether a log, or what Connect kept, fell before these: what the target took until then may be of records
            that the source has no more.
    """

    source_end: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    target_end: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    replicated: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sampled_at: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    fell: bool = False

    def __len__(self) -> int:
        return len(self.source_end)

    def index_below(self, offset: int) -> int:
        """Return the index of the newest sample at which the source ended at or below an offset, -1 if none."""
        return int(np.searchsorted(self.source_end, offset, side="right")) - 1

    def below(self, offset: int) -> int | None:
        """Return the target offset below which no copy of the offset or later records lies; None without sample."""
        index = self.index_below(offset)
        return None if index < 0 else int(self.target_end[index])

    def index_when_target_ended_by(self, offset: int) -> int:
        """Return the index of the newest sample at which the target ended at or below an offset, -1 if none."""
        return int(np.searchsorted(self.target_end, offset, side="right")) - 1


def usable_floors(source_end: Ints, target_end: Ints, replicated: Ints, sampled_at: Ints, bounds: Bounds) -> Floors:
    """Order floors by time, and keep those since any column last fell: earlier ones are of another log."""
    order = np.argsort(sampled_at, kind="stable")
    columns = [column[order].astype(np.int64) for column in (source_end, target_end, replicated, sampled_at)]
    falls = np.flatnonzero(np.any([column[1:] < column[:-1] for column in columns], axis=0)) + 1
    since = int(falls[-1]) if len(falls) else 0
    # One that is above the target's end now was read before the target was truncated.
    inside = columns[1][since:] <= (-1 if bounds.boundary is None else bounds.boundary)
    ends, targets, kept, at = (column[since:][inside] for column in columns)
    return Floors(ends, targets, kept, at, since > 0)


def usable_pairs(upstream: Ints, downstream: Ints, sequence: Ints, bounds: Bounds, unwatched: bool = False) -> Pairs:
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


def stretches(pairs: Pairs, bounds: TargetBounds) -> tuple[Ints, Ints]:
    """Return the lengths on source and target of the stretch after each pair; the last one ends at both logs' ends.

    A source whose end is unknown gives the last stretch a length of -1, which equals none.
    """
    cut_off = pairs.upstream[-1:] - 1 if bounds.cut_off is None else [bounds.cut_off]
    on_source = np.diff(np.append(pairs.upstream, cut_off))
    return on_source, np.diff(np.append(pairs.downstream, bounds.boundary if len(pairs) else []))


def longest_hiding_place(pairs: Pairs, bounds: TargetBounds, reach: int) -> Ints:
    """Return per pair, and for the logs' ends, the longest later stretch that may hide a restart (target records).

    UNUSABLE stands where a later pair is not above the pair on the source: how much lies below that one says little.
    A stretch of equal length on both sides hides a restart only if gaps on the source make up for the repeat exactly.
    Up to ``reach`` records this is taken into account; a longer one is believed to hide none. The last stretch ends
    without a record of its own.
    """
    if not len(pairs):
        return np.zeros(1, np.int64)
    on_source, on_target = stretches(pairs, bounds)
    # Without this exception one long stretch would make every older position read as much as the stretch is long.
    believed = (on_source == on_target) & (on_target > reach)
    suspect = np.where(believed, 0, on_target)
    suspect[-1] = max(suspect[-1] - 1, 0)
    longest = np.maximum.accumulate(suspect[::-1])[::-1]
    lowest_later = np.append(np.minimum.accumulate(pairs.upstream[:0:-1])[::-1], UNUSABLE)
    return np.append(np.where(lowest_later <= pairs.upstream, UNUSABLE, longest), 0)


def top_for(pairs: Pairs, bounds: TargetBounds, hiding: Ints, lowest: Ints, proven: int | Ints) -> Ints:
    """Return the first sufficient pair at or after ``lowest``, judged by pairs alone; one past the last: log ends.

    Args:
        hiding: from longest_hiding_place.
        lowest: indices of pairs, one past the last allowed.
        proven: source records known from the position to the pair ``lowest``.
    """
    usable = np.flatnonzero(hiding != UNUSABLE)
    downstream = np.append(pairs.downstream, bounds.boundary)
    enough = np.searchsorted((downstream - hiding)[usable], downstream[lowest] - proven)
    return usable[np.maximum(enough, np.searchsorted(usable, lowest))]


def repeats_known(pairs: Pairs, bounds: TargetBounds) -> int:
    """Return how many records the pairs prove to stand on the target more often than MirrorMaker 2 read the source."""
    if not len(pairs):
        return 0
    on_source, on_target = stretches(pairs, bounds)
    # Behind the last pair only a drained target without another writer lets the difference be read as repeats.
    counted = slice(None) if bounds.drained and not bounds.other_writer else slice(None, -1)
    return int(np.maximum(on_target[counted] - on_source[counted], 0).sum())
