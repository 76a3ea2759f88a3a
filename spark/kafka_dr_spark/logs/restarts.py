"""Where a restart of MirrorMaker 2 may be hidden between two pairs."""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.bounds import TargetBounds
from kafka_dr_spark.logs.pairs import UNUSABLE, Pairs, lengths_after_pairs


def longest_undetected_restart(pairs: Pairs, bounds: TargetBounds, reach: int) -> Ints:
    """Return per pair, and for the logs' ends, the longest later stretch that may hide a restart (target records).

    UNUSABLE stands where a later pair is not above the pair on the source: how much lies below that one says little.
    A stretch of equal length on both sides hides a restart only if gaps on the source make up for the repeat exactly.
    Up to ``reach`` records this is taken into account; a longer one is believed to hide none. The last stretch ends
    without a record of its own.
    """
    if not len(pairs):
        return np.zeros(1, np.int64)
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    # Without this exception one long stretch would make every older position read as much as the stretch is long.
    believed = (on_source == on_target) & (on_target > reach)
    suspect = np.where(believed, 0, on_target)
    suspect[-1] = max(suspect[-1] - 1, 0)
    longest = np.maximum.accumulate(suspect[::-1])[::-1]
    lowest_later = np.append(np.minimum.accumulate(pairs.upstream[:0:-1])[::-1], UNUSABLE)
    return np.append(np.where(lowest_later <= pairs.upstream, UNUSABLE, longest), 0)


def upper_anchor(pairs: Pairs, bounds: TargetBounds, hiding: Ints, lowest: Ints, proven: int | Ints) -> Ints:
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
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    # Behind the last pair only a drained target without another writer lets the difference be read as repeats.
    counted = slice(None) if bounds.drained and not bounds.other_writer else slice(None, -1)
    return int(np.maximum(on_target[counted] - on_source[counted], 0).sum())
