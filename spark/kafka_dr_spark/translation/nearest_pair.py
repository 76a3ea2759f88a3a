"""Translate positions whose records cannot be matched by content, from pairs or from the last copy.

Invariants:

1. The last copies of all source records from position p on lie after the last pair (u, d) with u <= p, provided that
   MirrorMaker 2, after that pair, mirrored up to the highest record that it ever mirrored. A drained partition proves
   this. If the source cannot be read, MirrorMaker 2 may have restarted near the end and stopped before it reached the
   end of its previous run: then only pairs before this restart count.
2. A range between two pairs that has equal length on both clusters is assumed to hide no restart; any other range that
   is long enough to hide one raises the bound: the bound then reaches to the end of that range.

A `Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
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
    """Return one answer per source position, from the highest pair not above it whose two records are equal.

    All positions are refused if the partition is not drained.
    """
    if not case.bounds.drained:
        return [
            refused_answer(
                "the partition is not drained and has too many records to read: which of these records are on the"
                " target is not proven"
            )
        ] * len(positions)
    below = pair_below(case.pairs, positions)
    proven = {}
    for index in np.unique(below):
        proven[index] = yield from proven_floor(case, case.pairs, int(index))
    return [_from_lower(case, case.pairs, int(index), proven[index], int(p)) for index, p in zip(below, positions)]


def _from_lower(case: TargetCase, trusted: Pairs, index: int, lower: int, position: int, **known: Any) -> Answer:
    """Return the answer for a position by pair ``lower`` of ``trusted``.

    If ``lower`` is another pair than ``index``, the answer's bound reaches to the same target offset as the bound of an
    answer by pair ``index``.

    Args:
        case: partition to translate, with all its pairs.
        trusted: all pairs of the case, or only its first ones.
        index: index of the last pair with u <= position among all pairs.
        lower: index of the last such pair that can be relied on; -1 stands for the target's log start.
        position: source position.
        known: `exact_pairs` and `unique_from` of `nearest_place`, for pair ``index``.
    """
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
    """Return the target offset, bound (records), class and evidence that pair ``index`` gives for a position.

    Args:
        pairs: pairs of the partition.
        bounds: log starts and log ends of the partition.
        index: index of the last pair with u <= position; -1 if no pair has such a u: the target's log start counts.
        position: source position.
        exact_pairs: if True, a pair at the position itself gives an exact answer (class SYNC, bound 0), if no
            later range can hide a restart. If False, the class is always NEAREST.
        unique_from: target offset from which on no content recurs, so that no range from this offset on can hide a
            restart; None if unknown.
    """
    at_pair = index >= 0 and int(pairs.upstream[index]) == position
    name = f"sync {pairs.name(index)}" if index >= 0 else f"the target's log start {bounds.target_start}"
    target = int(pairs.downstream[index]) + (not at_pair) if index >= 0 else bounds.target_start
    unique = unique_from is not None and target >= unique_from
    # Pairs give no bound if a cleaner on the source may have removed the records of the pairs.
    if bounds.source_compacted:
        bound = bounds.boundary - target
    elif exact_pairs and at_pair and (unique or last_undetected_restart_end(pairs, bounds, index) is None):
        return target, 0, "SYNC", name
    else:
        upper = bounds.boundary if index + 1 >= len(pairs) else int(pairs.downstream[index + 1])
        bound = max(upper, 0 if unique else last_undetected_restart_end(pairs, bounds, index + 1) or 0) - target
    return target, bound, "NEAREST", f"nearest: {name}"


def last_undetected_restart_end(pairs: Pairs, bounds: TargetBounds, first: int) -> int | None:
    """Return the target offset at which the last range ends that may hide a restart from before pair ``first``.

    Only ranges after pair ``first`` are examined. None if no such range may hide a restart.
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
    # A run of MirrorMaker 2 that ended early may have mirrored no further than the position itself.
    records_to_start[-1] = records_to_start[-1] if bounds.drained else 1
    hiding = np.flatnonzero(~equal_length & (capacity >= records_to_start))
    return int(np.append(pairs.downstream, bounds.boundary)[first + 1 + hiding[-1]]) if len(hiding) else None


def after_last_copy(case: FullCase) -> Search:
    """Return the answer for a group that has read the whole source log, if the target's log end proves nothing.

    The target position is right after the last copy of the source's last record: the group then reads all records that
    another writer added to the target after this copy. The answer is a refusal if no such copy is found.
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
    """Return one answer per source position (ascending) from pairs and target records, without the source.

    If the partition has no pair, each answer is None, and the group's policy decides.
    """
    if not len(case.pairs):
        return [None] * len(positions)
    settled, unique_from = case.pairs, case.bounds.boundary
    if not case.bounds.drained:
        settled, unique_from = yield from _settled_pairs(case, positions)
    options = {"exact_pairs": True, "unique_from": unique_from}
    below = zip(pair_below(case.pairs, positions), pair_below(settled, positions), positions)
    return [_from_lower(case, settled, int(index), int(lower), int(p), **options) for index, lower, p in below]


def _settled_pairs(case: TargetCase, positions: Ints) -> Search:
    """Return the settled pairs, and the target offset from which on no content recurs.

    A pair is settled if MirrorMaker 2, after this pair, mirrored up to the highest record that it ever mirrored. The
    target is read from the pair below the lowest position to the target's end or, if that exceeds the read limit, from
    the first unsettled range on.
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
    """Return the pairs before the first sign of a restart after pair ``first``.

    Such a sign is a u that does not rise from one pair to the next, or a target record whose content recurs.

    Args:
        pairs: pairs of the partition.
        first: index of a pair; -1 stands for the range before the first pair.
        recurring: target offsets of the records whose content a later target record repeats.
    """
    first_range = max(first, 0)
    back = np.flatnonzero(np.diff(pairs.upstream[first_range:]) <= 0)
    before_back = first_range + 1 + int(back[0]) if len(back) else len(pairs)
    before_recurrence = (
        int(np.searchsorted(pairs.downstream, recurring[0], side="right")) if len(recurring) else len(pairs)
    )
    return pairs.first(min(before_back, before_recurrence))


def first_unsettled(pairs: Pairs, bounds: TargetBounds) -> int | None:
    """Return the index of the first pair after which MirrorMaker 2 may have restarted and then stopped too early.

    Too early means: before it had mirrored again all records that it had mirrored before the restart. -1 stands for the
    range before the first pair; None if no range can hold such a restart. A range is ruled out if it is equally long on
    source and target. It is also ruled out if the pairs after the range name at least as many different source records
    above its start as the range has target offsets.
    """
    on_source, on_target = lengths_after_pairs(pairs, bounds)
    if len(np.unique(pairs.upstream)) < pairs.downstream[0] - bounds.target_start:
        return -1
    for index in np.flatnonzero(on_source != on_target):
        later = pairs.upstream[index + 1 :]
        if len(np.unique(later[later > pairs.upstream[index]])) < on_target[index]:
            return int(index)
    return None
