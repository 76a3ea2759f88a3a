"""Positions counted down from a recorder's pair by the target's records alone; safe by decisions/0008.

Of a pair (u, d) that was made by content the target's record d comes from a source record o at or below u.

Invariants:

1. Of the newest sample (E, D, N) with E at or below a position p all copies of records from p on lie at or above D, and
   what lies there comes from above N. All copies of records above N lie at or above the floor of N + 1: from there the
   target is read, up to d. Before the first sample a target that still holds everything from its offset 0 on is read
   whole, if it holds nothing but what was mirrored from the log that the source has now.
2. A record is *new* if none with its content was read before it. The record d, or one of its content before it, is new:
   d'. By 1. the first copy of o lies at or above d', and between D and d only first copies are new.
3. Source records are first mirrored in their order. So where the first record from p on was first mirrored at f, at or
   below d', the new ones from f to d' are first copies of as many records, all of them between p and o: u + 1 - p at
   most. Whatever f is, it does not lie below the lowest t with no more new ones than that from t to d'.

Gaps on the source, recurring contents and repeats can only make t lie lower. Danger: what somebody else wrote to the
target would make it lie higher.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.reading.matching import Records, content_codes
from kafka_dr_spark.translation.case import TARGET, Case, Search

Span = tuple[int, int]


class Count(NamedTuple):
    """One position to count down to: index of the pair above, target offset to read from, and lowest result."""

    row: int
    pair: int
    start: int
    floor: int


def counted_down(case: Case, positions: Ints, above: Ints, targets: Ints) -> Search:
    """Return by row the target offsets above `targets`, each with what it rests on.

    Args:
        positions: ascending source positions.
        above: for each the index from which on all pairs lie above it.
        targets: where each is placed without counting; only what can be higher is read for.
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
    found = {}
    for (pairs, (start, _)), records in zip(spans, parts):
        new = New(records)
        for count in (count for pair in pairs for count in by_pair[pair]):
            target = new.lowest(
                int(case.pairs.downstream[count.pair]),
                int(case.pairs.upstream[count.pair] - positions[count.row]) + 1,
                start,
            )
            if target is not None and max(target, count.floor) > targets[count.row]:
                found[count.row] = max(target, count.floor), f"counted down from pair {case.pairs.name(count.pair)}"
    return found


class New:
    """The records of a stretch with whose content no record before them was read."""

    def __init__(self, records: Records) -> None:
        """Number the contents in the order in which they come."""
        self._records, self._codes = records, content_codes(records)
        self._offsets = records.offsets[np.unique(self._codes, return_index=True)[1]]

    def lowest(self, offset: int, count: int, start: int) -> int | None:
        """Return the lowest offset with at most `count` new records up to the first like the record at `offset`.

        Returns:
            `start` where all that were read are no more; None where no record stands at `offset`.
        """
        at = int(np.searchsorted(self._records.offsets, offset))
        if at == self._records.size() or self._records.offsets[at] != offset:
            return None
        last_outside = int(self._codes[at]) - count
        return start if last_outside < 0 else int(self._offsets[last_outside]) + 1


def _counts(case: Case, positions: Ints, above: Ints, targets: Ints) -> list[Count]:
    """Return positions between a sample's floor and an own pair that counting can place above `targets`."""
    pairs, floors = case.pairs, case.floors
    if case.bounds.other_writer or not len(pairs) or not len(floors):
        return []
    samples = np.searchsorted(floors.source_end, positions, side="right") - 1
    sampled = samples >= 0
    lowest = np.where(sampled, floors.target_end[samples], 0)
    # Pairs at or above a floor are the recorder's own: offset syncs are trusted below the first sample only.
    chosen = np.maximum(above, np.searchsorted(pairs.downstream, floors.target_end[np.maximum(samples, 0)]))
    last = np.minimum(chosen, len(pairs) - 1)
    highest = pairs.downstream[last] - (pairs.upstream[last] - positions)
    # Records that clients wrote on the target, or of which the source was cut, lie among those from a position on and
    # are none of the source's.
    whole = case.limits.only_mirrored and not floors.fell
    rows = np.flatnonzero((sampled | whole) & (chosen < len(pairs)) & (highest > targets))
    needed = np.where(sampled, floors.replicated[samples] + 1, 0)
    numbers = np.unique(needed[rows]).tolist()
    starts = {offset: start for offset in numbers if (start := case.first_offset(offset)) is not None}
    found = zip(rows.tolist(), chosen[rows].tolist(), needed[rows].tolist(), lowest[rows].tolist())
    return [Count(row, pair, starts[offset], floor) for row, pair, offset, floor in found if offset in starts]


def _spans(case: Case, wanted: dict[int, Span]) -> list[tuple[list[int], Span]]:
    """Return spans to read and the pairs each is for, newest first, overlaps merged, within the read limit."""
    spans: list[tuple[list[int], Span]] = []
    for pair, (start, end) in sorted(wanted.items(), reverse=True):
        overlapping = spans[-1:] if spans and spans[-1][1][0] < end else []
        pairs, (low, high) = overlapping[0] if overlapping else ([], (end, end))
        if case.may_read(TARGET, max(low - start, 0)):
            spans[len(spans) - len(overlapping) :] = [([*pairs, pair], (min(low, start), high))]
    return spans
