"""Translate one partition's positions: settle what needs no reading, plan the reads, combine the answers.

Nothing here reads: every search yields the windows it needs and is sent their records.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.pairs import pair_below
from kafka_dr_spark.logs.restarts import longest_undetected_restart, upper_anchor
from kafka_dr_spark.translation.by_content import Stretch, proven_pairs
from kafka_dr_spark.translation.case import (
    Answer,
    Case,
    FullCase,
    Search,
    TargetCase,
    both_known,
    noted_answer,
    refused_answer,
    target_known,
)
from kafka_dr_spark.translation.from_samples import from_floors
from kafka_dr_spark.translation.in_copied_segment import to_originals
from kafka_dr_spark.translation.nearest_pair import after_last_copy, nearest_pairs, without_source

# A position near the cut-off is proven against the logs' ends; where the history has unproven gaps, from further away.
NEAR_WHEN_INCOMPLETE = 50


def answer_without_reading(case: Case, position: int) -> Answer | None:
    """Return the answer that bounds alone give for a position, None where records or pairs must be looked at."""
    known = case.bounds
    if known.recreated:
        return refused_answer("the topic was recreated: its syncs speak of another log")
    if position < 0:
        return refused_answer(f"position {position} is not an offset")
    if known.cut_off is not None and position > known.cut_off:
        return refused_answer(f"position {position} is beyond the source's log end {known.cut_off}")
    if not known.target_exists:
        return _without_target(case)
    at_the_end = known.cut_off is not None and max(position, known.source_start or 0) == known.cut_off
    if at_the_end and case.ends_match:
        return Answer(known.boundary, "END", True, 0, "at the cut-off, drained")
    return None


def answers_without_reading(case: Case, positions: Ints) -> dict[int, Answer | None]:
    """Return for each position what bounds alone say, None where records or pairs must be looked at."""
    known, answers = case.bounds, dict.fromkeys(positions.tolist())
    told = positions
    if known.target_exists and not known.recreated and known.cut_off is not None:
        # Inside both logs they say nothing; there may be very many such positions.
        told = positions[(positions < 0) | (first_available(case, positions) >= known.cut_off)]
    return answers | {position: answer_without_reading(case, position) for position in told.tolist()}


def _without_target(case: Case) -> Answer:
    known = case.bounds
    if known.cut_off is not None and known.source_start == known.cut_off:
        return Answer(0, "END", True, 0, "source partition holds nothing and the target partition does not exist")
    return refused_answer(
        f"target partition {known.target_topic}-{known.partition} does not exist while the source has records"
    )


def plan_reads(case: FullCase, positions: Ints) -> list[tuple[Ints, int]]:
    """Group ascending positions into stretches to read, each with the index of its upper anchor.

    The upper anchor is the first pair above which no later stretch is long enough to hide a restart from below the
    position, judged by the pairs alone; stretches that overlap on the source become one.
    """
    pairs, known = case.pairs, case.bounds
    hiding = longest_undetected_restart(pairs, known, case.limits.reach)
    upstream = np.append(pairs.upstream, known.cut_off)
    tops = upper_anchor(pairs, known, hiding, pair_below(pairs, positions) + 1, proven=0)
    near = case.limits.near * (1 if known.complete else NEAR_WHEN_INCOMPLETE)
    tops[(known.cut_off - positions <= near) | (not known.drained)] = len(pairs)
    starts = np.flatnonzero(np.append(True, positions[1:] > np.maximum.accumulate(upstream[tops])[:-1]))
    ends = np.append(starts[1:], len(positions))
    return [(positions[start:end], int(tops[end - 1])) for start, end in zip(starts, ends)]


def within_limit(case: FullCase, planned: list[tuple[Ints, int]]) -> list[tuple[Ints, int]]:
    """Keep the cheapest stretches within the read limit; of a too long one the positions nearest its top."""
    upstream = np.append(case.pairs.upstream, case.bounds.cut_off)
    left, kept = case.left["source"], []
    for positions, top in sorted(planned, key=lambda one: int(upstream[one[1]] - one[0][0])):
        affordable = positions[upstream[top] - positions < left]
        if len(affordable):
            left -= int(upstream[top] - affordable[0]) + 1
            kept.append((affordable, top))
    return kept


def plan_searches(case: Case, positions: Ints) -> list[tuple[Ints, Search]]:
    """Return the searches that answer ascending positions, each with the positions it answers."""
    if not len(positions) or not target_known(case):
        return []
    if both_known(case) and case.segment.copied_back:
        return [(positions, to_originals(case, positions))]
    if not (both_known(case) and case.limits.source_readable):
        sampled = len(case.floors) or case.segment.closed
        return [(positions, from_floors(case, positions) if sampled else without_source(case, positions))]
    planned = within_limit(case, plan_reads(case, positions))
    inside = np.concatenate([group for group, _ in planned]) if planned else positions[:0]
    rest = np.setdiff1d(positions, inside)
    found = [(group, _by_content(case, group, top)) for group, top in planned]
    return found + ([(rest, _from_pairs(case, rest))] if len(rest) else [])


def _by_content(case: FullCase, positions: Ints, top: int) -> Search:
    """Settle positions by content; what reading leaves open goes to the last copy, or to the nearest pair."""
    stretch = Stretch(case, positions, top)
    answers = yield from stretch.settle()
    open_rows = [row for row, answer in enumerate(answers) if answer is None]
    if not open_rows:
        return answers
    if stretch.settled:
        instead = [(yield from after_last_copy(case))] * len(open_rows)
    else:
        instead = yield from _from_pairs(case, positions[open_rows])
    for row, answer in zip(open_rows, instead):
        answers[row] = answer
    return answers


def _from_pairs(case: TargetCase, positions: Ints) -> Search:
    """Answer from pairs; in a closed segment, whose last run may have died early, only from first copies."""
    if not case.segment.closed:
        return (yield from nearest_pairs(case, positions))
    below = np.unique(pair_below(case.pairs, positions))
    pairs = yield from proven_pairs(case, below[below >= 0])
    return (yield from from_floors(replace(case, pairs=pairs), positions))


def first_available(case: Case, positions: Ints) -> Ints:
    """Return the positions raised to the source's log start."""
    start = case.bounds.source_start
    return positions if start is None else np.maximum(positions, start)


def note_raised(case: Case, position: int, answer: Answer) -> Answer:
    """Say in an answer that its position lay below the source's log start."""
    start = case.bounds.source_start
    if start is None or position >= start:
        return answer
    return noted_answer(answer, f"position raised to the source's log start {start}")
