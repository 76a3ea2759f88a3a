"""Bound the records that a group may read again at a target position, by a recorder's samples: decisions/0008.

Invariants:

1. Of a sample (N, D) what Connect kept as replicated (N) was read before the target's end (D). Records up to N have a
   copy below D, and whatever began anew after that began behind N: at or above D lie copies of records above N only.
2. So once N has reached a position, no record below the position lies at or above that D: the ceiling.
3. Of an earlier sample, position - 1 - N records below the position at most lie at or above its D: each once, and once
   more for each record between its D and the ceiling whose content has stood there before.

MirrorMaker 2's repeats of records that the group has not read are no re-reads.
"""

from __future__ import annotations

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.reading.matching import Records, content_codes
from kafka_dr_spark.translation.case import TARGET, Case, Search, TargetCase


def first_sample_after(case: TargetCase, positions: Ints) -> tuple[Ints, Ints]:
    """Return per position the first sample with it replicated, and the target's end then (else the boundary)."""
    reached = np.searchsorted(case.floors.replicated, positions)
    return reached, np.append(case.floors.target_end, case.bounds.boundary)[reached]


def rereads_at_most(case: TargetCase, positions: Ints, targets: Ints) -> Search:
    """Return for each position how many records below it lie at or above its target position, at most.

    Where more than one sampling interval lies between the target position and the ceiling, the target's records are
    counted there.
    """
    reached, highest = first_sample_after(case, positions)
    bounds = np.maximum(highest - targets, 0)
    begun = np.searchsorted(case.floors.target_end, targets, side="right") - 1
    counted = {}
    for row in np.flatnonzero(reached - begun > 1).tolist():
        sample, once = _fewest(
            case, int(positions[row]), int(targets[row]), slice(max(int(begun[row]), 0), int(reached[row]))
        )
        if once < bounds[row]:
            counted[row] = once, (max(int(case.floors.target_end[sample]), case.bounds.target_start), int(highest[row]))
    again = yield from _recurring(case, {span for _, span in counted.values()})
    for row, (once, span) in counted.items():
        bounds[row] = min(int(bounds[row]), once + again.get(span, int(bounds[row])))
    return bounds


def rereads_before_translation(case: TargetCase, positions: Ints, moved: Mask) -> Ints:
    """Return per position the most rereads wherever a translation places it; reads no records.

    No position is placed below its floor. What the target takes until MirrorMaker 2 stands may come on top.

    Args:
        moved: whether the position's group may have gone on since it was seen.
    """
    known = case.bounds
    below = np.searchsorted(case.floors.source_end, positions, side="right") - 1
    # Without a sample below, the index -1 takes what was appended.
    lowest = np.maximum(np.append(case.floors.target_end, 0)[below], known.target_start)
    bounds: Ints = np.maximum(np.where(moved, known.boundary, first_sample_after(case, positions)[1]) - lowest, 0)
    return bounds


def _fewest(case: Case, position: int, target: int, samples: slice) -> tuple[int, int]:
    """Return the sample giving the fewest rereads of a position placed at `target`, each record once, and how many."""
    ends, kept = case.floors.target_end[samples], case.floors.replicated[samples]
    once = np.maximum(ends - target, 0) + np.maximum(position - 1 - kept, 0)
    best = int(np.argmin(once))
    return samples.start + best, int(once[best])


def _recurring(case: Case, spans: set[tuple[int, int]]) -> Search:
    """Return per readable target stretch how many records repeat a content from earlier in the stretch."""
    windows = {span: case.window(TARGET, *span) for span in sorted(spans) if case.may_read(TARGET, span[1] - span[0])}
    parts = yield from case.fetch(*windows.values())
    return {span: _repeated(records) for span, records in zip(windows, parts)}


def _repeated(records: Records | None) -> int:
    return records.size() - len(np.unique(content_codes(records))) if records else 0
