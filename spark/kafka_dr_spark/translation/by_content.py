"""Find positions by content: read a stretch of the source and, down from its upper anchor, of the target.

Invariants:

1. The upper anchor is a pair whose two records are equal, or the two logs' ends. Everything from u on has its last copy
   at or after d, so the stretch below it can be judged alone.
2. The anchor is raised until no later stretch is long enough to hold a copy of what was read below it.
3. The target is read downwards until every source record is matched, or down to a proven lower anchor or the log's
   start: what is then unmatched is not on the target.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.logs.pairs import Pairs, lengths_after_pairs, pair_below
from kafka_dr_spark.logs.restarts import longest_undetected_restart, upper_anchor
from kafka_dr_spark.reading.matching import (
    ABSENT,
    Records,
    first_copies,
    join_records,
    last_of_key,
    match_from_end,
    no_records,
)
from kafka_dr_spark.translation.case import SOURCE, TARGET, Answer, Case, FullCase, Search, refused_answer


def proven_floor(case: Case, pairs: Pairs, index: int) -> Search:
    """Return the index of the nearest pair at or below ``index`` whose two records are equal; -1 is the logs' start."""
    while index >= 0:
        tried = range(index, max(index - 4, -1), -1)
        offsets = [(int(pairs.upstream[i]), int(pairs.downstream[i])) for i in tried]
        windows = [case.window(SOURCE, u, u + 1) for u, _ in offsets] + [
            case.window(TARGET, d, d + 1) for _, d in offsets
        ]
        records = yield from case.fetch(*windows)
        for i, (u, d), ours, theirs in zip(tried, offsets, records, records[len(tried) :]):
            if ours.same_content(u, theirs, d):
                return i
        index -= len(tried)
    return -1


def proven_pairs(case: Case, indexes: Ints) -> Search:
    """Return those of some pairs whose two records are equal."""
    some = case.pairs.only(indexes)
    offsets = list(zip(some.upstream.tolist(), some.downstream.tolist()))
    windows = [case.window(SOURCE, u, u + 1) for u, _ in offsets] + [case.window(TARGET, d, d + 1) for _, d in offsets]
    records = yield from case.fetch(*windows)
    equal = [
        ours.same_content(u, theirs, d) is True
        for (u, d), ours, theirs in zip(offsets, records, records[len(offsets) :])
    ]
    return some.only(np.array(equal, np.bool_))


