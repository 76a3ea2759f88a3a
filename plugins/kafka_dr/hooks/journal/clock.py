"""The clock of a journal's database, read on this machine between queries."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from kafka_dr.errors import SystemUnavailable

#: Interval, in seconds, at which the database is asked again: its clock may be set, and this machine may be suspended.
_MEASURE_SECONDS = 5.0


def utc_now() -> datetime:
    """Return the time of this machine, in UTC."""
    return datetime.now(UTC)


class DatabaseClock:
    """Returns the database's time as this machine's monotonic clock plus an offset; the time never goes backwards.

    Args:
        measure: asks the database for its time.
    """

    def __init__(self, measure: Callable[[], datetime]) -> None:
        self._measure = measure
        self._offset, self._measure_at = -math.inf, -math.inf

    def now(self) -> datetime:
        """Return the database's time, in UTC; while the database does not answer, by the offset measured last.

        Raises:
            SystemUnavailable: the database does not answer, and its time was never measured.
        """
        if time.monotonic() >= self._measure_at:
            try:
                # The answer was true before it arrived, so an offset may be too small, but never too large.
                self._offset = max(self._offset, self._measure().timestamp() - time.monotonic())
            except SystemUnavailable:
                if self._offset == -math.inf:
                    raise
            self._measure_at = time.monotonic() + _MEASURE_SECONDS
        return datetime.fromtimestamp(self._offset + time.monotonic(), UTC)
