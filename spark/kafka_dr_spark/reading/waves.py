"""Waves of read windows: what is read at once has at most one window per cluster and partition."""

from __future__ import annotations

from kafka_dr_spark.reading.matching import Records, join_records
from kafka_dr_spark.translation.case import ReadWindow

#: Windows of a partition that are at most this many offsets apart are read as one window.
NEARBY = 500


def window_waves(windows: list[ReadWindow]) -> list[list[ReadWindow]]:
    """Return the windows in waves, each with at most one window per cluster and partition.

    Windows of a partition that are at most NEARBY offsets apart are merged.
    """
    merged: list[ReadWindow] = []
    for window in sorted(set(windows)):
        last = merged[-1] if merged else None
        if last and last[:3] == window[:3] and window.start <= last.end + NEARBY:
            merged[-1] = last._replace(end=max(last.end, window.end))
        else:
            merged.append(window)
    waves: list[list[ReadWindow]] = []
    last_wave: dict[tuple[str, str, int], int] = {}
    for window in merged:
        number = last_wave[window[:3]] = last_wave.get(window[:3], -1) + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(window)
    return waves


def cut_out(
    window: ReadWindow, received: dict[ReadWindow, Records], by_partition: dict[tuple[str, str, int], list[ReadWindow]]
) -> Records:
    """Return the records of a window, cut out of the merged window that was read.

    Args:
        received: records by merged window.
        by_partition: merged windows by cluster, topic and partition.
    """
    containing = next(w for w in by_partition[window[:3]] if w.start <= window.start and window.end <= w.end)
    return join_records([received[containing].between(window.start, window.end)])
