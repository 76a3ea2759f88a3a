"""Translate positions by content: read a source range and, downwards from its upper anchor, the target.

Invariants:

1. The upper anchor is a pair (u, d) of two equal records, or the two logs' ends. Every record from u on has its last
   copy at or after d, so the range below the anchor can be judged alone.
2. The anchor is raised until no range between later pairs is long enough to hold a copy of a record that was read below
   the anchor.
3. The target is read downwards until every source record is matched, or down to a lower pair of two equal records or
   the target's log start: a source record without a match is then not on the target.

A `Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
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
    """Return the index of the nearest pair at or below ``index`` whose two records are equal; -1 without one."""
    while index >= 0:
        candidates = range(index, max(index - 4, -1), -1)
        offsets = [(int(pairs.upstream[i]), int(pairs.downstream[i])) for i in candidates]
        windows = [case.window(SOURCE, u, u + 1) for u, _ in offsets] + [
            case.window(TARGET, d, d + 1) for _, d in offsets
        ]
        records = yield from case.fetch(*windows)
        for i, (u, d), ours, theirs in zip(candidates, offsets, records, records[len(candidates) :]):
            if ours.same_content(u, theirs, d):
                return i
        index -= len(candidates)
    return -1


def proven_pairs(case: Case, indexes: Ints) -> Search:
    """Return those of the case's pairs at ``indexes`` whose two records, read from both clusters, are equal."""
    candidates = case.pairs.only(indexes)
    offsets = list(zip(candidates.upstream.tolist(), candidates.downstream.tolist()))
    windows = [case.window(SOURCE, u, u + 1) for u, _ in offsets] + [case.window(TARGET, d, d + 1) for _, d in offsets]
    records = yield from case.fetch(*windows)
    equal = [
        ours.same_content(u, theirs, d) is True
        for (u, d), ours, theirs in zip(offsets, records, records[len(offsets) :])
    ]
    return candidates.only(np.array(equal, np.bool_))


