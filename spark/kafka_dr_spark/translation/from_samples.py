"""Translate positions without the source, from the flight recorder's samples; safe by decisions/0008.

A *floor* is a sample (E, D) of a partition's log ends: E on the source, D on the target.

Invariants:

1. In a floor (E, D) the target's end D was read before the source's end E: every copy of a source record at or above E
   lies at or above D.
2. Source records above u were first mirrored after u. So none of their copies lies at or below the first copy of u, and
   this first copy lies at or above every floor with E <= u. If another record has the content of u, the record taken
   for the first copy can only lie lower.

A `Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.pairs import pair_below
from kafka_dr_spark.loss.reread_bounds import rereads_at_most
from kafka_dr_spark.reading.matching import content_codes
from kafka_dr_spark.translation.by_counting_down import counted_down
from kafka_dr_spark.translation.case import TARGET, Answer, Case, Search, TargetCase


def from_floors(case: TargetCase, positions: Ints) -> Search:
    """Return one answer per source position (ascending), at the highest of three target offsets.

    The three are the first copy of the record of the nearest pair below, the D of the newest floor below, and the
    offset counted down from a pair above. An answer is None if the partition has no pair at all and no floor at
    or below the position.
    """
    below = pair_below(case.pairs, positions)
    copies = yield from _first_copies(case, [int(index) for index in np.unique(below) if index >= 0])
    placed = [_placed(case, int(index), copies.get(int(index)), int(p)) for index, p in zip(below, positions)]
    targets = np.array([case.bounds.boundary if placement is None else placement[0] for placement in placed], np.int64)
    for row, placement in (yield from counted_down(case, positions, below + 1, targets)).items():
        placed[row], targets[row] = placement, placement[0]
    bounds = yield from rereads_at_most(case, positions, targets)
    return [
        None if placement is None else _answer(case, *placement, bound)
        for placement, bound in zip(placed, bounds.tolist())
    ]


def _first_copies(case: Case, indexes: list[int]) -> Search:
    """Return by index of a pair (u, d) the target offset of the first copy of the record at source offset u.

    The target is read from the floor below the pair on. A pair is left out if the target's records from this floor to
    the pair are deleted or too many to read.
    """
    windows = {}
    for index in indexes:
        downstream, start = int(case.pairs.downstream[index]), case.first_offset(int(case.pairs.upstream[index]))
        if start is not None and start <= downstream and case.may_read(TARGET, downstream + 1 - start):
            windows[index] = case.window(TARGET, start, downstream + 1)
    parts = yield from case.fetch(*windows.values())
    copies = {}
    for index, records in zip(windows, parts):
        if records.size() and records.offsets[-1] == case.pairs.downstream[index]:
            codes = content_codes(records)
            copies[index] = int(records.offsets[codes == codes[-1]][0])
    return copies


def _placed(case: TargetCase, index: int, copy: int | None, position: int) -> tuple[int, str] | None:
    """Return the target offset for a position, from a pair's first copy or from the floor, and its evidence.

    The higher offset counts; the target's log start is returned if neither is higher. None if the partition has no pair
    and no floor at or below the position.
    """
    bounds, floor = case.bounds, case.floors.below(position)
    if index < 0 and floor is None and not len(case.pairs):
        return None
    at_pair = index >= 0 and int(case.pairs.upstream[index]) == position
    paired = bounds.target_start if copy is None else copy + (not at_pair)
    floored = bounds.target_start if floor is None else min(max(floor, bounds.target_start), bounds.boundary)
    if copy is not None and paired >= floored:
        return paired, f"{'pair' if copy == case.pairs.downstream[index] else 'first copy of'} {case.pairs.name(index)}"
    if floored > bounds.target_start:
        return floored, f"the target's log end in a sample in which the source's log end was below {position}"
    return bounds.target_start, f"the target's log start {bounds.target_start}"


def _answer(case: TargetCase, target: int, name: str, bound: int) -> Answer:
    bounds = case.bounds
    # A cleaner on either cluster, or retention on the target, may have removed the records that would show a repeat.
    complete = not (bounds.source_compacted or bounds.target_compacted) and (
        target > bounds.target_start or not case.target_cut
    )
    return Answer(target, "NEAREST", target == bounds.boundary or (bound == 0 and complete), bound, f"nearest: {name}")
