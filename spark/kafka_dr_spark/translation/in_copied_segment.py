"""Translate positions in a segment whose copies are on the source and whose originals are on the target.

Why: decisions/0013. MirrorMaker 2 copied the originals from target to source in their order; after a restart it jumped
back to a lower original and copied again from there on. Take the highest original with a copy below a position: this
original and all lower originals are *reached* at the position: they have copies below it. A group that came to the
position by reading has read these originals. A group that a failover placed at the position has not: the failover
placed the group at the last copies of the records that the group had not read. So no group continues above the lowest
original with a copy at or above its position, and the bound is the number of originals that the group may have read
nevertheless.

Invariants:

1. A copy was made of the first original with its content, or of a later one. So a copy below a position shows that this
   first original is reached.
2. Originals that are not reached at a position have copies at or above the position, each a copy of its own.
3. A cleaner on the source may remove a copy below a position and leave a repeat above the position, which the group has
   not read: then the copies below a position do not show which originals are reached.
4. Retention on the source has the same effect for a position at the source's log start.
5. In a segment whose flow still copies, only originals that are known to have copies count (`copied`): an original
   without a copy, taken for one with a copy, could lead a group past it. Fewer of them only lead groups back.

A `Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
"""

from __future__ import annotations

from dataclasses import replace

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
    """Return one answer per source position (ascending), by content if both clusters' ranges can be read.

    If not, the answers come from pairs (copy, original) and from counting the originals down.
    """
    bounds, limits = case.bounds, case.limits
    target = case.window(TARGET, bounds.target_start, bounds.boundary)
    if not case.may_read(TARGET, target.end - target.start):
        return (yield from _by_counting(case, positions, None))
    if not limits.source_readable or not case.may_read(SOURCE, bounds.cut_off - bounds.source_start):
        (originals,) = yield from case.fetch(target)
        return (yield from _by_counting(case, positions, originals or no_records()))
    copies, originals = yield from case.fetch(case.window(SOURCE, bounds.source_start, bounds.cut_off), target)
    return _Matched(case, copies or no_records(), originals or no_records()).answers(positions)


def _by_counting(case: FullCase, positions: Ints, originals: Records | None) -> Search:
    """Return one answer per position, from pairs and by counting; ``originals`` are None if they were not read."""
    pairs = yield from _trusted(case, positions)
    if case.segment.complete:
        return _Counted(case, pairs, originals).answers(positions)
    # Only originals that are known to have copies are counted; of the others a group may have read all.
    bounds = case.bounds
    known = max(case.segment.copied_to or 0, bounds.target_start, int(pairs.downstream.max(initial=-1)) + 1)
    copied = replace(bounds, boundary=min(known, bounds.boundary))
    below = None if originals is None else originals.between(bounds.target_start, copied.boundary)
    more = bounds.boundary - copied.boundary
    answers = _Counted(replace(case, bounds=copied), pairs, below).answers(positions)
    return [a._replace(exact=a.exact and not more, bound=None if a.bound is None else a.bound + more) for a in answers]


def _trusted(case: Case, positions: Ints) -> Search:
    """Return the pairs next to the positions whose two records are equal; all pairs if the source is unreadable."""
    if not case.limits.source_readable:
        return case.pairs
    above = np.searchsorted(case.pairs.upstream, positions)
    around = np.unique(np.concatenate([above - 1, above]))
    return (yield from proven_pairs(case, around[(around >= 0) & (around < len(case.pairs))]))


