"""Determine which ranges between two offset pairs may hide a restart of MirrorMaker 2 without an offset sync.

A pair (u, d) states that the records at source offset u and at target offset d are the same. A range reaches from one
pair to the next, the last range to the ends of both logs. After a hidden restart the range holds repeats.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.bounds import TargetBounds
from kafka_dr_spark.logs.pairs import UNUSABLE, Pairs, lengths_after_pairs


def longest_undetected_restart(pairs: Pairs, bounds: TargetBounds, reach: int) -> Ints:
    """Return per pair the length, in target offsets, of the longest range after it that may hide a restart.

    The result has one more element, 0, for the logs' ends. An element is UNUSABLE if a later pair has the same or a
    lower u, because the number of source records below such a pair is unknown. The last range counts one offset less,
    because it ends at the log end and not at a pair.

    Args:
        pairs: pairs of the partition.
        bounds: log starts and log ends of the partition.
        reach: the greatest length, in target offsets, at which a range of equal length on both clusters counts. Such a
            range hides a restart only if gaps in the source's offsets make up exactly for the repeats; a longer range
            of equal length is assumed to hide no restart.
    """
    if not len(pairs):
        return np.zeros(1, np.int64)
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    # If long equal ranges counted, each older position would need as many records read as the longest range has.
    believed = (on_source == on_target) & (on_target > reach)
    suspect = np.where(believed, 0, on_target)
    suspect[-1] = max(suspect[-1] - 1, 0)
    longest = np.maximum.accumulate(suspect[::-1])[::-1]
    lowest_later = np.append(np.minimum.accumulate(pairs.upstream[:0:-1])[::-1], UNUSABLE)
    return np.append(np.where(lowest_later <= pairs.upstream, UNUSABLE, longest), 0)


def upper_anchor(pairs: Pairs, bounds: TargetBounds, hiding: Ints, lowest: Ints, proven: int | Ints) -> Ints:
    """Return per source position the index of its upper anchor, the pair at which the range to read can end.

    The upper anchor is the first pair after which, judged by the pairs alone, no range is long enough to hide a restart
    from before the position. An index one past the last pair stands for the ends of both logs.

    Args:
        pairs: pairs of the partition.
        bounds: log starts and log ends of the partition.
        hiding: result of `longest_undetected_restart` for these pairs.
        lowest: per position the lowest index to return; one past the last pair stands for the logs' ends.
        proven: number of source records that exist for certain from the position to the pair ``lowest``.
    """
    usable = np.flatnonzero(hiding != UNUSABLE)
    downstream = np.append(pairs.downstream, bounds.boundary)
    enough = np.searchsorted((downstream - hiding)[usable], downstream[lowest] - proven)
    return usable[np.maximum(enough, np.searchsorted(usable, lowest))]


def repeats_known(pairs: Pairs, bounds: TargetBounds) -> int:
    """Return the number of target records that are proven to be repeats.

    For each range between pairs this is the number of offsets by which the range is longer on the target than on the
    source. The range after the last pair counts only if the target is drained and has no other writer.
    """
    if not len(pairs):
        return 0
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    # After the last pair, a longer range means repeats only if the target is drained and has no other writer.
    counted = slice(None) if bounds.drained and not bounds.other_writer else slice(None, -1)
    return int(np.maximum(on_target[counted] - on_source[counted], 0).sum())
