"""Translate positions by counting target records down from a content pair; safe by decisions/0008.

In a content pair (u, d) of the flight recorder the target record d comes from a source record o at or below u. A sample
(E, D, N) holds the source's log end E, the target's log end D and the last replicated offset N that Connect had stored.
The D of the newest sample with E at or below an offset is the *floor* of this offset.

Invariants:

1. Take the newest sample (E, D, N) with E at or below a position p. All copies of records from p on lie at or above D,
   and every target record at or above D comes from above N. All copies of records above N lie at or above the floor of
   N + 1: the target is read from this floor up to d. For a position below the first sample, a target log that still
   begins at its offset 0 is read whole, if it holds only records mirrored from the source's present log.
2. A target record is *new* if no record with its content was read before it. The first record read with the content of
   record d is new; its offset is d'. By 1. the first copy of o lies at or above d', and between D and d only first
   copies are new.
3. MirrorMaker 2 first mirrors source records in their order. Let f, at or below d', be the target offset of the first
   copy of the first source record from p on. The new records from f to d' are first copies of as many source records,
   all between p and o: at most u + 1 - p. So f lies at or above t, the lowest target offset from which at most that
   many new records lead to d'.

Gaps on the source, recurring contents and repeats can only make t lie lower. Danger: records of another writer on the
target would make t lie higher.

A `Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.reading.matching import Records, content_codes
from kafka_dr_spark.translation.case import TARGET, Case, Search

Span = tuple[int, int]


class Count(NamedTuple):
    """One position to translate by counting down from a pair.

    Attributes:
        row: index of the position among the positions to translate.
        pair: index of the pair above the position.
        start: target offset from which the target is read.
        floor: target offset below which the position is never placed.
    """

    row: int
    pair: int
    start: int
    floor: int


def counted_down(case: Case, positions: Ints, above: Ints, targets: Ints) -> Search:
    """Return a target offset and its evidence for each position that counting down places above ``targets``.

    The result is keyed by the position's index in ``positions``.

    Args:
        positions: ascending source positions.
        above: for each position the index of a pair; this pair and all later pairs lie above the position.
        targets: target offset of each position without counting; records are read only where counting can give a
            higher target offset.
    """
    by_pair: dict[int, list[Count]] = {}
    for count in _counts(case, positions, above, targets):
        by_pair.setdefault(count.pair, []).append(count)
    spans = _spans(
        case,
        {
            pair: (min(c.start for c in counts), int(case.pairs.downstream[pair]) + 1)
            for pair, counts in by_pair.items()
        },
    )
    parts = yield from case.fetch(*(case.window(TARGET, *span) for _, span in spans))
    targets_of_rows = {}
    for (pairs, (start, _)), records in zip(spans, parts):
        new = New(records)
        for count in (count for pair in pairs for count in by_pair[pair]):
            target = new.lowest(
                int(case.pairs.downstream[count.pair]),
                int(case.pairs.upstream[count.pair] - positions[count.row]) + 1,
                start,
            )
            if target is not None and max(target, count.floor) > targets[count.row]:
                targets_of_rows[count.row] = (
                    max(target, count.floor),
                    f"counted down from pair {case.pairs.name(count.pair)}",
                )
    return targets_of_rows


class New:
    """The *new* records of a target range: records whose content no earlier record of the range has."""

    def __init__(self, records: Records) -> None:
        """Number the contents of the range in the order in which they first occur."""
        self._records, self._codes = records, content_codes(records)
        self._offsets = records.offsets[np.unique(self._codes, return_index=True)[1]]

    def lowest(self, offset: int, count: int, start: int) -> int | None:
        """Return the lowest target offset from which at most ``count`` new records lead to a record.

        New records are counted up to and including the first record of the range that has this record's content.

        Args:
            offset: target offset of the record; if the range has no record there, the result is None.
            count: number of new records.
            start: where the range begins; the result if the whole range has at most ``count`` new records to count.
        """
        at = int(np.searchsorted(self._records.offsets, offset))
        if at == self._records.size() or self._records.offsets[at] != offset:
            return None
        last_outside = int(self._codes[at]) - count
        return start if last_outside < 0 else int(self._offsets[last_outside]) + 1


def _counts(case: Case, positions: Ints, above: Ints, targets: Ints) -> list[Count]:
    """Return the positions for which counting down from a content pair can give a target offset above ``targets``."""
    pairs, floors = case.pairs, case.floors
    if case.bounds.other_writer or not len(pairs) or not len(floors):
        return []
    samples = np.searchsorted(floors.source_end, positions, side="right") - 1
    sampled = samples >= 0
    floor_offsets = np.where(sampled, floors.target_end[samples], 0)
    # Pairs at or above a floor are content pairs, because offset syncs are used below the first sample only.
    pair_above = np.maximum(above, np.searchsorted(pairs.downstream, floors.target_end[np.maximum(samples, 0)]))
    last = np.minimum(pair_above, len(pairs) - 1)
    highest = pairs.downstream[last] - (pairs.upstream[last] - positions)
    # Target records that clients wrote, or whose originals the source has lost, may lie above a position's first copy
    # and would be counted as the source's.
    readable_whole = case.limits.only_mirrored and not floors.fell
    rows = np.flatnonzero((sampled | readable_whole) & (pair_above < len(pairs)) & (highest > targets))
    needed = np.where(sampled, floors.replicated[samples] + 1, 0)
    first_upstream = np.unique(needed[rows]).tolist()
    starts = {offset: start for offset in first_upstream if (start := case.first_offset(offset)) is not None}
    candidates = zip(rows.tolist(), pair_above[rows].tolist(), needed[rows].tolist(), floor_offsets[rows].tolist())
    return [Count(row, pair, starts[offset], floor) for row, pair, offset, floor in candidates if offset in starts]


def _spans(case: Case, wanted: dict[int, Span]) -> list[tuple[list[int], Span]]:
    """Return the target offset ranges to read, each with the indexes of the pairs where counting starts.

    Newer pairs come first, overlapping ranges are merged, and ranges beyond the read limit are left out.

    Args:
        case: gives the read limit.
        wanted: by index of a pair, the target offset range that counting down from this pair needs.
    """
    spans: list[tuple[list[int], Span]] = []
    for pair, (start, end) in sorted(wanted.items(), reverse=True):
        overlapping = spans[-1:] if spans and spans[-1][1][0] < end else []
        pairs, (low, high) = overlapping[0] if overlapping else ([], (end, end))
        if case.may_read(TARGET, max(low - start, 0)):
            spans[len(spans) - len(overlapping) :] = [([*pairs, pair], (min(low, start), high))]
    return spans
