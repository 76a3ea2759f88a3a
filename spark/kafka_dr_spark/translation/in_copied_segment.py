"""Positions where the source is the copy: groups go on at the originals. Why: decisions/0013.

MirrorMaker 2 copies in order and jumps back only to go on. So of all originals up to the highest one whose copy stands
below a position a copy stands below it: a group that came there by reading has read them. One that a failover has
placed there has not: it was placed at the last copies of what it had not read. So no group goes on above the lowest
original that any copy from its position on is of, and the bound tells how many it may have read nevertheless.

Invariants:

1. An original is the first record of its content, or a later one. So that first one was reached, wherever the copy
   stands.
2. Originals that were not reached below a position have copies, each its own, at or above it.
3. A cleaner on the source may remove a copy below a position and leave a repeat above it, which the group has not read:
   what was reached says nothing there.
4. Retention on the source does the same to the lowest position that is left.
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
    """Answer ascending positions by content where both sides can be read, else by pairs and counted originals."""
    known, limits = case.bounds, case.limits
    target = case.window(TARGET, known.target_start, known.boundary)
    if not case.may_read(TARGET, target.end - target.start):
        return _Counted(case, (yield from _trusted(case, positions)), None).answers(positions)
    if not limits.source_readable or not case.may_read(SOURCE, known.cut_off - known.source_start):
        (originals,) = yield from case.fetch(target)
        return _Counted(case, (yield from _trusted(case, positions)), originals or no_records()).answers(positions)
    copies, originals = yield from case.fetch(case.window(SOURCE, known.source_start, known.cut_off), target)
    return _Matched(case, copies or no_records(), originals or no_records()).answers(positions)


def _trusted(case: Case, positions: Ints) -> Search:
    """Return the pairs around the positions that a look at the records bears out; without the source all of them."""
    if not case.limits.source_readable:
        return case.pairs
    above = np.searchsorted(case.pairs.upstream, positions)
    around = np.unique(np.concatenate([above - 1, above]))
    return (yield from proven_pairs(case, around[(around >= 0) & (around < len(case.pairs))]))


class _Matched:
    """A segment that was read whole, as far as it is left, on both sides."""

    def __init__(self, case: FullCase, copies: Records, originals: Records) -> None:
        self._case, self._copies, self._originals = case, copies, originals
        codes = content_codes(join_records([copies, originals]))
        self._ours, self._theirs = codes[: copies.size()], codes[copies.size() :]
        self._size = int(codes.max(initial=-1)) + 1
        known = case.bounds
        self._source_whole = known.source_start == case.segment.source_from and not known.source_compacted
        self._target_whole = not case.target_cut and not known.target_compacted

    def answers(self, positions: Ints) -> list[Answer]:
        """Return one answer a position."""
        copies, places = self._copies, np.append(self._case.bounds.target_start, self._originals.offsets + 1)
        places[-1] = self._case.bounds.boundary
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
        rows = zip(first.tolist(), places[unread].tolist(), bounds.tolist(), cuts[first].tolist())
        return [
            refuse_hole(self._case, copies, last_hole) if row <= last_hole else self._answer(row, *place)
            for row, *place in rows
        ]

    def _answer(self, row: int, place: int, bound: int, cut: int) -> Answer:
        note = raised_over(self._case, cut)
        if row == self._copies.size():
            return Answer(
                self._case.bounds.boundary, "END", True, 0, "nothing unread below the end of the segment", note
            )
        return Answer(
            place,
            "CONTENT",
            bound == 0,
            bound,
            f"content: {row} copies below and {self._originals.size()} originals",
            note,
        )

    def _reached(self, first: Ints) -> Ints:
        """Return how many originals were reached at least, by the copies below each place."""
        at = _first_rows(self._theirs, self._size)
        if not self._target_whole:
            # A content that stands once in all copies is that of one original; of another one the first may be gone.
            once = np.bincount(self._ours, minlength=self._size) == 1
            at = np.where(once & self._source_whole, at, ABSENT)
        numbers = at[self._ours]
        highest = np.maximum.accumulate(np.where(numbers == ABSENT, 0, numbers + 1))
        return np.append(0, highest)[first]

    def _not_above(self, positions: Ints) -> Ints:
        """Return per position the least number of originals reached: those above it have copies of their own."""
        copy = match_codes_from_end(self._theirs, self._ours, self._copies.offsets)
        there = np.flatnonzero(copy != ABSENT)
        # Danger: an original without a copy among others that have one was never copied; it proves nothing of those
        # below.
        copy[: there[0] if len(there) else len(copy)] = -1
        return np.searchsorted(np.minimum.accumulate(copy[::-1])[::-1], positions)

    def _lowest_unread(self, first: Ints) -> Ints:
        number = match_codes_from_end(self._ours, self._theirs, np.arange(len(self._theirs)))
        lowest = np.minimum.accumulate(np.append(number, len(self._theirs))[::-1])[::-1]
        return lowest[first]

    def _bounds(self, positions: Ints, first: Ints, reached: Ints) -> Ints:
        """Return how many originals from each place on the group may have read."""
        behind = len(self._theirs) - reached
        consumed = first if self._source_whole else positions - self._case.segment.source_from
        compacted = self._case.bounds.source_compacted
        bounds: Ints = np.minimum(behind, consumed if compacted else np.maximum(consumed - reached, 0))
        if self._source_whole and not compacted:
            # The next original has no copy below the position.
            copied = np.append(_first_rows(self._ours, self._size)[self._theirs], ABSENT)
            bounds[copied[reached] >= first] = 0
        return bounds

    def _missing(self) -> tuple[Mask, Mask]:
        """Return two masks of first copies without original: original missing, original deleted by retention."""
        absent = _first_rows(self._theirs, self._size)[self._ours] == ABSENT
        missing = absent & (_first_rows(self._ours, self._size)[self._ours] == np.arange(len(self._ours)))
        cut = np.zeros(len(missing), np.bool_)
        if self._case.target_cut:
            there = np.flatnonzero(~absent)
            cut[: there[0] if len(there) else len(cut)] = True
        if self._case.bounds.target_compacted:
            # A newer value may stand in a newer segment.
            missing[:] = False
        return missing & ~cut, missing & cut


class _Counted:
    """A segment too long to read, or without its source: pairs, and originals counted down from above."""

    def __init__(self, case: FullCase, pairs: Pairs, originals: Records | None) -> None:
        self._case, self._pairs, self._originals = case, pairs, originals

    def answers(self, positions: Ints) -> list[Answer]:
        """Return one answer a position."""
        known = self._case.bounds
        paired, counted = self._paired(positions), self._counted_down(positions)
        places = np.minimum(np.maximum(paired, counted), self._not_below(positions))
        repeats_may_follow = known.source_start > self._case.segment.source_from
        places[(positions == known.source_start) & repeats_may_follow | known.source_compacted] = known.target_start
        names = np.where(
            places == known.target_start,
            "the segment's begin",
            np.where(
                (paired >= counted) & (places == paired), "the highest pair below", "counted down from what lies above"
            ),
        )
        rows = zip(places.tolist(), self._bounds(positions, places).tolist(), names.tolist())
        return [Answer(place, "NEAREST", bound == 0, bound, f"nearest: {name}") for place, bound, name in rows]

    def _paired(self, positions: Ints) -> Ints:
        """Return the place behind the highest original named by a pair below each position, or at a pair's own."""
        copies, originals = self._pairs.upstream, self._pairs.downstream
        below = np.searchsorted(copies, positions)
        start = self._case.bounds.target_start
        highest = np.append(start, np.maximum.accumulate(originals + 1))[below]
        here = np.append(copies, -1)[below] == positions
        places: Ints = np.maximum(highest, np.where(here, np.append(originals, start)[below], start))
        return places

    def _counted_down(self, positions: Ints) -> Ints:
        """Return the place with at most as many originals above, to a pair or the end, as offsets on the source."""
        known = self._case.bounds
        if self._originals is None:
            return np.full(len(positions), known.target_start)
        offsets = self._originals.offsets
        reached = np.append(np.searchsorted(offsets, self._pairs.downstream, side="right"), len(offsets))
        ahead = np.maximum.accumulate((reached - np.append(self._pairs.upstream + 1, known.cut_off))[::-1])[::-1]
        above = np.searchsorted(self._pairs.upstream, positions)
        return np.append(known.target_start, offsets + 1)[np.maximum(positions + ahead[above], 0)]

    def _not_below(self, positions: Ints) -> Ints:
        """Return the place that no copy from each position on is of an original below.

        A stretch between two pairs with more copies than originals has jumped back by so many, wherever in it that was;
        where markers may stand among originals that were not read, an uneven one by all of it but one. Where it was not
        proven that the last copy is of the last original, MirrorMaker 2 may have died in what it repeated: then any
        original may follow.
        """
        at, number = (
            np.append(self._pairs.upstream, self._case.bounds.cut_off),
            self._numbered(np.append(self._pairs.downstream, self._case.bounds.boundary)),
        )
        copies, originals = np.diff(at), np.diff(number)
        repeated = np.maximum(copies - originals, 0)
        markers = (copies != originals) & (self._originals is None)
        repeated = np.where(markers, np.maximum(copies - 1, repeated), repeated)
        last = number[-1] if self._case.segment.drained else 0
        lowest = np.minimum.accumulate(np.append(number[:-1] + 1 - repeated, last)[::-1])[::-1]
        above = np.searchsorted(self._pairs.upstream, positions)
        uneven = np.append(self._originals is None, markers)[above] & (positions < at[above])
        inside = np.where(
            uneven, np.append(0, number[:-1] + 1 - repeated)[above], number[above] - (at[above] - positions)
        )
        not_below = np.clip(np.minimum(inside, lowest[above]), 0, number[-1])
        return self._place_of(np.where(positions == at[-1], number[-1], not_below))

    def _numbered(self, places: Ints) -> Ints:
        """Return how many originals lie below each place; their offsets stand for them where they were not read."""
        return (
            places - self._case.bounds.target_start
            if self._originals is None
            else np.searchsorted(self._originals.offsets, places)
        )

    def _place_of(self, numbers: Ints) -> Ints:
        """Return the place of an original by its number, as of `_numbered`."""
        known = self._case.bounds
        return (
            numbers + known.target_start
            if self._originals is None
            else np.append(self._originals.offsets, known.boundary)[numbers]
        )

    def _bounds(self, positions: Ints, places: Ints) -> Ints:
        """Return the most originals the group may have read from each place on: its copies read less those below."""
        most, behind = positions - self._case.segment.source_from, self._case.bounds.boundary - places
        if self._originals is not None:
            below = np.searchsorted(self._originals.offsets, places)
            most, behind = np.maximum(most - below, 0), self._originals.size() - below
        bounds: Ints = np.minimum(most, behind)
        return bounds


def _first_rows(codes: Ints, size: int) -> Ints:
    """Return for each code the first row that has it, ABSENT where none has."""
    found = np.full(size, ABSENT, np.int64)
    np.minimum.at(found, codes, np.arange(len(codes)))
    return found
