"""Positions without the source, from what a recorder saw of it while it lived. Why this is safe: decisions/0008.

Invariants:

1. Of a floor (E, D) the target's end D was read before the source's end E: every copy of a source record at or above E
   lies at or above D.
2. Records above u were first mirrored after u was. So none of their copies lies at or below the first copy of u, and
   that is at or above every floor with E <= u. Other records of the same content can only make it lie lower.
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
    """Answer ascending positions with the highest of: first copy of the pair below, floor, counted from above."""
    below = pair_below(case.pairs, positions)
    copies = yield from _first_copies(case, [int(index) for index in np.unique(below) if index >= 0])
    found = [_placed(case, int(index), copies.get(int(index)), int(p)) for index, p in zip(below, positions)]
    targets = np.array([case.bounds.boundary if place is None else place[0] for place in found], np.int64)
    for row, place in (yield from counted_down(case, positions, below + 1, targets)).items():
        found[row], targets[row] = place, place[0]
    bounds = yield from rereads_at_most(case, positions, targets)
    return [None if place is None else _answer(case, *place, bound) for place, bound in zip(found, bounds.tolist())]


def _first_copies(case: Case, indexes: list[int]) -> Search:
    """Return for each pair that can be settled the first target offset with its content above the floor."""
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
    """Return the higher of a pair's first copy and the floor, and its evidence; None if neither is at or below."""
    known, floor = case.bounds, case.floors.below(position)
    if index < 0 and floor is None and not len(case.pairs):
        return None
    hit = index >= 0 and int(case.pairs.upstream[index]) == position
    paired = known.target_start if copy is None else copy + (not hit)
    floored = known.target_start if floor is None else min(max(floor, known.target_start), known.boundary)
    if copy is not None and paired >= floored:
        return paired, f"{'pair' if copy == case.pairs.downstream[index] else 'first copy of'} {case.pairs.name(index)}"
    if floored > known.target_start:
        return floored, f"the target's end when the source's was below {position}"
    return known.target_start, f"the target's log start {known.target_start}"


def _answer(case: TargetCase, target: int, name: str, bound: int) -> Answer:
    known = case.bounds
    # What a cleaner removed on either side, or retention on the target, may hide that something else follows here than
    # there.
    whole = not (known.source_compacted or known.target_compacted) and (
        target > known.target_start or not case.target_cut
    )
    return Answer(target, "NEAREST", target == known.boundary or (bound == 0 and whole), bound, f"nearest: {name}")
