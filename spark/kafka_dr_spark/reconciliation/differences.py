"""Tell missing, extra, altered and repeated records apart, from the records of two logs that have no pair.

Invariants:

1. Every judged record that has no pair is in exactly one of the results of `Differences`.
2. A record is `missing` or the source's half of `altered` only below `proven_to`: MirrorMaker 2 replicates a partition
   in order, so that later records may still be on their way.
3. What only one cluster can still hold, because retention or the cleaner of the other removes records, is counted
   apart and is no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask
from kafka_dr_spark.reading.matching import ABSENT, match_from_end
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.reconciliation.settled import BEFORE_ALL, Settled, Unpaired, join_unpaired

_NONE = np.empty(0, np.int64)


class Altered(NamedTuple):
    """Records in the same place of both logs with different contents: source offsets, and their target offsets."""

    ours: Ints = _NONE
    theirs: Ints = _NONE


class Differences(NamedTuple):
    """What differs in one partition.

    Attributes:
        missing: source offsets of records that the target lacks.
        extra: target offsets of records that the source lacks.
        repeated: target offsets of records whose content the target holds more often than the source.
        altered: records in the same place with different contents.
        proven_to: source offset below which every record must be on the target.
        equal: number of judged source records that the target holds.
        moved: of those, the records that stand in another order on the target.
        behind: number of source records that need not be on the target yet.
        older: number of target records whose originals the source may have deleted.
        cut: number of source records whose copies the target may have deleted.
        superseded: number of source records of a compacted topic that are not the latest of their key.
    """

    missing: Ints
    extra: Ints
    repeated: Ints
    altered: Altered
    proven_to: int
    equal: int
    moved: int = 0
    behind: int = 0
    older: int = 0
    cut: int = 0
    superseded: int = 0


class Sorted(NamedTuple):
    """Unpaired records by what they mean, before records in the same place are put together.

    Attributes:
        missing, extra: records of one log alone; some of them are altered records. Of the source, also records that
            are not judged, because an extra record may be one of these, altered.
        counted: all else.
    """

    missing: Unpaired
    extra: Unpaired
    counted: Differences


def sort_unpaired(settled: Settled, judged: Judged, on_source: Callable[[Hashes], Mask]) -> Sorted:
    """Return the unpaired records of both logs by what they mean.

    Args:
        settled: of both logs, as a whole.
        judged: which records are judged.
        on_source: returns for halves of fingerprints whether the source holds a record with each.
    """
    mine, its, elsewhere = _without_moved(join_unpaired(settled.ours), join_unpaired(settled.theirs))
    moved = int(_in_scope(elsewhere, judged).sum())
    proven_to = max(judged.replicated or 0, settled.last_pair[0] + 1 if settled.last_pair else 0)
    offsets, copies = mine.records.offsets, its.records.offsets
    in_scope, due = _in_scope(offsets, judged), offsets < proven_to
    cut, older = _deleted(mine, its, due, settled, judged)
    surplus = its.where(~older & (copies >= settled.first_judged) & (copies < (settled.end_judged or ABSENT)))
    again = on_source(surplus.records.high)
    counted = Differences(
        missing=_NONE,
        extra=_NONE,
        repeated=surplus.records.offsets[again],
        altered=Altered(),
        proven_to=proven_to,
        equal=settled.equal + moved,
        moved=moved,
        behind=int((in_scope & ~due).sum()),
        older=int(older.sum()),
        cut=int((in_scope & cut).sum()),
    )
    return Sorted(mine.where(due & ~cut), surplus.where(~again), counted)


def _in_scope(offsets: Ints, judged: Judged) -> Mask:
    return (offsets >= judged.judged_from) & (offsets < judged.judged_to)


def _deleted(mine: Unpaired, its: Unpaired, due: Mask, settled: Settled, judged: Judged) -> tuple[Mask, Mask]:
    """Return masks of the records whose copies the target, and whose originals the source, may have deleted.

    They stand before the first pair. A log deletes its oldest records first. So not both are true: if the target still
    holds a copy of a deleted original, the target also holds the copies of all later records. Then the newest of both
    are not deleted, and differ.

    Args:
        due: mask of the source records that must have been replicated.
    """
    cut = due & (mine.gaps == BEFORE_ALL) & judged.target_cut
    older = (its.gaps == BEFORE_ALL) & judged.source_cut & (settled.first_judged == 0)
    differing = min(int(cut.sum()), int(older.sum()))
    for mask in (cut, older):
        rows = np.flatnonzero(mask)
        mask[rows[len(rows) - differing :]] = False
    return cut, older


def _without_moved(mine: Unpaired, its: Unpaired) -> tuple[Unpaired, Unpaired, Ints]:
    """Return the records of each side whose content no unpaired record of the other has, and the others' offsets."""
    matched = match_from_end(mine.records, its.records)
    held = matched != ABSENT
    return mine.where(~held), its.where(~np.isin(its.records.offsets, matched[held])), mine.records.offsets[held]


