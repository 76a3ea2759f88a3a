"""Tell missing, extra, altered and repeated records apart, from the pairs of two logs.

Invariants:

1. Every judged record that has no pair is in exactly one of the results of `Differences`.
2. A record is `missing` or the source's half of `altered` only below `proven_to`: MirrorMaker 2 replicates a partition
   in order, so that later records may still be on their way.
3. What only one cluster can still hold, because retention or the cleaner of the other removes records, is counted
   apart and is no difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.reading.matching import ABSENT, Records, match_from_end
from kafka_dr_spark.reconciliation.alignment import RowPairs
from kafka_dr_spark.reconciliation.scope import Judged

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


class Unpaired(NamedTuple):
    """Rows of both logs without a pair; a gap is the number of pairs before a row, the same on both sides."""

    rows: Ints
    gaps: Ints


def tell_differences(ours: Records, theirs: Records, pairs: RowPairs, judged: Judged) -> Differences:
    """Return the differences of two logs whose equal records are paired.

    Args:
        ours: the source's records.
        theirs: the target's records.
        pairs: of both.
        judged: which records are judged.
    """
    mine, its = _unpaired(ours.size(), pairs.ours), _unpaired(theirs.size(), pairs.theirs)
    mine, its, moved = _without_moved(ours, theirs, mine, its)
    proven_to = max(judged.replicated or 0, int(ours.offsets[pairs.ours[-1]]) + 1 if len(pairs.ours) else 0)
    cut = (mine.gaps == 0) & judged.target_cut
    older = (its.gaps == 0) & judged.source_cut
    offsets = ours.offsets[mine.rows]
    in_scope = (offsets >= judged.judged_from) & (offsets < judged.judged_to) & ~cut
    behind = in_scope & (offsets >= proven_to)
    missing = _where(mine, in_scope & ~behind)
    first, end = _target_scope(ours.offsets[pairs.ours], pairs, judged, theirs.size())
    surplus = _where(its, ~older & (its.rows >= first) & (its.rows < end))
    again = np.isin(theirs.high[surplus.rows], ours.high)
    extra = _where(surplus, ~again)
    in_place, in_place_there = same_places(missing.gaps, extra.gaps)
    paired = ours.offsets[pairs.ours]
    return Differences(
        missing=ours.offsets[np.delete(missing.rows, in_place)],
        extra=theirs.offsets[np.delete(extra.rows, in_place_there)],
        repeated=theirs.offsets[surplus.rows[again]],
        altered=Altered(ours.offsets[missing.rows[in_place]], theirs.offsets[extra.rows[in_place_there]]),
        proven_to=proven_to,
        equal=int(((paired >= judged.judged_from) & (paired < judged.judged_to)).sum()) + moved,
        moved=moved,
        behind=int(behind.sum()),
        older=int(older.sum()),
        cut=int(cut.sum()),
    )


def _unpaired(count: int, paired: Ints) -> Unpaired:
    rows = np.setdiff1d(np.arange(count), paired, assume_unique=True)
    return Unpaired(rows, np.searchsorted(paired, rows))


def _where(some: Unpaired, mask: Mask) -> Unpaired:
    return Unpaired(some.rows[mask], some.gaps[mask])


def _without_moved(ours: Records, theirs: Records, mine: Unpaired, its: Unpaired) -> tuple[Unpaired, Unpaired, int]:
    """Return the rows of each side whose content no unpaired row of the other side has, and how many were left out."""
    left, left_there = (
        Records._make(column[rows] for column in records) for records, rows in ((ours, mine.rows), (theirs, its.rows))
    )
    matched = match_from_end(left, left_there)
    held = matched != ABSENT
    taken = np.isin(left_there.offsets, matched[held])
    return _where(mine, ~held), _where(its, ~taken), int(held.sum())


def _target_scope(paired: Ints, pairs: RowPairs, judged: Judged, count: int) -> tuple[int, int]:
    """Return the first target row that is judged, and the row after the last one, by the copies of judged records.

    Args:
        paired: source offsets of the pairs.
        count: number of target rows.
    """
    before, below = np.searchsorted(paired, (judged.judged_from, judged.judged_to))
    first = int(pairs.theirs[before - 1]) + 1 if before else 0
    return first, int(pairs.theirs[below]) if below < len(paired) else count


def same_places(gaps: Ints, gaps_there: Ints) -> tuple[Ints, Ints]:
    """Return the indexes of missing and of extra records that stand in the same place: the n-th of each in one gap."""
    width = max(len(gaps), len(gaps_there)) + 1
    places, places_there = (
        some * width + np.arange(len(some)) - np.searchsorted(some, some) for some in (gaps, gaps_there)
    )
    _, ours, theirs = np.intersect1d(places, places_there, assume_unique=True, return_indices=True)
    return ours, theirs