class LogRange:
    """Translates source positions of one partition by reading one range of both logs and matching the records."""

    def __init__(self, case: FullCase, positions: Ints, top: int) -> None:
        """Store the positions (ascending) and the upper anchor below which they lie.

        The anchor is the pair with the index ``top``, or both logs' ends if ``top`` is one past the last pair.
        """
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
        """Return the exclusive source and target offsets up to which the logs are read for the anchor ``top``."""
        if top == len(self.pairs):
            return self.case.bounds.cut_off, self.case.bounds.boundary
        return int(self.pairs.upstream[top]) + 1, int(self.pairs.downstream[top]) + 1

    def view(self) -> Records:
        """Return the source records from the lowest position up to and including the upper anchor's record."""
        return self.source.between(self.lowest, self.upper(self.top)[0])

    def settle(self) -> Search:
        """Read the needed records; return one answer per position.

        If the read limit is too low, all answers are None and `settled` is False. Else `settled` is True, and an answer
        is None only if the source has no record at or above the position and it is not proven that the target's log end
        is the right position: the partition is not drained, or another client has written to it.
        """
        while True:
            if not (yield from self._raise_top()) or not (yield from self._match()):
                return [None] * len(self.positions)
            if self._top_holds() and self._newest_is_matched():
                self.settled = True
                return self._answers()
            # Without the anchor's pair, the same index means the next pair above, or the logs' ends.
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
            bounds = self.case.bounds
            higher = int(upper_anchor(self.pairs, bounds, hiding, np.array([self.top + 1]), proven + 1)[0])
            if self.upper(higher)[0] - self.source_end > self.case.left[SOURCE]:
                self.unproven_until = self._last_hiding_end(proven)
                return True
            self.top = higher

    def _last_hiding_end(self, proven: int) -> int:
        bounds = self.case.bounds
        on_target = lengths_after_pairs(self.pairs, bounds)[1]
        ends_at = np.append(self.pairs.upstream[1:], bounds.cut_off)
        hiding = (on_target > proven) | (ends_at <= self.pairs.upstream[self.top])
        last = self.top + int(np.flatnonzero(hiding[self.top :])[-1])
        return int(np.append(self.pairs.downstream, bounds.boundary)[last + 1])

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
        # Unless drained, MirrorMaker 2's last run may have ended early: last copies can lie below the pair `below`.
        below = int(pair_below(self.pairs, self.positions[:1])[0]) if self.case.bounds.drained else -1
        floor = self._target_offset(below)
        self.target_from, size = end, view.size()
        # Without repeats and markers, as many target offsets as source records suffice: mostly one read is enough.
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
        """Return whether the upper anchor's two records are equal, or compaction has removed one of them."""
        if self.at_the_end:
            return True
        u, d = int(self.pairs.upstream[self.top]), int(self.pairs.downstream[self.top])
        same = self.source.same_content(u, self.target, d)
        if same is not None:
            return same
        bounds = self.case.bounds
        gone_on_source = bounds.source_compacted and not self.source.between(u, u + 1).size()
        gone_on_target = bounds.target_compacted and not self.target.between(d, d + 1).size()
        return gone_on_source or gone_on_target

    def _newest_is_matched(self) -> bool:
        """Return whether any source record from the highest position up to the upper anchor has a copy on the target.

        False, for example, if compaction has removed all these copies. Always True for an anchor at the logs' ends.
        """
        first = np.searchsorted(self.view().offsets, self.positions[-1])
        return self.at_the_end or bool((self.matched[first:] != ABSENT).any())

    def _answers(self) -> list[Answer | None]:
        view = self.view()
        hole, cut = self._missing(view)
        report_missing(self.case, view, hole, cut)
        last = self.case.bounds.boundary if self.at_the_end else int(self.pairs.downstream[self.top])
        targets = np.minimum(first_copies(view, self.matched, self.positions), last)
        first = np.searchsorted(view.offsets, self.positions)
        last_hole = int(np.flatnonzero(hole)[-1]) if hole.any() else -1
        cuts = np.append(np.cumsum(cut[::-1])[::-1], 0)
        bounds = (
            np.zeros(len(targets), np.int64)
            if self.unproven_until is None
            else np.maximum(0, self.unproven_until - targets)
        )
        columns = (
            targets,
            view.size() - first,
            cuts[first],
            self._pair_at(targets, first, view),
            self._target_from(targets),
            bounds,
        )
        rows = zip(first.tolist(), *(column.tolist() for column in columns))
        anchor = "the logs' ends" if self.at_the_end else f"sync {self.pairs.name(self.top)}"
        return [
            refuse_hole(self.case, view, last_hole) if row <= last_hole else self._answer(anchor, *details)
            for row, *details in rows
        ]

    def _pair_at(self, targets: Ints, first: Ints, view: Records) -> Ints:
        """Return per position the index of the pair of its first unread record and its target position; -1 without one.

        Args:
            targets: target positions.
            first: per position the row in ``view`` of its first unread record.
            view: source records.
        """
        index = np.searchsorted(self.pairs.downstream, targets)
        upstream, downstream = np.append(self.pairs.upstream, -1)[index], np.append(self.pairs.downstream, -1)[index]
        return np.where((downstream == targets) & (upstream == np.append(view.offsets, -2)[first]), index, -1)

    def _target_from(self, targets: Ints) -> Ints:
        """Return for each target position how many of the target records in memory are at this position or after it."""
        return self.target.size() - np.searchsorted(self.target.offsets, targets)

    def _missing(self, view: Records) -> tuple[Mask, Mask]:
        """Return two masks of source records without a copy on the target: missing, and deleted by retention.

        The first marks records that are missing on the target, the second records whose copies retention has deleted.
        """
        missing, bounds = self.matched == ABSENT, self.case.bounds
        cut = np.zeros(len(missing), np.bool_)
        # Retention deletes the oldest records, so no matched record lies before a deleted one.
        if (bounds.drained or self.case.segment.closed) and self.floor == -1 and self.case.target_cut:
            matched_rows = np.flatnonzero(~missing)
            cut[: matched_rows[0] if len(matched_rows) else len(cut)] = True
        if bounds.target_compacted:
            # A cleaner may remove older values and, in time, tombstones, but never a key's newest value.
            known_newest = self.at_the_end and not self.case.segment.closed
            newest = last_of_key(view) if known_newest else np.zeros(len(missing), np.bool_)
            missing = missing & newest & ~view.tombstone
        return missing & ~cut, missing & cut

    def _answer(
        self, anchor: str, target_position: int, unread: int, cut: int, pair: int, target_records: int, bound: int
    ) -> Answer | None:
        clamped = raised_over(self.case, cut)
        if not unread:
            return self._nothing_unread(clamped)
        if pair >= 0:
            return Answer(target_position, "SYNC", bound == 0, bound, f"sync {self.pairs.name(pair)}", clamped)
        return Answer(
            target_position,
            "CONTENT",
            bound == 0,
            bound,
            f"content: {unread} source and {target_records} target records up to {anchor}",
            clamped,
        )

    def _nothing_unread(self, clamped: str | None) -> Answer | None:
        if self.case.ends_match:
            return Answer(
                self.case.bounds.boundary, "END", True, 0, "nothing unread below the cut-off, drained", clamped
            )
        return None


def report_missing(case: Case, view: Records, hole: Mask, cut: Mask) -> None:
    """Add to a case's lists ``holes`` and ``cut`` the ranges of source records that have no copy on the target.

    Args:
        case: its list ``holes`` gets one entry if ``hole`` marks a record, its list ``cut`` if ``cut`` marks one.
        view: source records.
        hole: mask of records that must be on the target but are missing.
        cut: mask of records whose copies the target's retention has deleted.
    """
    for findings, mask, reason in (
        (case.holes, hole, "not on the target"),
        (case.cut, cut, "below the target's log start"),
    ):
        rows = np.flatnonzero(mask)
        if len(rows):
            first, last = int(view.offsets[rows[0]]), int(view.offsets[rows[-1]])
            findings.append({"from_offset": first, "to_offset": last + 1, "records": len(rows), "reason": reason})


def refuse_hole(case: Case, view: Records, row: int) -> Answer:
    """Return the refusal for a position at or below the source record at ``row``, which the target lacks."""
    subject = (
        "unread record"
        if case.bounds.drained or case.segment.closed
        else "unread record (the partition is not drained)"
    )
    return refused_answer(f"{subject} at source offset {int(view.offsets[row])} is not on the target")


def raised_over(case: Case, cut: int) -> str | None:
    """Return a note that a group skips ``cut`` unread records whose copies retention deleted; None if 0."""
    return (
        f"raised to the target's log start {case.bounds.target_start}: {cut} unread records are older" if cut else None
    )