def tell_differences(sorted_records: Sorted, judged: Judged, keys: Keys | None = None) -> Differences:
    """Return the differences, in which a missing and an extra record of the same place are one altered record.

    Args:
        judged: which records are judged.
        keys: fingerprints of keys of records in `uneven_places`, which say which records belong together there.
    """
    missing, extra, counted = sorted_records
    ours, theirs = same_places(missing, extra, keys or Keys({}, {}))
    offsets, copies = missing.records.offsets, extra.records.offsets
    alone, altered = np.delete(offsets, ours), _in_scope(offsets[ours], judged)
    return counted._replace(
        missing=alone[_in_scope(alone, judged)],
        extra=np.delete(copies, theirs),
        altered=Altered(offsets[ours][altered], copies[theirs][altered]),
    )


class Keys(NamedTuple):
    """Fingerprints of keys, by offset, on the source and on the target."""

    ours: dict[int, int]
    theirs: dict[int, int]


def uneven_places(missing: Unpaired, extra: Unpaired) -> tuple[Ints, Ints]:
    """Return source offsets and target offsets of records where not as many are missing as there are extra records."""
    (gaps, counts), (gaps_there, counts_there) = (np.unique(some.gaps, return_counts=True) for some in (missing, extra))
    both, here, there = np.intersect1d(gaps, gaps_there, assume_unique=True, return_indices=True)
    uneven = both[counts[here] != counts_there[there]]
    return (
        missing.records.offsets[np.isin(missing.gaps, uneven)],
        extra.records.offsets[np.isin(extra.gaps, uneven)],
    )


def same_places(missing: Unpaired, extra: Unpaired, keys: Keys) -> tuple[Ints, Ints]:
    """Return the indexes of missing and of extra records that stand in the same place of both logs.

    In each gap, records of one key are put together first, as far as keys are given, then the n-th others of each.
    """
    ours, theirs = ([], []) if not keys.ours else _by_key(missing, extra, keys)
    left, left_there = (
        np.setdiff1d(np.arange(len(some.gaps)), taken, assume_unique=True)
        for some, taken in ((missing, ours), (extra, theirs))
    )
    gaps, gaps_there = missing.gaps[left], extra.gaps[left_there]
    width = max(len(gaps), len(gaps_there)) + 1
    places, places_there = (
        some * width + np.arange(len(some)) - np.searchsorted(some, some) for some in (gaps, gaps_there)
    )
    _, rows, rows_there = np.intersect1d(places, places_there, assume_unique=True, return_indices=True)
    mine = np.concatenate([np.array(ours, np.int64), left[rows]])
    its = np.concatenate([np.array(theirs, np.int64), left_there[rows_there]])
    order = np.argsort(mine)
    return mine[order], its[order]


def _by_key(missing: Unpaired, extra: Unpaired, keys: Keys) -> tuple[list[int], list[int]]:
    waiting: dict[tuple[int, int], list[int]] = {}
    for row, (offset, gap) in enumerate(zip(extra.records.offsets.tolist(), extra.gaps.tolist(), strict=True)):
        if offset in keys.theirs:
            waiting.setdefault((gap, keys.theirs[offset]), []).append(row)
    ours, theirs = [], []
    for row, (offset, gap) in enumerate(zip(missing.records.offsets.tolist(), missing.gaps.tolist(), strict=True)):
        rows = waiting.get((gap, keys.ours[offset])) if offset in keys.ours else None
        if rows:
            ours.append(row)
            theirs.append(rows.pop(0))
    return ours, theirs