class _Matched:
    """Determines the answers in a segment whose remaining records were all read, on both clusters."""

    def __init__(self, case: FullCase, copies: Records, originals: Records) -> None:
        self._case, self._copies, self._originals = case, copies, originals
        codes = content_codes(join_records([copies, originals]))
        self._ours, self._theirs = codes[: copies.size()], codes[copies.size() :]
        self._size = int(codes.max(initial=-1)) + 1
        bounds = case.bounds
        self._source_whole = bounds.source_start == case.segment.source_from and not bounds.source_compacted
        self._target_whole = not case.target_cut and not bounds.target_compacted
        self._copied = self._theirs[: self._count_copied()]

    def answers(self, positions: Ints) -> list[Answer]:
        """Return one answer per position."""
        copies, target_offsets = self._copies, np.append(self._case.bounds.target_start, self._originals.offsets + 1)
        if len(self._copied) == len(self._theirs):
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
        if row == self._copies.size() and self._case.segment.complete:
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

    def _count_copied(self) -> int:
        """Return of how many originals, from the first one on, copies are known to be in the segment.

        If the flow still copies, these are the originals below `copied_to`, and those up to the last original that is
        the first one of a copy's content.
        """
        copied_to = self._case.segment.copied_to
        if copied_to is None:
            return len(self._theirs)
        known = int(np.searchsorted(self._originals.offsets, copied_to))
        if not self._target_whole:
            # The first original of a content may be gone, and a later one without a copy may look like it.
            return known
        numbers = _first_rows(self._theirs, self._size)[self._ours]
        return max(known, int(np.where(numbers == ABSENT, -1, numbers).max(initial=-1)) + 1)

    def _reached(self, first: Ints) -> Ints:
        """Return per position how many originals are reached, as the copies below the position show.

        ``first`` has per position the row of the first copy at or above the position.
        """
        first_original = _first_rows(self._copied, self._size)
        if not self._target_whole:
            # A content that occurs once among all copies has one original; of a content that recurs, the first original
            # may have been deleted from the target.
            once = np.bincount(self._ours, minlength=self._size) == 1
            first_original = np.where(once & self._source_whole, first_original, ABSENT)
        numbers = first_original[self._ours]
        highest = np.maximum.accumulate(np.where(numbers == ABSENT, 0, numbers + 1))
        return np.append(0, highest)[first]

    def _not_above(self, positions: Ints) -> Ints:
        """Return per position how many originals must be reached, because too few copies follow the position.

        An original that is not reached has a copy of its own at or above the position (invariant 2).
        """
        copy_offsets = match_codes_from_end(self._copied, self._ours, self._copies.offsets)
        copied_rows = np.flatnonzero(copy_offsets != ABSENT)
        # Danger: an original without a copy, between originals with copies, was never copied. So the missing copy does
        # not show that lower originals are reached.
        copy_offsets[: copied_rows[0] if len(copied_rows) else len(copy_offsets)] = -1
        return np.searchsorted(np.minimum.accumulate(copy_offsets[::-1])[::-1], positions)

    def _lowest_unread(self, first: Ints) -> Ints:
        number = match_codes_from_end(self._ours, self._copied, np.arange(len(self._copied)))
        lowest = np.minimum.accumulate(np.append(number, len(self._copied))[::-1])[::-1]
        return lowest[first]

    def _bounds(self, positions: Ints, first: Ints, reached: Ints) -> Ints:
        """Return per position how many originals that are not reached a group at the position may have read.

        Args:
            positions: source positions.
            first: per position the row of the first copy at or above the position.
            reached: per position the number of originals that are reached.
        """
        behind = len(self._theirs) - reached
        consumed = first if self._source_whole else positions - self._case.segment.source_from
        compacted = self._case.bounds.source_compacted
        bounds: Ints = np.minimum(behind, consumed if compacted else np.maximum(consumed - reached, 0))
        if self._source_whole and not compacted:
            # The bound is 0 if the next original has no copy below the position.
            copied = np.append(_first_rows(self._ours, self._size)[self._theirs], ABSENT)
            bounds[copied[reached] >= first] = 0
        return bounds

    def _missing(self) -> tuple[Mask, Mask]:
        """Return two masks of source records (copies) whose original is not on the target.

        The first marks copies whose original is missing, the second copies whose original retention has deleted. Only
        the first copy of each content is marked.
        """
        absent = _first_rows(self._theirs, self._size)[self._ours] == ABSENT
        missing = absent & (_first_rows(self._ours, self._size)[self._ours] == np.arange(len(self._ours)))
        cut = np.zeros(len(missing), np.bool_)
        if self._case.target_cut:
            present_rows = np.flatnonzero(~absent)
            cut[: present_rows[0] if len(present_rows) else len(cut)] = True
        if self._case.bounds.target_compacted:
            # The cleaner may have removed an original because a newer segment holds a newer value of its key.
            missing[:] = False
        return missing & ~cut, missing & cut


