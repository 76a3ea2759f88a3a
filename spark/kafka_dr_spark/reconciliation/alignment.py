"""Match the records of two logs of one partition, by content and in order.

A row is the index of a record in its log. A pair is a row of the source and a row of the target with equal content.

Invariants:

1. Each row is in at most one pair, and rows of the pairs increase in both logs: no two pairs cross.
2. A content that each of two compared ranges holds once, in the same order as the other such contents, is always in a
   pair. So equal contents are only paired between the same neighbours.
3. A record without a pair is either not in the other log, or its order there is another, or the other log holds its
   content less often.
"""

from __future__ import annotations

from bisect import bisect_left
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np
import pandas as pd

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask
from kafka_dr_spark.reading.matching import Records, match_codes_from_end

#: Rows of both logs that are first compared after a difference, and by how much the range grows until a run is found.
FIRST_RANGE, GROWTH = 2_000, 8
#: So many adjacent records that are equal in both logs show that the logs run side by side again.
SURE_RUN = 64
#: Rows that are compared in one step while the logs run side by side.
_STRIDE = 65_536
#: Most products of the lengths of two stretches that are matched by the longest common blocks; longer ones by counts.
_SMALL = 250_000


class RowPairs(NamedTuple):
    """Rows of the source and of the target that belong together, both ascending."""

    ours: Ints
    theirs: Ints

    def shifted(self, ours: int, theirs: int) -> RowPairs:
        """Return the pairs with so many rows added on each side."""
        return RowPairs(self.ours + ours, self.theirs + theirs)


def no_pairs() -> RowPairs:
    """Return no pair."""
    return RowPairs(np.empty(0, np.int64), np.empty(0, np.int64))


def join_pairs(parts: list[RowPairs]) -> RowPairs:
    """Return the pairs of all parts, which follow each other."""
    return RowPairs._make(np.concatenate(columns) for columns in zip(no_pairs(), *parts))


def align_records(ours: Records, theirs: Records) -> RowPairs:
    """Return the pairs of two logs, of the source and of the target.

    Where the logs run side by side, records are compared one by one. After a difference, ranges of both logs are
    matched, which grow until the logs run side by side again.
    """
    parts, row, other = [], 0, 0
    while True:
        run = run_length(ours, theirs, row, other)
        parts.append(RowPairs(np.arange(row, row + run), np.arange(other, other + run)))
        row, other = row + run, other + run
        if row == ours.size() or other == theirs.size():
            return join_pairs(parts)
        found = match_after_difference(ours, theirs, row, other)
        parts.append(found)
        if not len(found.ours):
            return join_pairs(parts)
        row, other = int(found.ours[-1]) + 1, int(found.theirs[-1]) + 1


def run_length(ours: Records, theirs: Records, row: int, other: int) -> int:
    """Return how many records are equal in both logs, one by one, from a row of each log on."""
    most, length = min(ours.size() - row, theirs.size() - other), 0
    while length < most:
        step = min(_STRIDE, most - length)
        mine, its = slice(row + length, row + length + step), slice(other + length, other + length + step)
        unequal = np.flatnonzero((ours.high[mine] != theirs.high[its]) | (ours.low[mine] != theirs.low[its]))
        if len(unequal):
            return length + int(unequal[0])
        length += step
    return most


def match_after_difference(ours: Records, theirs: Records, row: int, other: int) -> RowPairs:
    """Return the pairs from a row of each log on, at most up to where the logs run side by side again."""
    width = FIRST_RANGE
    while True:
        mine, its = ours.high[row : row + width], theirs.high[other : other + width]
        pairs = match_in_order(mine, its)
        if row + width >= ours.size() and other + width >= theirs.size():
            # Only now, because a pair whose other half differs would be one collision in 2 to the 64th.
            return _verified(ours, theirs, pairs.shifted(row, other))
        surely = _end_of_sure_run(pairs)
        if surely:
            return _verified(ours, theirs, RowPairs(pairs.ours[:surely], pairs.theirs[:surely]).shifted(row, other))
        width *= GROWTH


def _verified(ours: Records, theirs: Records, pairs: RowPairs) -> RowPairs:
    same = ours.low[pairs.ours] == theirs.low[pairs.theirs]
    return RowPairs(pairs.ours[same], pairs.theirs[same])


def _end_of_sure_run(pairs: RowPairs) -> int:
    """Return how many pairs there are up to the end of the last run of SURE_RUN adjacent records; 0 without one."""
    if len(pairs.ours) < SURE_RUN:
        return 0
    adjacent = (pairs.ours[SURE_RUN - 1 :] - pairs.ours[: 1 - SURE_RUN] == SURE_RUN - 1) & (
        pairs.theirs[SURE_RUN - 1 :] - pairs.theirs[: 1 - SURE_RUN] == SURE_RUN - 1
    )
    ends = np.flatnonzero(adjacent)
    return int(ends[-1]) + SURE_RUN if len(ends) else 0


