"""A partition's log ends on both clusters, as the flight recorder sampled them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.bounds import LogBounds


@dataclass(frozen=True)
class Floors:
    """Log ends of one partition on both clusters at each sample, oldest first; no column ever falls.

    One sample is also called a floor, because copies of source records at or above its source end lie at or above its
    target end.

    Attributes:
        source_end: the source's log end.
        target_end: the target's log end.
        replicated: last replicated offset that Connect had stored at the sample, -1 if unknown; a restarted connector
            task resumes after this offset.
        sampled_at: start of the sample, in milliseconds since 1970.
        fell: whether a log end or Connect's stored offset fell before the oldest of these samples; target records from
            before that fall may then be copies of source records that no longer exist.
    """

    source_end: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    target_end: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    replicated: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    sampled_at: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    fell: bool = False

    def __len__(self) -> int:
        return len(self.source_end)

    def index_below(self, offset: int) -> int:
        """Return the index of the newest sample whose source end is at or below a source offset; -1 without one."""
        return int(np.searchsorted(self.source_end, offset, side="right")) - 1

    def below(self, offset: int) -> int | None:
        """Return the target offset below which no copy of source record ``offset`` or of a later record lies.

        None if no sample has its source end at or below ``offset``.
        """
        index = self.index_below(offset)
        return None if index < 0 else int(self.target_end[index])

    def index_when_target_ended_by(self, offset: int) -> int:
        """Return the index of the newest sample whose target end is at or below a target offset; -1 without one."""
        return int(np.searchsorted(self.target_end, offset, side="right")) - 1


def usable_floors(source_end: Ints, target_end: Ints, replicated: Ints, sampled_at: Ints, bounds: LogBounds) -> Floors:
    """Return one partition's samples ordered by time, without samples from before the last fall of any column.

    Samples from before a fall describe an older log. Left out are also samples whose target end lies above the target's
    present log end, and samples after a fall whose source end is not yet as high as the highest one before the fall: a
    position between these two ends may be one of the older log.
    """
    order = np.argsort(sampled_at, kind="stable")
    columns = [column[order].astype(np.int64) for column in (source_end, target_end, replicated, sampled_at)]
    falls = np.flatnonzero(np.any([column[1:] < column[:-1] for column in columns], axis=0)) + 1
    first_valid = int(falls[-1]) if len(falls) else 0
    # A sample above the target's present end was taken before the target was truncated.
    inside = columns[1][first_valid:] <= (-1 if bounds.boundary is None else bounds.boundary)
    inside &= columns[0][first_valid:] >= np.max(columns[0][:first_valid], initial=0)
    ends, targets, replicated_offsets, times = (column[first_valid:][inside] for column in columns)
    return Floors(ends, targets, replicated_offsets, times, first_valid > 0)
