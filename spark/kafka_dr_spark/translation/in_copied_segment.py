"""Positions on a source that holds copies: groups continue at the target's originals. Why: decisions/0013.

MirrorMaker 2 copied in order, and jumped back only to continue from there. Take the highest original with a copy below
a position: all originals up to this one have copies below the position. A group that reached the position by reading
has read these originals. A group that a failover placed at the position has not: the failover placed the group at the
last copies of what it had not read. So no group continues above the lowest original with a copy at or above its
position, and the bound says how many originals the group may have read nevertheless.

Invariants:

1. A copy is of the first original with its content, or of a later original. So a copy below a position shows that this
   first original was reached.
2. Originals not reached below a position have copies, each its own, at or above the position.
3. A cleaner on the source may remove a copy below a position and leave a repeat above the position, which the group has
   not read: then the copies below a position do not show what was reached.
4. Retention on the source has the same effect at the lowest remaining position.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.logs.pairs import Pairs
from kafka_dr_spark.reading.matching import (
    ABSENT,
    Records,
    content_codes,
    join_records,
    match_codes_from_end,
    no_records,
)
from kafka_dr_spark.translation.by_content import proven_pairs, raised_over, refuse_hole, report_missing
from kafka_dr_spark.translation.case import SOURCE, TARGET, Answer, Case, FullCase, Search


def to_originals(case: FullCase, positions: Ints) -> Search:
    """Answer ascending positions by content if both logs can be read, else by pairs and counted originals."""
    bounds, limits = case.bounds, case.limits
    target = case.window(TARGET, bounds.target_start, bounds.boundary)
    if not case.may_read(TARGET, target.end - target.start):
        return _Counted(case, (yield from _trusted(case, positions)), None).answers(positions)
    if not limits.source_readable or not case.may_read(SOURCE, bounds.cut_off - bounds.source_start):
        (originals,) = yield from case.fetch(target)
        return _Counted(case, (yield from _trusted(case, positions)), originals or no_records()).answers(positions)
    copies, originals = yield from case.fetch(case.window(SOURCE, bounds.source_start, bounds.cut_off), target)
    return _Matched(case, copies or no_records(), originals or no_records()).answers(positions)


def _trusted(case: Case, positions: Ints) -> Search:
    """Return the pairs around the positions whose records are equal; without the source all pairs."""
    if not case.limits.source_readable:
        return case.pairs
    above = np.searchsorted(case.pairs.upstream, positions)
    around = np.unique(np.concatenate([above - 1, above]))
    return (yield from proven_pairs(case, around[(around >= 0) & (around < len(case.pairs))]))


class _Matched:
    """A segment read whole on both clusters, as far as its records still exist."""

    def __init__(self, case: FullCase, copies: Records, originals: Records) -> None:
        self._case, self._copies, self._originals = case, copies, originals
        codes = content_codes(join_records([copies, originals]))
        self._ours, self._theirs = codes[: copies.size()], codes[copies.size() :]
        self._size = int(codes.max(initial=-1)) + 1
        bounds = case.bounds
        self._source_whole = bounds.source_start == case.segment.source_from and not bounds.source_compacted
        self._target_whole = not case.target_cut and not bounds.target_compacted

    def answers(self, positions: Ints) -> list[Answer]:
        """Return one answer a position."""
        copies, target_offsets = self._copies, np.append(self._case.bounds.target_start, self._originals.offsets + 1)
        target_offsets[-1] = self._case.bounds.boundary
        first = np.searchsorted(copies.offsets, positions)
        lowest = self._lowest_unread(first)
        reached = (
            lowest
            if self._case.bounds.source_compacted
            else np.maximum(self._reached(first), self._not_above(positions))
        )
        unread = np.minimum(reached, lowest)
        bounds = self._bounds(positions, first, reached) + (reached - unread)
        hole, cut = self._missing()
        report_missing(self._case, copies, hole, cut)
        last_hole = int(np.flatnonzero(hole)[-1]) if hole.any() else -1
        cuts = np.append(np.cumsum(cut[::-1])[::-1], 0)
        rows = zip(first.tolist(), target_offsets[unread].tolist(), bounds.tolist(), cuts[first].tolist())
        return [
            refuse_hole(self._case, copies, last_hole) if row <= last_hole else self._answer(row, *details)
            for row, *details in rows
        ]

    def _answer(self, row: int, target_offset: int, bound: int, cut: int) -> Answer:
        note = raised_over(self._case, cut)
        if row == self._copies.size():
            return Answer(
                self._case.bounds.boundary, "END", True, 0, "nothing unread below the end of the segment", note
            )
        return Answer(
            target_offset,
            "CONTENT",
            bound == 0,
            bound,
            f"content: {row} copies below and {self._originals.size()} originals",
            note,
        )

    def _reached(self, first: Ints) -> Ints:
        """Return how many originals were reached at least, by the copies below each row."""
        first_original = _first_rows(self._theirs, self._size)
        if not self._target_whole:
            # A content that occurs once in all copies has one original; of a recurring content the first may be gone.
            once = np.bincount(self._ours, minlength=self._size) == 1
            first_original = np.where(once & self._source_whole, first_original, ABSENT)
        numbers = first_original[self._ours]
        highest = np.maximum.accumulate(np.where(numbers == ABSENT, 0, numbers + 1))
        return np.append(0, highest)[first]

    def _not_above(self, positions: Ints) -> Ints:
        """Return per position the least number of originals reached: later ones have own copies from there on."""
        copy_offsets = match_codes_from_end(self._theirs, self._ours, self._copies.offsets)
        copied_rows = np.flatnonzero(copy_offsets != ABSENT)
        # Danger: an original without a copy, between originals with copies, was never copied; it proves nothing about
        # lower originals.
        copy_offsets[: copied_rows[0] if len(copied_rows) else len(copy_offsets)] = -1
        return np.searchsorted(np.minimum.accumulate(copy_offsets[::-1])[::-1], positions)

    def _lowest_unread(self, first: Ints) -> Ints:
        number = match_codes_from_end(self._ours, self._theirs, np.arange(len(self._theirs)))
        lowest = np.minimum.accumulate(np.append(number, len(self._theirs))[::-1])[::-1]
        return lowest[first]

    def _bounds(self, positions: Ints, first: Ints, reached: Ints) -> Ints:
        """Return how many originals from each answer on the group may have read."""
        behind = len(self._theirs) - reached
        consumed = first if self._source_whole else positions - self._case.segment.source_from
        compacted = self._case.bounds.source_compacted
        bounds: Ints = np.minimum(behind, consumed if compacted else np.maximum(consumed - reached, 0))
        if self._source_whole and not compacted:
            # Bound 0 if no copy of the next original lies below the position.
            copied = np.append(_first_rows(self._ours, self._size)[self._theirs], ABSENT)
            bounds[copied[reached] >= first] = 0
        return bounds

    def _missing(self) -> tuple[Mask, Mask]:
        """Return two masks of first copies without original: original missing, original deleted by retention."""
        absent = _first_rows(self._theirs, self._size)[self._ours] == ABSENT
        missing = absent & (_first_rows(self._ours, self._size)[self._ours] == np.arange(len(self._ours)))
        cut = np.zeros(len(missing), np.bool_)
        if self._case.target_cut:
            present_rows = np.flatnonzero(~absent)
            cut[: present_rows[0] if len(present_rows) else len(cut)] = True
        if self._case.bounds.target_compacted:
            # A newer value of the key may be in a newer segment.
            missing[:] = False
        return missing & ~cut, missing & cut


class _Counted:
    """A segment too long to read, or without its source: answered by pairs, and by originals counted from above."""

    def __init__(self, case: FullCase, pairs: Pairs, originals: Records | None) -> None:
        self._case, self._pairs, self._originals = case, pairs, originals

    def answers(self, positions: Ints) -> list[Answer]:
        """Return one answer a position."""
        bounds = self._case.bounds
        paired, counted = self._paired(positions), self._counted_down(positions)
        target_offsets = np.minimum(np.maximum(paired, counted), self._not_below(positions))
        repeats_may_follow = bounds.source_start > self._case.segment.source_from
        target_offsets[(positions == bounds.source_start) & repeats_may_follow | bounds.source_compacted] = (
            bounds.target_start
        )
        names = np.where(
            target_offsets == bounds.target_start,
            "the segment's begin",
            np.where(
                (paired >= counted) & (target_offsets == paired),
                "the highest pair below",
                "counted down from what lies above",
            ),
        )
        rows = zip(target_offsets.tolist(), self._bounds(positions, target_offsets).tolist(), names.tolist())
        return [
            Answer(target_offset, "NEAREST", bound == 0, bound, f"nearest: {name}")
            for target_offset, bound, name in rows
        ]

    def _paired(self, positions: Ints) -> Ints:
        """Return the target offset after the highest original of the pairs below, or the original of a pair at it."""
        copies, originals = self._pairs.upstream, self._pairs.downstream
        below = np.searchsorted(copies, positions)
        start = self._case.bounds.target_start
        highest = np.append(start, np.maximum.accumulate(originals + 1))[below]
        at_pair = np.append(copies, -1)[below] == positions
        target_offsets: Ints = np.maximum(highest, np.where(at_pair, np.append(originals, start)[below], start))
        return target_offsets

    def _counted_down(self, positions: Ints) -> Ints:
        """Return the target offset with at most as many originals up to a pair or the end as the source has offsets."""
        bounds = self._case.bounds
        if self._originals is None:
            return np.full(len(positions), bounds.target_start)
        offsets = self._originals.offsets
        reached = np.append(np.searchsorted(offsets, self._pairs.downstream, side="right"), len(offsets))
        ahead = np.maximum.accumulate((reached - np.append(self._pairs.upstream + 1, bounds.cut_off))[::-1])[::-1]
        above = np.searchsorted(self._pairs.upstream, positions)
        return np.append(bounds.target_start, offsets + 1)[np.maximum(positions + ahead[above], 0)]

    def _not_below(self, positions: Ints) -> Ints:
        """Return a target offset below which lies no original of the copies from each position on.

        A range between two pairs with more copies than originals contains jumps back by the difference, at unknown
        places; if markers may lie among originals that were not read, an uneven range may have jumped back by all its
        copies but one. If the last copy is not proven to be of the last original, MirrorMaker 2 may have died while
        repeating: then any original may follow.
        """
        copy_offsets, number = (
            np.append(self._pairs.upstream, self._case.bounds.cut_off),
            self._count_below(np.append(self._pairs.downstream, self._case.bounds.boundary)),
        )
        copies, originals = np.diff(copy_offsets), np.diff(number)
        repeated = np.maximum(copies - originals, 0)
        markers = (copies != originals) & (self._originals is None)
        repeated = np.where(markers, np.maximum(copies - 1, repeated), repeated)
        last = number[-1] if self._case.segment.drained else 0
        lowest = np.minimum.accumulate(np.append(number[:-1] + 1 - repeated, last)[::-1])[::-1]
        above = np.searchsorted(self._pairs.upstream, positions)
        uneven = np.append(self._originals is None, markers)[above] & (positions < copy_offsets[above])
        within_range = np.where(
            uneven, np.append(0, number[:-1] + 1 - repeated)[above], number[above] - (copy_offsets[above] - positions)
        )
        not_below = np.clip(np.minimum(within_range, lowest[above]), 0, number[-1])
        return self._target_offset_of(np.where(positions == copy_offsets[-1], number[-1], not_below))

    def _count_below(self, target_offsets: Ints) -> Ints:
        """Return how many originals lie below each target offset; offsets are counted if originals were not read."""
        return (
            target_offsets - self._case.bounds.target_start
            if self._originals is None
            else np.searchsorted(self._originals.offsets, target_offsets)
        )

    def _target_offset_of(self, numbers: Ints) -> Ints:
        """Return the target offset of an original by its number among the originals."""
        bounds = self._case.bounds
        return (
            numbers + bounds.target_start
            if self._originals is None
            else np.append(self._originals.offsets, bounds.boundary)[numbers]
        )

    def _bounds(self, positions: Ints, target_offsets: Ints) -> Ints:
        """Return how many originals from each target offset on may have been read: copies read less those below."""
        consumed, behind = positions - self._case.segment.source_from, self._case.bounds.boundary - target_offsets
        if self._originals is not None:
            below = np.searchsorted(self._originals.offsets, target_offsets)
            consumed, behind = np.maximum(consumed - below, 0), self._originals.size() - below
        bounds: Ints = np.minimum(consumed, behind)
        return bounds


def _first_rows(codes: Ints, size: int) -> Ints:
    """Return for each code its first row, ABSENT without a row."""
    rows = np.full(size, ABSENT, np.int64)
    np.minimum.at(rows, codes, np.arange(len(codes)))
    return rows
