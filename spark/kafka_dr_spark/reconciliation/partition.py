"""Compare one partition; read wider ranges of both logs where the first do not show where they meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.present_logs import Log
from kafka_dr_spark.reconciliation.differences import Differences
from kafka_dr_spark.reconciliation.latest_values import compare_latest
from kafka_dr_spark.reconciliation.log_comparison import Feed, LogComparison, windows_of
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.reconciliation.settled import BEFORE_ALL, Settled, Unpaired
from kafka_dr_spark.translation.case import SOURCE, TARGET, Search

#: By so many offsets a range is widened at first, and by how much more each time.
FIRST_WIDENING, GROWTH = 8_000, 8


@dataclass(frozen=True)
class Compared:
    """The comparison of one partition.

    Attributes:
        bounds: the ranges that were read at last.
        judged_by: order, latest or absent, as in the schema.
        differences: what differs.
        read: number of records read, by cluster.
    """

    bounds: LogBounds
    judged_by: str
    differences: Differences
    read: dict[str, int]


class Attempt(NamedTuple):
    """What to read of one partition.

    Attributes:
        bounds: ranges of both logs.
        judged: which of their records are judged.
        more: by so many offsets the ranges are widened if they do not show where the judged records begin and end.
    """

    bounds: LogBounds
    judged: Judged
    more: int = FIRST_WIDENING

    def compare(self) -> Search:
        """Return the `Compared`, or an attempt with wider ranges; a search that requests ranges of both logs."""
        source, target = map(Feed, windows_of(self.bounds))
        if self.bounds.source_compacted or self.bounds.target_compacted:
            return self._compared("latest", (yield from compare_latest(source, target, self.judged)), source, target)
        # Connect's offset says nothing of records whose copies may lie behind a limited range.
        whole = self.bounds.boundary == self.judged.target_high
        comparison = LogComparison(source, target, self.judged if whole else replace(self.judged, replicated=None))
        yield from comparison.pair_records()
        wider = widen_ranges(self.bounds, self.judged, comparison.settled, self.more)
        if wider != self.bounds:
            return Attempt(wider, self.judged, self.more * GROWTH)
        return self._compared("order", (yield from comparison.tell()), source, target)

    def _compared(self, judged_by: str, differences: Differences, source: Feed, target: Feed) -> Compared:
        judged_by = judged_by if self.bounds.target_exists else "absent"
        return Compared(self.bounds, judged_by, differences, {SOURCE: source.read, TARGET: target.read})

    def after(self, risen: Mapping[Log, int]) -> Attempt:
        """Return the attempt for logs whose starts have risen; an equal one if they have not."""
        bounds, judged = self.bounds, self.judged
        here = max(risen.get((SOURCE, bounds.topic, bounds.partition), 0), judged.source_low)
        judged = replace(judged, source_low=here, source_high=max(here, judged.source_high))
        start = max(bounds.source_start or 0, here)
        bounds = replace(bounds, source_start=start, cut_off=max(start, bounds.cut_off or 0))
        if bounds.target_exists:
            there = max(risen.get((TARGET, bounds.target_topic, bounds.partition), 0), judged.target_low or 0)
            judged = replace(judged, target_low=there, target_high=max(there, judged.target_high or 0))
            start = max(bounds.target_start or 0, there)
            bounds = replace(bounds, target_start=start, boundary=max(start, bounds.boundary or 0))
        return Attempt(bounds, judged, self.more)


def widen_ranges(bounds: LogBounds, judged: Judged, settled: Settled, more: int) -> LogBounds:
    """Return the ranges, wider where judged records without a pair may have one outside.

    That is so unless a pair outside the judged records bounds them on both logs, or a log has no more records.
    """
    if not bounds.target_exists:
        return bounds
    last = settled.last_pair[1] if settled.last_pair else BEFORE_ALL
    starts, ends = (bounds.source_start or 0, bounds.target_start or 0), (bounds.cut_off or 0, bounds.boundary or 0)
    lows, highs = (judged.source_low, judged.target_low or 0), (judged.source_high, judged.target_high or 0)
    if not settled.first_judged and _open(settled, BEFORE_ALL, starts[1] > lows[1], starts[0] > lows[0]):
        starts = max(lows[0], starts[0] - more), max(lows[1], starts[1] - more)
    if settled.end_judged is None and _open(settled, last, ends[1] < highs[1], ends[0] < highs[0]):
        ends = min(highs[0], ends[0] + more), min(highs[1], ends[1] + more)
    return replace(bounds, source_start=starts[0], target_start=starts[1], cut_off=ends[0], boundary=ends[1])


def _open(settled: Settled, gap: int, more_there: bool, more_here: bool) -> bool:
    """Return whether judged records in a gap may have a pair among the other log's records that were not read."""

    def judged(part: Unpaired) -> bool:
        offsets = part.records.offsets[part.gaps == gap]
        return bool(((offsets >= settled.judged_from) & (offsets < settled.judged_to)).any())

    return (more_there and any(judged(part) for part in settled.ours)) or (
        more_here and any(bool((part.gaps == gap).any()) for part in settled.theirs)
    )
