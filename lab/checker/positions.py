"""Compute a group's exact target position from the contents of one partition's source log and target log.

Records of equal content are paired from the ends of both logs: the last copy on the target with the last record on the
source, and so on. So a record of unique content is paired with its last copy, and byte-identical records by their
number counted from the end.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

Log = Sequence[tuple[int, int]]


class Standing(NamedTuple):
    """How one group's target position on one partition compares with the exact target position.

    Args:
        expected: the exact target position: the highest at which the group skips no unread record.
        skipped: source offsets of unread records that the group would not get from its target position on.
        rereads: number of records that the group would read again from its target position.
    """

    expected: int
    skipped: list[int]
    rereads: int

    @property
    def exact(self) -> bool:
        """Whether the group gets the same records on the target as it would have got next on the source."""
        return not self.skipped and not self.rereads


class Alignment:
    """One partition's source and target log, paired by content.

    Args:
        live: (offset, digest) of the records that a read_committed consumer gets from the source, in offset order.
        known: (offset, digest) of all records ever written to the source, including aborted and compacted records.
        target: (offset, digest) of the records that a consumer of the target gets below the boundary.
        boundary: the target's log end when replication stopped.
    """

    def __init__(self, live: Log, known: Log, target: Log, boundary: int) -> None:
        self.boundary = boundary
        self.target = target
        offsets_by_digest = _offsets_by_digest(target)
        self._live_offsets = [offset for offset, _ in live]
        self._last_copies = _last_copies(live, offsets_by_digest)
        self._limits = _suffix_minima(self._last_copies, boundary)
        self._owners = {
            copy: offset
            for (offset, _), copy in zip(known, _last_copies(known, offsets_by_digest), strict=True)
            if copy is not None
        }
        self._target_offsets = [offset for offset, _ in target]
        # The last source offset of each content, for copies on the target that are paired with no source record.
        self._newest = {digest: offset for offset, digest in known}

    def exact_position(self, position: int) -> int:
        """Return the highest target position at which no record from source offset `position` on is skipped."""
        return self._limits[bisect_left(self._live_offsets, position)]

    def standing(self, position: int, target_position: int) -> Standing:
        """Compare a group's target position with the exact target position for the group's source position."""
        expected = self.exact_position(position)
        return Standing(
            expected, self._skipped(position, target_position), self._rereads(position, target_position, expected)
        )

    def consumed_again(self, position: int, target_position: int) -> int:
        """Return how many records below source offset `position` a group would get again from `target_position` on.

        MirrorMaker 2's repeats of records that the group has not read do not count as re-reads.
        """
        first, last = (
            bisect_left(self._target_offsets, offset) for offset in (target_position, self.exact_position(position))
        )
        between = self.target[first:last]
        return sum(
            self._owners.get(offset, self._newest.get(digest, position)) < position for offset, digest in between
        )

    def _skipped(self, position: int, target_position: int) -> list[int]:
        first = bisect_left(self._live_offsets, position)
        pairs = zip(self._live_offsets[first:], self._last_copies[first:], strict=True)
        return [offset for offset, copy in pairs if copy is not None and copy < target_position]

    def _rereads(self, position: int, target_position: int, expected: int) -> int:
        # A copy whose record is at or above the source position (an aborted one, for example) is no re-read.
        first, last = bisect_left(self._target_offsets, target_position), bisect_left(self._target_offsets, expected)
        owners = (self._owners.get(offset) for offset in self._target_offsets[first:last])
        return sum(1 for owner in owners if owner is None or owner < position)


def out_of_order(live: Log, target: Log) -> int:
    """Return the number of source records whose last copy lies before the last copy of an earlier source record."""
    copies = [copy for copy in _last_copies(live, _offsets_by_digest(target)) if copy is not None]
    return sum(1 for earlier, later in itertools.pairwise(copies) if later < earlier)


def _offsets_by_digest(target: Log) -> dict[int, list[int]]:
    offsets_by_digest: dict[int, list[int]] = defaultdict(list)
    for offset, digest in target:
        offsets_by_digest[digest].append(offset)
    return offsets_by_digest


def _last_copies(source: Log, offsets_by_digest: dict[int, list[int]]) -> list[int | None]:
    from_the_end: Counter[int] = Counter()
    copies: list[int | None] = [None] * len(source)
    for index in range(len(source) - 1, -1, -1):
        digest = source[index][1]
        from_the_end[digest] += 1
        copy_offsets = offsets_by_digest.get(digest, ())
        if from_the_end[digest] <= len(copy_offsets):
            copies[index] = copy_offsets[-from_the_end[digest]]
    return copies


def _suffix_minima(copies: list[int | None], boundary: int) -> list[int]:
    # A record without a copy on the target is missing or compacted away: it does not limit the position.
    limits = [boundary] * (len(copies) + 1)
    for index in range(len(copies) - 1, -1, -1):
        copy = copies[index]
        limits[index] = limits[index + 1] if copy is None else min(copy, limits[index + 1])
    return limits
