"""Compare, by content, a partition's log on the source (the returned cluster) with its log on the target.

A row is the index of a record among the records read of one log. A code is a number that stands for a record's content.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask
from kafka_dr_spark.reading.matching import ABSENT, Records, content_codes, join_records, match_codes_from_end

#: Base of the hash sums; odd, so that its powers modulo 2 to the 64th never become 0.
_BASE = np.uint64(0x9E3779B97F4A7C15)


class Places(NamedTuple):
    """The target rows at which copies of the source's records can lie.

    Attributes:
        lowest: per source record the first target row at which a copy of it can lie.
        unambiguous: per source record whether all target rows from its lowest row on are copies of records that the
            source still holds; otherwise a copy of a deleted record of the same content may be among them.
        counted: whether neither log has deleted records. If True, each target record with a source record's content,
            from its lowest row on, can be its copy; if False, only the last such target record is taken for its copy.
    """

    lowest: Ints
    unambiguous: Mask
    counted: bool


class ComparedRecords:
    """Records of both logs, their contents numbered by first occurrence: in the source's log, then in the target's."""

    def __init__(self, ours: Records, theirs: Records) -> None:
        self.ours, self.theirs = ours, theirs
        codes = content_codes(join_records([ours, theirs]))
        self._mine, self._others = codes[: ours.size()], codes[ours.size() :]
        self._distinct, self._contents = (int(np.max(some, initial=-1)) + 1 for some in (self._mine, codes))

    def beginning(self, stated: int, places: Places, source_cut: bool) -> tuple[int, int]:
        """Return how many of the source's first records are certainly replicated, and how many count as replicated.

        The second count adds the longest run of next source records that, on the target, directly follows a copy of the
        last certainly replicated record. The records of this run may be repeats of other source records.

        Args:
            stated: source offset below which all records were replicated.
            places: the target rows at which copies of the source's records can lie.
            source_cut: whether the target may hold copies of records that the source has deleted. If True, a run
                proves nothing, and both counts are equal.
        """
        certain = max(int(np.searchsorted(self.ours.offsets, stated)), self._last_certain_row(places, source_cut) + 1)
        if not certain or source_cut:
            return certain, certain
        copies = np.flatnonzero(self._others == self._mine[certain - 1])
        copies = copies[copies >= places.lowest[certain - 1]] if places.counted else copies[-1:]
        return certain, certain + longest_run(self._mine[certain:], self._others, copies + 1)

    def _last_certain_row(self, places: Places, source_cut: bool) -> int:
        """Return the last source row whose content is on the target and in no earlier source row; -1 without one.

        If ``source_cut`` is True, rows whose copy may be that of a deleted record of the same content are left out.
        """
        first_rows, last_rows = np.full(self._contents, -1), np.full(self._contents, -1)
        last_rows[self._others] = np.arange(len(self._others))
        first_rows[self._others[::-1]] = np.arange(len(self._others))[::-1]
        copied = (last_rows[self._mine] >= 0) & (np.diff(np.maximum.accumulate(self._mine), prepend=-1) > 0)
        if source_cut:
            copied &= (last_rows[self._mine] >= places.lowest) & (
                places.unambiguous | self._in_order(first_rows, last_rows)
            )
        return int(np.flatnonzero(copied)[-1]) if copied.any() else -1

    def _in_order(self, firsts: Ints, lasts: Ints) -> Mask:
        """Return a mask of source records whose copy lies above the copies of all earlier source records.

        A copy of a deleted record with the same content would lie below the copies of earlier source records. If
        contents recur on the source, only contents that the target holds once count.

        Args:
            firsts: by content code the first target row with this content, -1 without one.
            lasts: by content code the last target row with this content, -1 without one.
        """
        highest_before = np.maximum.accumulate(np.append(-1, firsts[self._mine]))[:-1]
        unique = (firsts == lasts)[self._mine] | (self._distinct == len(self._mine))
        ordered: Mask = unique & (lasts[self._mine] > highest_before)
        return ordered

    def also_there(self) -> Ints:
        """Return for n = 0, 1, 2... how many of the source's first n records have a copy of their own on the target."""
        order = np.argsort(self._mine, kind="stable")
        codes = self._mine[order]
        earlier = np.empty_like(order)
        earlier[order] = np.arange(len(codes)) - np.searchsorted(codes, codes)
        return np.append(0, np.cumsum(earlier < np.bincount(self._others, minlength=self._contents)[self._mine]))

    def alike(self, place: int) -> bool:
        """Return whether the source record at row ``place`` has the content of any target record read."""
        return bool(np.isin(self._mine[place : place + 1], self._others).any())

    def missing(self, begin: int) -> Mask:
        """Return a mask of source records among the first ``begin`` that have no copy of their own on the target."""
        missing, first_codes = np.zeros(len(self._mine), np.bool_), self._mine[:begin]
        if np.any(
            np.bincount(first_codes, minlength=self._contents) > np.bincount(self._others, minlength=self._contents)
        ):
            missing[:begin] = match_codes_from_end(first_codes, self._others, self.theirs.offsets) == ABSENT
        return missing

    def deleted(self, stated: int) -> Mask:
        """Return a mask of source records whose copies the target's retention may have deleted.

        These are the records below source offset ``stated``, and the records before the first source record with the
        content of the oldest target record.
        """
        places = np.arange(len(self._mine))
        oldest = np.flatnonzero(self._mine == self._others[0]) if len(self._others) else places[:0]
        return (self.ours.offsets < stated) | (places < (oldest[0] if len(oldest) else 0))

    def lacking(self, source_cut: bool) -> Mask:
        """Return a mask of the target's records whose contents the source does not hold.

        Args:
            source_cut: whether the source has deleted its oldest records. If True, the mask leaves out each content
                that occurs on the target before the first record that both logs hold: it may be of a deleted record.
        """
        shared_rows = np.flatnonzero(self._others < self._distinct)
        older_codes = self._others[: shared_rows[0] if len(shared_rows) else None] if source_cut else self._others[:0]
        return self._others >= max(self._distinct, int(np.max(older_codes, initial=-1)) + 1)