class _Counted:
    """Determines the answers in a segment that is too long to read, or whose source cannot be read.

    The answers come from pairs, and from counting the originals down.
    """

    def __init__(self, case: FullCase, pairs: Pairs, originals: Records | None) -> None:
        self._case, self._pairs, self._originals = case, pairs, originals

    def answers(self, positions: Ints) -> list[Answer]:
        """Return one answer per position."""
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
                "counted down from the records above",
            ),
        )
        rows = zip(target_offsets.tolist(), self._bounds(positions, target_offsets).tolist(), names.tolist())
        return [
            Answer(target_offset, "NEAREST", bound == 0, bound, f"nearest: {name}")
            for target_offset, bound, name in rows
        ]

    def _paired(self, positions: Ints) -> Ints:
        """Return per source position the target offset after the highest original of all pairs below the position.

        If a pair lies at the position itself, the result is at least that pair's original.
        """
        copies, originals = self._pairs.upstream, self._pairs.downstream
        below = np.searchsorted(copies, positions)
        start = self._case.bounds.target_start
        highest = np.append(start, np.maximum.accumulate(originals + 1))[below]
        at_pair = np.append(copies, -1)[below] == positions
        target_offsets: Ints = np.maximum(highest, np.where(at_pair, np.append(originals, start)[below], start))
        return target_offsets

    def _counted_down(self, positions: Ints) -> Ints:
        """Return per position the highest target offset that counting the originals down gives.

        Counting down from a pair gives the target offset from which n originals lead to the pair's original, where n is
        the number of source offsets from the position to the pair's copy. Counting starts at each pair above the
        position, and at the segment's end. The segment's begin is returned if the originals were not read.
        """
        bounds = self._case.bounds
        if self._originals is None:
            return np.full(len(positions), bounds.target_start)
        offsets = self._originals.offsets
        reached = np.append(np.searchsorted(offsets, self._pairs.downstream, side="right"), len(offsets))
        ahead = np.maximum.accumulate((reached - np.append(self._pairs.upstream + 1, bounds.cut_off))[::-1])[::-1]
        above = np.searchsorted(self._pairs.upstream, positions)
        return np.append(bounds.target_start, offsets + 1)[np.maximum(positions + ahead[above], 0)]

    def _not_below(self, positions: Ints) -> Ints:
        """Return per position a target offset at or above which all originals of the copies from the position on lie.

        If a range between two pairs has more copies than originals, MirrorMaker 2 jumped back by the difference, at
        unknown places. If the originals were not read, transaction markers may lie among them: in a range that is not
        equally long on both clusters, MirrorMaker 2 may have jumped back by all copies of the range but one. If the
        last copy is not proven to be of the last original, MirrorMaker 2 may have stopped while it repeated records:
        the copies may then be of any original.
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
        """Return how many originals lie below each target offset; if originals were not read, how many offsets."""
        return (
            target_offsets - self._case.bounds.target_start
            if self._originals is None
            else np.searchsorted(self._originals.offsets, target_offsets)
        )

    def _target_offset_of(self, numbers: Ints) -> Ints:
        """Return the target offset of each original by its number; the number after the last is the segment's end."""
        bounds = self._case.bounds
        return (
            numbers + bounds.target_start
            if self._originals is None
            else np.append(self._originals.offsets, bounds.boundary)[numbers]
        )

    def _bounds(self, positions: Ints, target_offsets: Ints) -> Ints:
        """Return per position how many originals from its target offset on a group at the position may have read.

        This number is at most the number of copies below the position less the originals below the target offset, and
        at most the number of originals from the target offset on.
        """
        consumed, behind = positions - self._case.segment.source_from, self._case.bounds.boundary - target_offsets
        if self._originals is not None:
            below = np.searchsorted(self._originals.offsets, target_offsets)
            consumed, behind = np.maximum(consumed - below, 0), self._originals.size() - below
        bounds: Ints = np.minimum(consumed, behind)
        return bounds


def _first_rows(codes: Ints, size: int) -> Ints:
    """Return for each code from 0 to ``size`` - 1 its first row in ``codes``, ABSENT if it has none."""
    rows = np.full(size, ABSENT, np.int64)
    np.minimum.at(rows, codes, np.arange(len(codes)))
    return rows
