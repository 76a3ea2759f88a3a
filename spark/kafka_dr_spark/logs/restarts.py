"""Where the range between two pairs may hide a restart of MirrorMaker 2."""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.bounds import TargetBounds
from kafka_dr_spark.logs.pairs import UNUSABLE, Pairs, lengths_after_pairs


def longest_undetected_restart(pairs: Pairs, bounds: TargetBounds, reach: int) -> Ints:
    """Return per pair, and for the logs' ends, the longest later range (target records) that may hide a restart.

    UNUSABLE marks a pair with a later pair at or below its u: the number of records below such a pair is unknown. A
    range of equal length on both clusters hides a restart only if gaps on the source offset the repeats exactly: such
    ranges count up to ``reach`` records, longer ones are assumed to hide no restart. The last range
    ends at the log end instead of a pair: one record fewer.
    """
    if not len(pairs):
        return np.zeros(1, np.int64)
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    # Without this exception one long range would make every older position read as many records as the range has.
    believed = (on_source == on_target) & (on_target > reach)
    suspect = np.where(believed, 0, on_target)
    suspect[-1] = max(suspect[-1] - 1, 0)
    longest = np.maximum.accumulate(suspect[::-1])[::-1]
    lowest_later = np.append(np.minimum.accumulate(pairs.upstream[:0:-1])[::-1], UNUSABLE)
    return np.append(np.where(lowest_later <= pairs.upstream, UNUSABLE, longest), 0)


def upper_anchor(pairs: Pairs, bounds: TargetBounds, hiding: Ints, lowest: Ints, proven: int | Ints) -> Ints:
    """Return the first sufficient pair at or after ``lowest``, by pairs alone; one past the last pair: the log ends.

    Args:
        hiding: result of `longest_undetected_restart`.
        lowest: indices of pairs, one past the last allowed.
        proven: number of source records known to exist from the position to the pair ``lowest``.
    """
    usable = np.flatnonzero(hiding != UNUSABLE)
    downstream = np.append(pairs.downstream, bounds.boundary)
    enough = np.searchsorted((downstream - hiding)[usable], downstream[lowest] - proven)
    return usable[np.maximum(enough, np.searchsorted(usable, lowest))]


def repeats_known(pairs: Pairs, bounds: TargetBounds) -> int:
    """Return the number of target records that are proven to be repeats.

    The ranges between pairs are longer on the target than on the source by that many. The range after the last pair
    counts only if the target is drained and has no other writer.
    """
    if not len(pairs):
        return 0
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    # After the last pair the difference means repeats only if the target is drained and has no other writer.
    counted = slice(None) if bounds.drained and not bounds.other_writer else slice(None, -1)
    return int(np.maximum(on_target[counted] - on_source[counted], 0).sum())
