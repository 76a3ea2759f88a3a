"""Compute, from samples, how many records a group reads again at most from a target position on: decisions/0008.

Invariants:

1. In a sample (N, D) the last replicated offset N that Connect had stored was read before the target's end D. Source
   records up to N have a copy below D, and a connector task restarted later resumes after N: at or above D lie only
   copies of records above N.
2. Take the first sample with N at or above a position. No record below the position has a copy at or above the D of
   this sample. This D is called the ceiling of the position.
3. Take an earlier sample (N, D). Only the records from N + 1 to position - 1 can have copies at or above D. Each of
   them has one such copy, and has a further copy only where a target record between D and the ceiling repeats the
   content of an earlier record of this range.

MirrorMaker 2's repeats of records that the group has not read are no re-reads. A `Search` is a generator: it yields
offset ranges to read, is sent their records, and returns what its docstring says.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.reading.matching import Records, content_codes
from kafka_dr_spark.translation.case import TARGET, Case, Search, TargetCase


def first_sample_after(case: TargetCase, positions: Ints) -> tuple[Ints, Ints]:
    """Return per position the index of the first sample with N at or above the position, and the position's ceiling.

    For a position without such a sample these are the number of samples and the boundary.
    """
    reached = np.searchsorted(case.floors.replicated, positions)
    return reached, np.append(case.floors.target_end, case.bounds.boundary)[reached]


def rereads_at_most(case: TargetCase, positions: Ints, targets: Ints) -> Search:
    """Return per source position the most records that a group at the position gets again from its target offset on.

    A group gets again copies, at or above the target offset, of source records below the position. If more than one
    sampling interval lies between target offset and ceiling, the target records between target offset and ceiling are
    read, to count recurring contents.

    Args:
        positions: source positions.
        targets: target offset of each position.
    """
    reached, highest = first_sample_after(case, positions)
    bounds = np.maximum(highest - targets, 0)
    sample_below = np.searchsorted(case.floors.target_end, targets, side="right") - 1
    counts = {}
    for row in np.flatnonzero(reached - sample_below > 1).tolist():
        sample, once = _fewest(
            case, int(positions[row]), int(targets[row]), slice(max(int(sample_below[row]), 0), int(reached[row]))
        )
        if once < bounds[row]:
            counts[row] = once, (max(int(case.floors.target_end[sample]), case.bounds.target_start), int(highest[row]))
    recurring = yield from _recurring(case, {span for _, span in counts.values()})
    for row, (once, span) in counts.items():
        bounds[row] = min(int(bounds[row]), once + recurring.get(span, int(bounds[row])))
    return bounds


def rereads_before_translation(case: TargetCase, positions: Ints, moved: Mask) -> Ints:
    """Return per source position how many records its group gets again at most, whichever target offset it gets.

    No records are read. The later translation returns no target offset below the target's end in the newest sample from
    before the position. Records that are mirrored until MirrorMaker 2 is stopped may raise the bound.

    Args:
        moved: per position whether its group may have read on after the position was recorded.
    """
    log_bounds = case.bounds
    below = np.searchsorted(case.floors.source_end, positions, side="right") - 1
    # If no sample lies below a position, its index is -1, the appended 0.
    lowest = np.maximum(np.append(case.floors.target_end, 0)[below], log_bounds.target_start)
    bounds: Ints = np.maximum(np.where(moved, log_bounds.boundary, first_sample_after(case, positions)[1]) - lowest, 0)
    return bounds


def _fewest(case: Case, position: int, target: int, samples: slice) -> tuple[int, int]:
    """Return the index of the sample among ``samples`` that gives the lowest bound of re-reads, and this bound.

    The bound is that of a group placed at target offset ``target``, with each record counted once.
    """
    ends, replicated = case.floors.target_end[samples], case.floors.replicated[samples]
    once = np.maximum(ends - target, 0) + np.maximum(position - 1 - replicated, 0)
    best = int(np.argmin(once))
    return samples.start + best, int(once[best])


def _recurring(case: Case, spans: set[tuple[int, int]]) -> Search:
    """Return by target range how many of its records have the content of an earlier record of the range.

    Ranges that exceed the read limit are left out.
    """
    windows = {span: case.window(TARGET, *span) for span in sorted(spans) if case.may_read(TARGET, span[1] - span[0])}
    parts = yield from case.fetch(*windows.values())
    return {span: _repeated(records) for span, records in zip(windows, parts)}


def _repeated(records: Records | None) -> int:
    return records.size() - len(np.unique(content_codes(records))) if records else 0
