"""Compare the logs of a compacted topic's partition: only the latest value of each key is certain to stay."""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.reading.matching import Records, last_of_key
from kafka_dr_spark.reconciliation.differences import Altered, Differences
from kafka_dr_spark.reconciliation.scope import Judged


def compare_latest(ours: Records, theirs: Records, judged: Judged) -> Differences:
    """Return the differences of two logs by the latest value of each key, in the source's and the target's records.

    A key whose latest value is a tombstone counts like a key without record, because the cleaner removes both. Records
    that the cleaner may remove are not judged, so nothing is repeated.
    """
    mine, its = ours.where(last_of_key(ours)), theirs.where(last_of_key(theirs))
    _, both, both_there = np.intersect1d(mine.key, its.key, assume_unique=True, return_indices=True)
    same = (mine.high[both] == its.high[both_there]) & (mine.low[both] == its.low[both_there])
    same |= mine.tombstone[both] & its.tombstone[both_there]
    shared = np.flatnonzero(np.isin(ours.high, theirs.high))
    copied_from, copied_to = (ours.offsets[shared[[0, -1]]] + (0, 1)).tolist() if len(shared) else (0, 0)
    proven_to = max(judged.replicated or 0, copied_to)
    alone = np.setdiff1d(np.flatnonzero(~mine.tombstone), both, assume_unique=True)
    alone_there = np.setdiff1d(np.flatnonzero(~its.tombstone), both_there, assume_unique=True)
    missing, unlike = mine.offsets[alone], mine.offsets[both[~same]]
    cut = missing < copied_from if judged.target_cut and len(shared) else np.zeros(len(missing), np.bool_)
    older = (
        _older(its.offsets[alone_there], ours, theirs) if judged.source_cut else np.zeros(len(alone_there), np.bool_)
    )
    late, late_unlike = (missing >= proven_to) & ~cut, unlike >= proven_to
    return Differences(
        missing=np.sort(missing[~late & ~cut]),
        extra=np.sort(its.offsets[alone_there][~older]),
        repeated=np.empty(0, np.int64),
        altered=_sorted(unlike[~late_unlike], its.offsets[both_there[~same]][~late_unlike]),
        proven_to=proven_to,
        equal=int(same.sum()),
        behind=int(late.sum() + late_unlike.sum()),
        older=int(older.sum()),
        cut=int(cut.sum()),
        superseded=ours.size() - mine.size(),
    )


def _older(offsets: Ints, ours: Records, theirs: Records) -> np.ndarray:
    """Return a mask of target offsets below the first target record whose content the source holds."""
    shared = np.flatnonzero(np.isin(theirs.high, ours.high))
    return offsets < theirs.offsets[shared[0]] if len(shared) else np.ones(len(offsets), np.bool_)


def _sorted(ours: Ints, theirs: Ints) -> Altered:
    order = np.argsort(ours)
    return Altered(ours[order], theirs[order])
