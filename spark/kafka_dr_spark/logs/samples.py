"""What the recorder sampled of a partition."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.bounds import LogBounds


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


def usable_floors(source_end: Ints, target_end: Ints, replicated: Ints, sampled_at: Ints, bounds: LogBounds) -> Floors:
    """Order floors by time, and keep those since any column last fell: earlier ones are of another log."""
    order = np.argsort(sampled_at, kind="stable")
    columns = [column[order].astype(np.int64) for column in (source_end, target_end, replicated, sampled_at)]
    falls = np.flatnonzero(np.any([column[1:] < column[:-1] for column in columns], axis=0)) + 1
    since = int(falls[-1]) if len(falls) else 0
    # One that is above the target's end now was read before the target was truncated.
    inside = columns[1][since:] <= (-1 if bounds.boundary is None else bounds.boundary)
    ends, targets, kept, at = (column[since:][inside] for column in columns)
    return Floors(ends, targets, kept, at, since > 0)
