"""Bounds of the records that a group may read again at a target position, from samples: decisions/0008.

Invariants:

1. In a sample (N, D) the last replicated offset N that Connect had stored was read before the target's end D. Records
   up to N have a copy below D, and a task restarted later resumes after N: at or above D lie only copies of records
   above N.
2. So once N has reached a position, no record below the position lies at or above that D: the ceiling.
3. For an earlier sample (N, D) at most position - 1 - N records below the position lie at or above D: each once, and
   once more for each record between D and the ceiling whose content has occurred there before.

MirrorMaker 2's repeats of records that the group has not read are no re-reads.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.reading.matching import Records, content_codes
from kafka_dr_spark.translation.case import TARGET, Case, Search, TargetCase


def first_sample_after(case: TargetCase, positions: Ints) -> tuple[Ints, Ints]:
    """Return per position the first sample with the position replicated, and the target's end then (else boundary)."""
    reached = np.searchsorted(case.floors.replicated, positions)
    return reached, np.append(case.floors.target_end, case.bounds.boundary)[reached]


def rereads_at_most(case: TargetCase, positions: Ints, targets: Ints) -> Search:
    """Return per position the most records below the position that lie at or above its target position.

    If more than one sampling interval lies between target position and ceiling, the target records in between are
    counted.
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
    """Return per position the most rereads wherever a translation places the position; reads no records.

    No position is placed below its floor. Records that the target takes until MirrorMaker 2 is stopped may add to this.

    Args:
        moved: whether the position's group may have gone on since the position was read.
    """
    log_bounds = case.bounds
    below = np.searchsorted(case.floors.source_end, positions, side="right") - 1
    # Without a sample below, the index -1 takes the appended 0.
    lowest = np.maximum(np.append(case.floors.target_end, 0)[below], log_bounds.target_start)
    bounds: Ints = np.maximum(np.where(moved, log_bounds.boundary, first_sample_after(case, positions)[1]) - lowest, 0)
    return bounds


def _fewest(case: Case, position: int, target: int, samples: slice) -> tuple[int, int]:
    """Return the sample with the fewest rereads of a position placed at `target`, each record once, and how many."""
    ends, replicated = case.floors.target_end[samples], case.floors.replicated[samples]
    once = np.maximum(ends - target, 0) + np.maximum(position - 1 - replicated, 0)
    best = int(np.argmin(once))
    return samples.start + best, int(once[best])


def _recurring(case: Case, spans: set[tuple[int, int]]) -> Search:
    """Return per readable target range how many records repeat a content from earlier in the range."""
    windows = {span: case.window(TARGET, *span) for span in sorted(spans) if case.may_read(TARGET, span[1] - span[0])}
    parts = yield from case.fetch(*windows.values())
    return {span: _repeated(records) for span, records in zip(windows, parts)}


def _repeated(records: Records | None) -> int:
    return records.size() - len(np.unique(content_codes(records))) if records else 0
