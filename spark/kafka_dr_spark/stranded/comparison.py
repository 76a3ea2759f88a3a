"""Both logs of a partition, compared by content."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask
from kafka_dr_spark.reading.matching import (
    ABSENT,
    Records,
    content_codes,
    join_records,
    match_codes_from_end,
)

#: Odd, so that its powers modulo 2 to the 64th never vanish.
_BASE = np.uint64(0x9E3779B97F4A7C15)


class Places(NamedTuple):
    """Where copies of the source's records can stand, by their places in what was read.

    Attributes:
        lowest: each one's first place on the target at which a copy can stand.
        told: whether only copies of records that the source holds stand there; if not, one of a like record that it has
            deleted may.
        counted: whether nothing was taken from either log, so that each copy counts.
    """

    lowest: Ints
    told: Mask
    counted: bool


class Both:
    """Records of both logs, their contents numbered in the order in which they come: the source's first."""

    def __init__(self, ours: Records, theirs: Records) -> None:
        self.ours, self.theirs = ours, theirs
        codes = content_codes(join_records([ours, theirs]))
        self._mine, self._others = codes[: ours.size()], codes[ours.size() :]
        self._distinct, self._contents = (int(np.max(some, initial=-1)) + 1 for some in (self._mine, codes))

    def beginning(self, stated: int, places: Places, source_cut: bool) -> tuple[int, int]:
        """Return how many source records were replicated for certain, and how many by recurring contents after.

        Args:
            stated: offset below which all were.
            places: where their copies can stand.
            source_cut: the target may hold copies of older records than the source does: what recurs shows nothing.
        """
        known = max(int(np.searchsorted(self.ours.offsets, stated)), self._last_certain(places, source_cut) + 1)
        if not known or source_cut:
            return known, known
        copies = np.flatnonzero(self._others == self._mine[known - 1])
        copies = copies[copies >= places.lowest[known - 1]] if places.counted else copies[-1:]
        return known, known + longest_run(self._mine[known:], self._others, copies + 1)

    def _last_certain(self, places: Places, source_cut: bool) -> int:
        """Return the place of the last record whose content is on the target, not earlier on the source; else -1."""
        firsts, lasts = np.full(self._contents, -1), np.full(self._contents, -1)
        lasts[self._others] = np.arange(len(self._others))
        firsts[self._others[::-1]] = np.arange(len(self._others))[::-1]
        copied = (lasts[self._mine] >= 0) & (np.diff(np.maximum.accumulate(self._mine), prepend=-1) > 0)
        if source_cut:
            copied &= (lasts[self._mine] >= places.lowest) & (places.told | self._in_order(firsts, lasts))
        return int(np.flatnonzero(copied)[-1]) if copied.any() else -1

    def _in_order(self, firsts: Ints, lasts: Ints) -> Mask:
        """Mask source records whose copies lie behind all earlier copies; copies of deleted like records do not.

        Where contents recur on the source, only those count that the target holds once.
        """
        behind = np.maximum.accumulate(np.append(-1, firsts[self._mine]))[:-1]
        alone = (firsts == lasts)[self._mine] | (self._distinct == len(self._mine))
        ordered: Mask = alone & (lasts[self._mine] > behind)
        return ordered

    def also_there(self) -> Ints:
        """Return for each number of the source's first records how many of them the target holds, each its own."""
        order = np.argsort(self._mine, kind="stable")
        codes = self._mine[order]
        earlier = np.empty_like(order)
        earlier[order] = np.arange(len(codes)) - np.searchsorted(codes, codes)
        return np.append(0, np.cumsum(earlier < np.bincount(self._others, minlength=self._contents)[self._mine]))

    def alike(self, place: int) -> bool:
        """Return whether a record of the source is like one of the target."""
        return bool(np.isin(self._mine[place : place + 1], self._others).any())

    def missing(self, begin: int) -> Mask:
        """Return a mask of those of the source's first ``begin`` records that are not on the target."""
        found, mine = np.zeros(len(self._mine), np.bool_), self._mine[:begin]
        if np.any(np.bincount(mine, minlength=self._contents) > np.bincount(self._others, minlength=self._contents)):
            found[:begin] = match_codes_from_end(mine, self._others, self.theirs.offsets) == ABSENT
        return found

    def deleted(self, stated: int) -> Mask:
        """Mask source records whose copies target retention may have deleted: replicated before the oldest left."""
        places = np.arange(len(self._mine))
        oldest = np.flatnonzero(self._mine == self._others[0]) if len(self._others) else places[:0]
        return (self.ours.offsets < stated) | (places < (oldest[0] if len(oldest) else 0))

    def lacking(self, source_cut: bool) -> Mask:
        """Return a mask of the target's records whose contents the source does not hold.

        Args:
            source_cut: the source has deleted its oldest records: what was mirrored before the oldest that is left is
                no loss.
        """
        own = np.flatnonzero(self._others < self._distinct)
        before = self._others[: own[0] if len(own) else None] if source_cut else self._others[:0]
        return self._others >= max(self._distinct, int(np.max(before, initial=-1)) + 1)


def longest_run(wanted: Ints, there: Ints, begins: Ints) -> int:
    """Return how many of the wanted, from the first on, stand in their order at the best of some places.

    Args:
        wanted: codes.
        there: codes among which they are looked for.
        begins: places in `there`.
    """
    alive = begins[begins < len(there)]
    alive = alive[there[alive] == wanted[:1]] if len(wanted) else alive[:0]
    if not len(alive):
        return 0
    powers = np.cumprod(np.append(np.uint64(1), np.full(len(there), _BASE)))
    mine, theirs = (
        np.append(np.uint64(0), np.cumsum(_mixed(codes) * powers[: len(codes)]))
        for codes in (wanted[: len(there)], there)
    )
    least, most = np.ones(len(alive), np.int64), np.minimum(len(wanted), len(there) - alive)
    while np.any(least < most):
        half = (least + most + 1) // 2
        same = theirs[alive + half] - theirs[alive] == mine[half] * powers[alive]
        least, most = np.where(same, half, least), np.where(same, most, half - 1)
    best = int(np.argmax(least))
    run = there[alive[best] : alive[best] + least[best]]
    # Sums that are equal by chance would make less stranded than is.
    return len(run) if np.array_equal(run, wanted[: len(run)]) else 0


def _mixed(codes: Ints) -> Hashes:
    """Return numbers that look random, one for each code."""
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * _BASE
    return (mixed ^ (mixed >> np.uint64(29))) * _BASE
