"""When recorder and watcher count as silent: the one limit of readiness, notices and the page of all flows."""

from __future__ import annotations

#: A service that showed no life for this long is silent, in seconds; the watcher shows life every 5 s.
SILENT_SECONDS = 60.0
#: Number of sampling intervals that the recorder may miss besides: it shows life with a sample.
_LATE_SAMPLES = 3


def recorder_limit(interval_seconds: float) -> float:
    """Return after how many seconds without a sample the flight recorder is silent.

    Args:
        interval_seconds: the recorder's sampling interval.
    """
    return SILENT_SECONDS + _LATE_SAMPLES * interval_seconds