class Stretch:
    """Positions of one partition that are settled by reading one stretch of both logs."""

    def __init__(self, case: FullCase, positions: Ints, top: int) -> None:
        """Prepare to settle ``positions`` (ascending) below the pair ``top``; one past the last is the logs' end."""
        self.case = case
        self.pairs = case.pairs
        self.positions = positions
        self.top = top
        self.lowest = int(positions[0])
        self.source, self.source_end = no_records(), self.lowest
        self.target, self.target_from = no_records(), 0
        self.matched = np.empty(0, np.int64)
        self.unproven_until: int | None = None
        self.floor: int | None = None
        self.settled = False

    @property
    def at_the_end(self) -> bool:
        """Whether the upper anchor is the two logs' ends."""
        return self.top == len(self.pairs)

    def upper(self, top: int) -> tuple[int, int]:
        """Return the source and target offsets up to which an anchor's stretch is read, exclusive."""
        if top == len(self.pairs):
            return self.case.bounds.cut_off, self.case.bounds.boundary
        return int(self.pairs.upstream[top]) + 1, int(self.pairs.downstream[top]) + 1

    def view(self) -> Records:
        """Return the source records below the upper anchor, its own record included."""
        return self.source.between(self.lowest, self.upper(self.top)[0])

    def settle(self) -> Search:
        """Read what is needed and return one answer per position; None where it would be too much to read."""
        while True:
            if not (yield from self._raise_top()) or not (yield from self._match()):
                return [None] * len(self.positions)
            if self._top_holds() and self._newest_is_matched():
                self.settled = True
                return self._answers()
            # The index now names the next pair above, or the logs' ends.
            self.pairs = self.pairs.without(self.top)
            self.target, self.floor = no_records(), None

    def _raise_top(self) -> Search:
        while True:
            if not (yield from self._read_source(self.upper(self.top)[0])):
                return False
            hiding = longest_undetected_restart(self.pairs, self.case.bounds, self.case.limits.reach)
            proven = self.view().between(int(self.positions[-1]), self.source_end).size()
            if hiding[self.top] <= proven and (proven or self.at_the_end):
                self.unproven_until = None
                return True
            known = self.case.bounds
            higher = int(upper_anchor(self.pairs, known, hiding, np.array([self.top + 1]), proven + 1)[0])
            if self.upper(higher)[0] - self.source_end > self.case.left[SOURCE]:
                self.unproven_until = self._last_hiding_end(proven)
                return True
            self.top = higher

    def _last_hiding_end(self, proven: int) -> int:
        known = self.case.bounds
        on_target = lengths_after_pairs(self.pairs, known)[1]
        ends_at = np.append(self.pairs.upstream[1:], known.cut_off)
        hiding = (on_target > proven) | (ends_at <= self.pairs.upstream[self.top])
        last = self.top + int(np.flatnonzero(hiding[self.top :])[-1])
        return int(np.append(self.pairs.downstream, known.boundary)[last + 1])

    def _read_source(self, end: int) -> Search:
        if end <= self.source_end:
            return True
        if not self.case.may_read(SOURCE, end - self.source_end):
            return False
        (more,) = yield from self.case.fetch(self.case.window(SOURCE, self.source_end, end))
        self.source, self.source_end = join_records([self.source, more]), end
        return True

    def _match(self) -> Search:
        view, end = self.view(), self.upper(self.top)[1]
        # Where the last run may have died early, last copies can lie below the pair that would be the floor.
        below = int(pair_below(self.pairs, self.positions[:1])[0]) if self.case.bounds.drained else -1
        floor = self._target_offset(below)
        self.target_from, size = end, view.size()
        # Without repeats and markers as many target offsets as source records are enough; mostly one read does.
        low = end - size - size // 8 - 16
        while True:
            low = floor if low <= floor + size else low
            if not (yield from self._read_target(low)):
                return False
            self.matched = match_from_end(view, self.target)
            if (self.matched != ABSENT).all() or not self._top_holds():
                return True
            if low <= floor and self.floor is None:
                self.floor = yield from proven_floor(self.case, self.pairs, below)
                floor = self._target_offset(self.floor)
            if low <= floor:
                return True
            low = end - 2 * (end - low)

    def _target_offset(self, index: int) -> int:
        return self.case.bounds.target_start if index < 0 else int(self.pairs.downstream[index])

    def _read_target(self, low: int) -> Search:
        if not self.case.may_read(TARGET, self.target_from - low):
            return False
        (more,) = yield from self.case.fetch(self.case.window(TARGET, low, self.target_from))
        self.target, self.target_from = join_records([more or no_records(), self.target]), low
        return True

    def _top_holds(self) -> bool:
        """Tell whether the upper anchor's records agree; a record removed by compaction cannot contradict it."""
        if self.at_the_end:
            return True
        u, d = int(self.pairs.upstream[self.top]), int(self.pairs.downstream[self.top])
        same = self.source.same_content(u, self.target, d)
        if same is not None:
            return same
        known = self.case.bounds
        gone_on_source = known.source_compacted and not self.source.between(u, u + 1).size()
        gone_on_target = known.target_compacted and not self.target.between(d, d + 1).size()
        return gone_on_source or gone_on_target

    def _newest_is_matched(self) -> bool:
        """Tell whether the highest position has a copy at or above it; a pair over compacted copies is no help."""
        first = np.searchsorted(self.view().offsets, self.positions[-1])
        return self.at_the_end or bool((self.matched[first:] != ABSENT).any())

    def _answers(self) -> list[Answer | None]:
        view = self.view()
        hole, cut = self._missing(view)
        report_missing(self.case, view, hole, cut)
        last = self.case.bounds.boundary if self.at_the_end else int(self.pairs.downstream[self.top])
        found = np.minimum(first_copies(view, self.matched, self.positions), last)
        first = np.searchsorted(view.offsets, self.positions)
        last_hole = int(np.flatnonzero(hole)[-1]) if hole.any() else -1
        cuts = np.append(np.cumsum(cut[::-1])[::-1], 0)
        bounds = (
            np.zeros(len(found), np.int64)
            if self.unproven_until is None
            else np.maximum(0, self.unproven_until - found)
        )
        columns = (
            found,
            view.size() - first,
            cuts[first],
            self._pair_at(found, first, view),
            self._target_from(found),
            bounds,
        )
        places = zip(first.tolist(), *(column.tolist() for column in columns))
        where = "the logs' ends" if self.at_the_end else f"sync {self.pairs.name(self.top)}"
        return [
            refuse_hole(self.case, view, last_hole) if row <= last_hole else self._answer(where, *place)
            for row, *place in places
        ]

    def _pair_at(self, found: Ints, first: Ints, view: Records) -> Ints:
        """Return for each place the index of the pair that stands there, -1 where none does."""
        index = np.searchsorted(self.pairs.downstream, found)
        upstream, downstream = np.append(self.pairs.upstream, -1)[index], np.append(self.pairs.downstream, -1)[index]
        return np.where((downstream == found) & (upstream == np.append(view.offsets, -2)[first]), index, -1)

    def _target_from(self, found: Ints) -> Ints:
        """Return how many target records were read from each place on."""
        return self.target.size() - np.searchsorted(self.target.offsets, found)

    def _missing(self, view: Records) -> tuple[Mask, Mask]:
        """Return two masks of unmatched records: missing on the target, and deleted there by retention."""
        missing, bounds = self.matched == ABSENT, self.case.bounds
        cut = np.zeros(len(missing), np.bool_)
        # What retention took is the oldest, so nothing that is matched lies before it.
        if (bounds.drained or self.case.segment.closed) and self.floor == -1 and self.case.target_cut:
            there = np.flatnonzero(~missing)
            cut[: there[0] if len(there) else len(cut)] = True
        if bounds.target_compacted:
            # An older value may be cleaned away, and in time a tombstone; the newest value of a key may not.
            known_newest = self.at_the_end and not self.case.segment.closed
            newest = last_of_key(view) if known_newest else np.zeros(len(missing), np.bool_)
            missing = missing & newest & ~view.tombstone
        return missing & ~cut, missing & cut

    def _answer(
        self, where: str, found: int, unread: int, cut: int, pair: int, target: int, bound: int
    ) -> Answer | None:
        clamped = raised_over(self.case, cut)
        if not unread:
            return self._nothing_unread(clamped)
        if pair >= 0:
            return Answer(found, "SYNC", bound == 0, bound, f"sync {self.pairs.name(pair)}", clamped)
        return Answer(
            found,
            "CONTENT",
            bound == 0,
            bound,
            f"content: {unread} source and {target} target records up to {where}",
            clamped,
        )

    def _nothing_unread(self, clamped: str | None) -> Answer | None:
        if self.case.ends_match:
            return Answer(
                self.case.bounds.boundary, "END", True, 0, "nothing unread below the cut-off, drained", clamped
            )
        return None


def report_missing(case: Case, view: Records, hole: Mask, cut: Mask) -> None:
    """Note in a case which source records are not on the target, and which its retention deleted there.

    Args:
        view: source records.
        hole: mask of those that should be there.
        cut: mask of those that were.
    """
    for found, mask, reason in (
        (case.holes, hole, "not on the target"),
        (case.cut, cut, "below the target's log start"),
    ):
        rows = np.flatnonzero(mask)
        if len(rows):
            first, last = int(view.offsets[rows[0]]), int(view.offsets[rows[-1]])
            found.append({"from_offset": first, "to_offset": last + 1, "records": len(rows), "reason": reason})


def refuse_hole(case: Case, view: Records, row: int) -> Answer:
    """Return the refusal of a position at or below a source record that is not on the target."""
    what = (
        "unread record"
        if case.bounds.drained or case.segment.closed
        else "unread record (the partition is not drained)"
    )
    return refused_answer(f"{what} at source offset {int(view.offsets[row])} is not on the target")


def raised_over(case: Case, cut: int) -> str | None:
    """Return the note on a place raised over unread records that target retention deleted; None without any."""
    return (
        f"raised to the target's log start {case.bounds.target_start}: {cut} unread records are older" if cut else None
    )
