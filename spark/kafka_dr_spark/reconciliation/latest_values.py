"""Compare the logs of a compacted topic's partition: only the latest value of each key is certain to stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.reading.fingerprints import NULL
from kafka_dr_spark.reading.matching import Records, last_of_key
from kafka_dr_spark.reading.present_logs import OPEN_END
from kafka_dr_spark.reconciliation.differences import Altered, Differences
from kafka_dr_spark.reconciliation.log_comparison import CHUNK, Feed
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.translation.case import Search


def compare_latest(source: Feed, target: Feed, judged: Judged, chunk: int = CHUNK) -> Search:
    """Return the `Differences` of two logs by the latest value of each key; a search that requests both logs.

    Of each log, the latest record of each key stays in memory. Records without a key are not judged, because a cleaner
    removes them.
    """
    while feeds := [feed for feed in (source, target) if feed.left]:
        windows = [feed.next_window(chunk) for feed in feeds]
        for feed, window, records in zip(feeds, windows, (yield windows), strict=True):
            feed.take(window, records)
            feed.waiting = feed.waiting.where(last_of_key(feed.waiting) & (feed.waiting.key != NULL))
    mine, its = source.waiting, target.waiting
    found = differences_of_keys(mine, its, judged)
    if any(map(len, (found.missing, found.extra, found.altered.ours))):
        written = yield from _keys_written_since(source, target)
        mine, its = (records.where(~np.isin(records.key, written)) for records in (mine, its))
        found = differences_of_keys(mine, its, replace(judged, replicated=found.proven_to))
    return found._replace(superseded=source.read - mine.size())


def _keys_written_since(source: Feed, target: Feed) -> Search:
    """Return the keys of the records behind both ranges: a cleaner may have removed their values in the ranges."""
    logs = [source.window] + [target.window] * (target.window.start < target.window.end)
    parts = yield [window._replace(start=window.end, end=OPEN_END) for window in logs]
    return np.unique(np.concatenate([records.key for records in parts]))


def differences_of_keys(mine: Records, its: Records, judged: Judged) -> Differences:
    """Return the differences of the latest records of each key, on source and target.

    A key whose latest value is a tombstone counts like a key without record, because the cleaner removes both. Records
    that the cleaner may remove are not judged, so nothing is repeated.
    """
    _, both, both_there = np.intersect1d(mine.key, its.key, assume_unique=True, return_indices=True)
    same = (mine.high[both] == its.high[both_there]) & (mine.low[both] == its.low[both_there])
    shared, shared_there = mine.offsets[both[same]], its.offsets[both_there[same]]
    same |= mine.tombstone[both] & its.tombstone[both_there]
    proven_to = max(judged.replicated or 0, int(np.max(shared, initial=-1)) + 1)
    alone = np.setdiff1d(np.flatnonzero(~mine.tombstone), both, assume_unique=True)
    alone_there = np.setdiff1d(np.flatnonzero(~its.tombstone), both_there, assume_unique=True)
    missing, extra, unlike = mine.offsets[alone], its.offsets[alone_there], mine.offsets[both[~same]]
    cut, older = _before(missing, shared, judged.target_cut), _before(extra, shared_there, judged.source_cut)
    late, late_unlike = (missing >= proven_to) & ~cut, unlike >= proven_to
    return Differences(
        missing=np.sort(missing[~late & ~cut]),
        extra=np.sort(extra[~older]),
        repeated=np.empty(0, np.int64),
        altered=_sorted(unlike[~late_unlike], its.offsets[both_there[~same]][~late_unlike]),
        proven_to=proven_to,
        equal=int(same.sum()),
        behind=int(late.sum() + late_unlike.sum()),
        older=int(older.sum()),
        cut=int(cut.sum()),
    )


def _before(offsets: Ints, shared: Ints, lost: bool) -> Mask:
    """Return a mask of offsets below all shared ones, where the other log may have lost its oldest records."""
    below: Mask = offsets < (int(shared.min()) if len(shared) else np.iinfo(np.int64).max)
    return below if lost else np.zeros(len(offsets), np.bool_)


def _sorted(ours: Ints, theirs: Ints) -> Altered:
    order = np.argsort(ours)
    return Altered(ours[order], theirs[order])