def match_in_order(ours: Hashes, theirs: Hashes) -> RowPairs:
    """Return the pairs of two ranges, given one half of each record's fingerprint.

    Anchors are the contents that both ranges hold once; the stretches between them are matched by themselves.
    """
    codes = pd.factorize(np.concatenate([ours, theirs]))[0].astype(np.int64)
    mine, its = codes[: len(ours)], codes[len(ours) :]
    anchors = _anchors(mine, its, int(np.max(codes, initial=-1)) + 1)
    if not len(anchors.ours):
        return match_stretch(mine, its)
    between = _between(mine, its, anchors)
    rows, others = (np.concatenate(columns) for columns in zip(anchors, between))
    order = np.argsort(rows, kind="stable")
    return RowPairs(rows[order], others[order])


def _anchors(mine: Ints, its: Ints, contents: int) -> RowPairs:
    once = (np.bincount(mine, minlength=contents) == 1) & (np.bincount(its, minlength=contents) == 1)
    row_there = np.empty(contents, np.int64)
    row_there[its] = np.arange(len(its))
    rows = np.flatnonzero(once[mine])
    others = row_there[mine[rows]]
    kept = longest_increasing(others)
    return RowPairs(rows[kept], others[kept])


def _between(mine: Ints, its: Ints, anchors: RowPairs) -> RowPairs:
    """Return the pairs between neighbouring anchors, before the first and after the last."""
    rows, others = (
        np.setdiff1d(np.arange(len(codes)), taken, assume_unique=True)
        for codes, taken in zip((mine, its), anchors, strict=True)
    )
    count = len(anchors.ours) + 1
    here, there = np.searchsorted(anchors.ours, rows), np.searchsorted(anchors.theirs, others)
    lengths, lengths_there = np.bincount(here, minlength=count), np.bincount(there, minlength=count)
    # Stretches of equal length lie side by side if the others are taken out.
    even, even_there = (lengths == lengths_there)[here], (lengths == lengths_there)[there]
    same = mine[rows[even]] == its[others[even_there]]
    odd = np.unique(np.concatenate([here[even][~same], here[~even], there[~even_there]]))
    settled = ~np.isin(here[even], odd)
    parts = [RowPairs(rows[even][settled], others[even_there][settled])]
    edges, edges_there = np.searchsorted(here, np.arange(count + 1)), np.searchsorted(there, np.arange(count + 1))
    for number in odd[(lengths[odd] > 0) & (lengths_there[odd] > 0)].tolist():
        first, first_there = rows[edges[number]], others[edges_there[number]]
        pairs = match_stretch(
            mine[first : first + lengths[number]], its[first_there : first_there + lengths_there[number]]
        )
        parts.append(pairs.shifted(int(first), int(first_there)))
    return RowPairs._make(np.concatenate(columns) for columns in zip(*parts))


def match_stretch(mine: Ints, its: Ints) -> RowPairs:
    """Return the pairs of two stretches without anchors, given contents as numbers.

    First the equal beginnings, then the equal ends are paired, then the longest common blocks between. In long
    stretches the n-th occurrences of a content are paired instead, as far as no pairs cross.
    """
    most = min(len(mine), len(its))
    head = _equal_beginning(mine[:most], its[:most])
    rest = most - head
    tail = _equal_beginning(mine[::-1][:rest], its[::-1][:rest])
    ends = np.arange(tail, 0, -1)
    middle = _match_middle(mine[head : len(mine) - tail], its[head : len(its) - tail])
    return join_pairs(
        [
            RowPairs(np.arange(head), np.arange(head)),
            middle.shifted(head, head),
            RowPairs(len(mine) - ends, len(its) - ends),
        ]
    )


def _equal_beginning(mine: Ints, its: Ints) -> int:
    unequal = np.flatnonzero(mine != its)
    return int(unequal[0]) if len(unequal) else len(mine)


def _match_middle(mine: Ints, its: Ints) -> RowPairs:
    if not len(mine) or not len(its):
        return no_pairs()
    if len(mine) * len(its) <= _SMALL:
        blocks = SequenceMatcher(None, mine.tolist(), its.tolist(), autojunk=False).get_matching_blocks()
        return join_pairs([RowPairs(np.arange(a, a + size), np.arange(b, b + size)) for a, b, size in blocks if size])
    matched = match_codes_from_end(mine, its, np.arange(len(its)))
    rows = np.flatnonzero(matched < len(its))
    kept = longest_increasing(matched[rows])
    return RowPairs(rows[kept], matched[rows][kept])


def longest_increasing(values: Ints) -> Mask:
    """Return a mask of a longest strictly increasing subsequence of distinct values."""
    if not np.any(np.diff(values) < 0):
        return np.ones(len(values), np.bool_)
    ends: list[int] = []
    rows_of_ends: list[int] = []
    before = np.full(len(values), -1)
    for row, value in enumerate(values.tolist()):
        place = bisect_left(ends, value)
        if place == len(ends):
            ends.append(value)
            rows_of_ends.append(row)
        else:
            ends[place], rows_of_ends[place] = value, row
        before[row] = rows_of_ends[place - 1] if place else -1
    mask, row = np.zeros(len(values), np.bool_), rows_of_ends[-1]
    while row >= 0:
        mask[row], row = True, int(before[row])
    return mask
