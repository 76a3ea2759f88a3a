"""Positions whose records cannot be matched: from the nearest pair below, or right after the last copy.

Invariants:

1. After the last pair with u <= p come the last copies of all records from p on, provided that MirrorMaker 2 went on
   from that pair to the end of all it ever mirrored. A drained partition proves this. Without a source, a run restarted
   near the end may have died before it reached the previous run's end: then only pairs before the restart count.
2. A range of equal length on both clusters is assumed to hide no restart; every other range that is long enough counts
   into the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.bounds import TargetBounds
from kafka_dr_spark.logs.pairs import Pairs, lengths_after_pairs, pair_below
from kafka_dr_spark.reading.matching import content_codes, match_from_end, no_records, occurrence_from_end
from kafka_dr_spark.translation.by_content import proven_floor
from kafka_dr_spark.translation.case import SOURCE, TARGET, Answer, FullCase, Search, TargetCase, refused_answer


def nearest_pairs(case: TargetCase, positions: Ints) -> Search:
    """Answer ascending positions from the nearest proven pair at or below each position."""
    if not case.bounds.drained:
        return [refused_answer("not drained, and too much to read: nothing proves what is on the target")] * len(
            positions
        )
    below = pair_below(case.pairs, positions)
    proven = {}
    for index in np.unique(below):
        proven[index] = yield from proven_floor(case, case.pairs, int(index))
    return [_from_lower(case, case.pairs, int(index), proven[index], int(p)) for index, p in zip(below, positions)]


def _from_lower(case: TargetCase, trusted: Pairs, index: int, lower: int, position: int, **known: Any) -> Answer:
    """Answer from pair ``index`` if trusted, else from an earlier pair with a bound that reaches equally far."""
    target, bound, class_, evidence = nearest_place(case.pairs, case.bounds, index, position, **known)
    if index != lower:
        end = target + bound
        target, _, class_, evidence = nearest_place(trusted, case.bounds, lower, position)
        bound = end - target
    return Answer(target, class_, bound == 0, bound, evidence)


def nearest_place(
    pairs: Pairs,
    bounds: TargetBounds,
    index: int,
    position: int,
    exact_pairs: bool = False,
    unique_from: int | None = None,
) -> tuple[int, int, str, str]:
    """Return target position, bound, class and evidence by the pair ``index``; -1 is the target's log start.

    Args:
        pairs: pairs of the partition.
        bounds: bounds of the partition.
        index: the last pair with u <= position.
        position: source position.
        exact_pairs: whether a pair at the position itself may be called exact, if no later range can hide a restart.
        unique_from: target offset from which on no content recurs, so that no range there can hide a restart.
    """
    at_pair = index >= 0 and int(pairs.upstream[index]) == position
    name = f"sync {pairs.name(index)}" if index >= 0 else f"the target's log start {bounds.target_start}"
    target = int(pairs.downstream[index]) + (not at_pair) if index >= 0 else bounds.target_start
    unique = unique_from is not None and target >= unique_from
    # A cleaner on the source may have removed the pairs' records: then pairs give no bound.
    if bounds.source_compacted:
        bound = bounds.boundary - target
    elif exact_pairs and at_pair and (unique or last_undetected_restart_end(pairs, bounds, index) is None):
        return target, 0, "SYNC", name
    else:
        upper = bounds.boundary if index + 1 >= len(pairs) else int(pairs.downstream[index + 1])
        bound = max(upper, 0 if unique else last_undetected_restart_end(pairs, bounds, index + 1) or 0) - target
    return target, bound, "NEAREST", f"nearest: {name}"


def last_undetected_restart_end(pairs: Pairs, bounds: TargetBounds, first: int) -> int | None:
    """Return the end of the last range that may hide a restart from before pair ``first``, None without one.

    Only ranges from that pair on are examined.
    """
    if first >= len(pairs):
        return None
    on_source, on_target = (lengths[first:] for lengths in lengths_after_pairs(pairs, bounds))
    equal_length = on_source == on_target
    certain_records = np.where(equal_length, on_target, 1)
    records_to_start = 1 + np.cumsum(certain_records) - certain_records
    records_to_start[np.maximum.accumulate(on_source <= 0)] = 1
    capacity = on_target.copy()
    capacity[-1] -= 1
    # A run that died may have reached no further than the position itself.
    records_to_start[-1] = records_to_start[-1] if bounds.drained else 1
    hiding = np.flatnonzero(~equal_length & (capacity >= records_to_start))
    return int(np.append(pairs.downstream, bounds.boundary)[first + 1 + hiding[-1]]) if len(hiding) else None


def after_last_copy(case: FullCase) -> Search:
    """Answer for a group that has read the whole source, where the target's end alone proves nothing.

    The position is right after the last copy of the source's last record, so that the group reads all records that
    another writer added behind this copy.
    """
    bounds = case.bounds
    last = yield from _newest_record(case)
    if last is None:
        size = bounds.boundary - bounds.target_start
        return Answer(
            bounds.target_start,
            "NEAREST",
            size == 0,
            size,
            "nearest: the target's log start; the source holds no record",
        )
    span = 64
    while True:
        start = max(bounds.target_start, bounds.boundary - span)
        (theirs,) = yield from case.fetch(case.window(TARGET, start, bounds.boundary))
        copies = match_from_end(last, theirs or no_records())
        if copies[0] < bounds.boundary:
            bound = bounds.boundary - int(copies[0]) - 1
            return Answer(
                int(copies[0]) + 1,
                "CONTENT",
                bound == 0,
                bound,
                f"right after the last copy of source record {last.offsets[0]}",
            )
        if start == bounds.target_start or span > case.left[TARGET]:
            return refused_answer(f"the source's last record at offset {last.offsets[0]} is not on the target")
        span *= 8


def _newest_record(case: FullCase) -> Search:
    bounds, span = case.bounds, 64
    while True:
        start = max(bounds.source_start, bounds.cut_off - span)
        (records,) = yield from case.fetch(case.window(SOURCE, start, bounds.cut_off))
        if records and records.size():
            newest = int(records.offsets[-1])
            return records.between(newest, newest + 1)
        if start == bounds.source_start or span > case.left[SOURCE]:
            return None
        span *= 8


def without_source(case: TargetCase, positions: Ints) -> Search:
    """Answer ascending positions from pairs and target alone; without any pair each group's policy decides."""
    if not len(case.pairs):
        return [None] * len(positions)
    settled, unique_from = case.pairs, case.bounds.boundary
    if not case.bounds.drained:
        settled, unique_from = yield from _settled_pairs(case, positions)
    options = {"exact_pairs": True, "unique_from": unique_from}
    below = zip(pair_below(case.pairs, positions), pair_below(settled, positions), positions)
    return [_from_lower(case, settled, int(index), int(lower), int(p), **options) for index, lower, p in below]