def longest_run(wanted: Ints, there: Ints, begins: Ints) -> int:
    """Return the length of the longest run that begins both at the start of ``wanted`` and at a row of ``there``.

    A run is a sequence of equal codes without a gap.

    Args:
        wanted: codes of the source's next records, in offset order.
        there: codes of the target's records, in offset order.
        begins: rows of ``there`` at which the run may begin.
    """
    candidates = begins[begins < len(there)]
    candidates = candidates[there[candidates] == wanted[:1]] if len(wanted) else candidates[:0]
    if not len(candidates):
        return 0
    powers = np.cumprod(np.append(np.uint64(1), np.full(len(there), _BASE)))
    mine, theirs = (
        np.append(np.uint64(0), np.cumsum(_scrambled(codes) * powers[: len(codes)]))
        for codes in (wanted[: len(there)], there)
    )
    lower, upper = np.ones(len(candidates), np.int64), np.minimum(len(wanted), len(there) - candidates)
    while np.any(lower < upper):
        half = (lower + upper + 1) // 2
        same = theirs[candidates + half] - theirs[candidates] == mine[half] * powers[candidates]
        lower, upper = np.where(same, half, lower), np.where(same, upper, half - 1)
    best = int(np.argmax(lower))
    run = there[candidates[best] : candidates[best] + lower[best]]
    # The codes themselves are compared: hash sums that are equal by chance would make the list of stranded records too
    # short.
    return len(run) if np.array_equal(run, wanted[: len(run)]) else 0


def _scrambled(codes: Ints) -> Hashes:
    """Return a random-looking number for each code, the same for equal codes."""
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * _BASE
    return (mixed ^ (mixed >> np.uint64(29))) * _BASE
