"""Compare the records of a source partition with their copies, in one pass over both logs, and place positions.

Copies have the order of their source records. A copier that is interrupted begins again at an earlier record: the
copies then repeat some records, so a copy that is not the expected one is passed over, and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

#: Most copies that are passed over in one partition; more are no repeats of an interrupted copier.
MOST_PASSED_OVER = 100_000


class ComparedRecord(NamedTuple):
    """One record of a log: its offset, and a fingerprint of its content."""

    offset: int
    fingerprint: str


class PlacedPosition(NamedTuple):
    """A position on the source, and the position on the target from which the same records follow."""

    source: int
    target: int


class FirstKept(NamedTuple):
    """From which source offset on the target still holds copies, and how many records before it have none any more."""

    source: int
    deleted: int


@dataclass(frozen=True)
class Copied:
    """What a comparison of one partition has shown.

    Attributes:
        records: number of source records whose copies were seen, in order, up to `missing`.
        missing: offset of the first source record whose copy was not seen; None if the copies of all were seen.
        first, last: first and last source record with their copies, as (source offset, target offset); None without
            records.
        passed_over: target records that are not the copy that was expected next: repeats, or other writers' records.
        placed: for each position that was asked for and is not behind `missing`, its place on the target.
    """

    records: int
    missing: int | None
    first: tuple[int, int] | None
    last: tuple[int, int] | None
    passed_over: tuple[ComparedRecord, ...]
    placed: tuple[PlacedPosition, ...]

    def holds_all_below(self, end: int) -> bool:
        """Whether the copies of all source records below the source offset `end` were seen."""
        return self.missing is None or self.missing >= end


def compare_copies(
    source: Iterable[ComparedRecord], target: Iterable[ComparedRecord], begins: int, positions: Iterable[int] = ()
) -> Copied:
    """Compare source records with their copies; both in the order of their logs.

    A position is placed at the copy of the first source record that it has not passed: behind the last copy of all
    records before it, and before every copy of the records after it. A position behind all records is placed behind the
    last copy.

    Args:
        source: records of the source partition, from the first one that is to be copied.
        target: records of the target partition from offset `begins` on, where copying began.
        begins: where a position is placed if no record was copied.
        positions: source offsets to be placed.
    """
    wanted, copies = sorted(set(positions)), iter(target)
    placed: list[PlacedPosition] = []
    passed_over: list[ComparedRecord] = []
    records, behind = 0, begins
    first = last = None
    for record in source:
        copy = _next_copy(record, copies, passed_over)
        if copy is None:
            placed += [PlacedPosition(p, behind) for p in wanted[len(placed) :] if p <= record.offset]
            return Copied(records, record.offset, first, last, tuple(passed_over), tuple(placed))
        while len(placed) < len(wanted) and wanted[len(placed)] <= record.offset:
            placed.append(PlacedPosition(wanted[len(placed)], copy))
        records, behind, last = records + 1, copy + 1, (record.offset, copy)
        first = first or last
    placed += [PlacedPosition(position, behind) for position in wanted[len(placed) :]]
    passed_over += copies
    return Copied(records, None, first, last, tuple(passed_over), tuple(placed))


def first_kept(source: Iterable[ComparedRecord], kept: Sequence[str], deleted: int) -> FirstKept | None:
    """Return the source record whose copy is the first one that the target still holds; None if no record fits.

    Retention on the target deletes copies from the log's beginning, and may do so before the source deletes the
    records. If the contents that are kept repeat, the last place that fits counts: positions then lie before the copy
    of their record, never behind it.

    Args:
        source: records of the source partition, from the first one that was copied.
        kept: fingerprints of the first records that the target holds, in order.
        deleted: number of offsets that retention has removed, which no number of deleted copies exceeds.
    """
    window: deque[ComparedRecord] = deque(maxlen=len(kept))
    first = None
    for number, record in enumerate(islice(source, deleted + len(kept)), 1):
        window.append(record)
        if not kept:
            first = FirstKept(record.offset + 1, number)
        elif record.fingerprint == kept[-1] and [seen.fingerprint for seen in window] == list(kept):
            first = FirstKept(window[0].offset, number - len(kept))
    return first


def first_place(target: Iterable[ComparedRecord], kept: Sequence[str]) -> int | None:
    """Return the target offset from which copies have originals on the source; None if there is no such place.

    Retention on the source may delete records after they were copied: the log of the target then begins with copies
    that have no original any more. If contents repeat, the first place that fits counts, so that no copy is passed
    over which a comparison needs.

    Args:
        target: records of the target partition, from the first copy on.
        kept: fingerprints of the first records that the source holds, in order; all of them are copied.
    """
    window: deque[ComparedRecord] = deque(maxlen=len(kept))
    for copy in target if kept else ():
        window.append(copy)
        if copy.fingerprint == kept[-1] and [seen.fingerprint for seen in window] == list(kept):
            return window[0].offset
    return None


def _next_copy(
    record: ComparedRecord, copies: Iterator[ComparedRecord], passed_over: list[ComparedRecord]
) -> int | None:
    """Return the target offset of a record's copy; add records before it to `passed_over`. None if there is none."""
    for copy in copies:
        if copy.fingerprint == record.fingerprint:
            return copy.offset
        passed_over.append(copy)
        if len(passed_over) > MOST_PASSED_OVER:
            return None
    return None