def _settled_pairs(case: TargetCase, positions: Ints) -> Search:
    """Return the pairs after which MirrorMaker 2 reached the end of all it mirrored, and where contents turn unique.

    Reads the target's tail: from the first unsettled range on, and from the lowest position on if the read limit
    allows.
    """
    pairs, bounds = case.pairs, case.bounds
    first = first_unsettled(pairs, bounds)
    offsets = np.append(pairs.downstream, bounds.target_start)
    settled, unsettled = (pairs, bounds.boundary) if first is None else (pairs.first(first + 1), int(offsets[first]))
    lowest = min(unsettled, int(offsets[pair_below(pairs, positions[:1])[0]]))
    start = lowest if bounds.boundary - lowest <= case.left[TARGET] else unsettled
    if not case.may_read(TARGET, bounds.boundary - start):
        return settled, bounds.boundary
    (tail,) = yield from case.fetch(case.window(TARGET, start, bounds.boundary))
    if tail is None or (bounds.target_compacted and tail.size() < bounds.boundary - start):
        return settled, bounds.boundary
    recurring = tail.offsets[occurrence_from_end(content_codes(tail)) > 0]
    unique_from = int(recurring[-1]) + 1 if len(recurring) else start
    return pairs if first is None else _before_restart(pairs, first, recurring[recurring >= unsettled]), unique_from


def _before_restart(pairs: Pairs, first: int, recurring: Ints) -> Pairs:
    """Return pairs before the first sign of a restart from range ``first`` on: u falls, or contents recur."""
    first_range = max(first, 0)
    back = np.flatnonzero(np.diff(pairs.upstream[first_range:]) <= 0)
    before_back = first_range + 1 + int(back[0]) if len(back) else len(pairs)
    before_recurrence = (
        int(np.searchsorted(pairs.downstream, recurring[0], side="right")) if len(recurring) else len(pairs)
    )
    return pairs.first(min(before_back, before_recurrence))


def first_unsettled(pairs: Pairs, bounds: TargetBounds) -> int | None:
    """Return the index of the first pair whose following range may hold records that were never mirrored again.

    The range before the first pair has the index -1. A range is settled once as many different later records are known
    beyond its start as the range has records in all.
    """
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    if len(np.unique(pairs.upstream)) < pairs.downstream[0] - bounds.target_start:
        return -1
    for index in np.flatnonzero(on_source != on_target):
        later = pairs.upstream[index + 1 :]
        if len(np.unique(later[later > pairs.upstream[index]])) < on_target[index]:
            return int(index)
    return None
