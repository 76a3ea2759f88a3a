"""Logs of one partition made from numbers or letters, for the comparison of both clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.reading.present_logs import OPEN_END
from kafka_dr_spark.reconciliation.differences import Differences
from kafka_dr_spark.reconciliation.latest_values import compare_latest
from kafka_dr_spark.reconciliation.log_comparison import CHUNK, Feed, LogComparison
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.translation.case import SOURCE, TARGET, ReadWindow, Search
from kafka_dr_spark.translation.task import drive_searches

EVERYTHING = np.iinfo(np.int64).max


def log(contents: Sequence[int | None] | str, start: int = 0) -> Records:
    """Make records with these contents; None or a dot is an offset without a record."""
    numbers = [None if one == "." else ord(one) for one in contents] if isinstance(contents, str) else contents
    kept = [(start + place, content) for place, content in enumerate(numbers) if content is not None]
    offsets, halves = (np.array([row[n] for row in kept], dtype) for n, dtype in ((0, np.int64), (1, np.uint64)))
    blank = np.zeros(len(kept), np.uint64)
    return Records(offsets, halves, halves * np.uint64(3), blank, np.zeros(len(kept), np.bool_))


def keyed_log(rows: Sequence[tuple[str, int]]) -> Records:
    """Make records from keys and contents."""
    keys = np.array([ord(key) for key, _ in rows], np.uint64)
    return log([content for _, content in rows])._replace(key=keys)


def keyed(rows: Sequence[tuple[str, str | None]], start: int = 0) -> Records:
    """Make records of a compacted topic from keys and values; a value of None is a tombstone."""
    keys = np.array([ord(key) for key, _ in rows], np.uint64)
    values = np.array([ord(value) if value else 0 for _, value in rows], np.uint64)
    tombstones = np.array([value is None for _, value in rows], np.bool_)
    return Records(np.arange(start, start + len(rows)), values * np.uint64(1000) + keys, values, keys, tombstones)


def judged(
    judged_from: int = 0,
    judged_to: int = EVERYTHING,
    replicated: int | None = None,
    source_cut: bool = False,
    target_cut: bool = False,
) -> Judged:
    """State what is judged; by default everything, and nothing of Connect is known."""
    lows = int(source_cut), int(target_cut)
    return Judged("orders", 0, judged_from, judged_to, replicated, lows[0], EVERYTHING, lows[1], EVERYTHING)


def in_order(comparison: LogComparison) -> Search:
    """Pair the records, and tell the differences."""
    yield from comparison.pair_records()
    return (yield from comparison.tell())


def compared(ours: Records, theirs: Records, chunk: int = CHUNK, latest: bool = False, **scope: Any) -> Differences:
    """Compare two logs, of which so many offsets are read at once, as the job does."""
    logs = {SOURCE: ours, TARGET: theirs}
    feeds = [Feed(ReadWindow(side, "orders", 0, *_span(records))) for side, records in logs.items()]
    search = (
        compare_latest(*feeds, judged(**scope), chunk)
        if latest
        else in_order(LogComparison(*feeds, judged(**scope), chunk))
    )

    def read(windows: list[ReadWindow]) -> list[Records]:
        assert all(0 < window.end - window.start <= chunk or window.end == OPEN_END for window in windows)
        return [logs[window.side].between(window.start, window.end) for window in windows]

    (found,) = drive_searches([search], read)
    assert [feed.read for feed in feeds] == [records.size() for records in logs.values()]
    return found


def _span(records: Records) -> tuple[int, int]:
    return (int(records.offsets[0]), int(records.offsets[-1]) + 1) if records.size() else (0, 0)
