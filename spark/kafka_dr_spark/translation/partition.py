"""Translate one partition's positions: answer without reading where possible, plan reads, combine the answers.

No function of this module reads Kafka: each search yields the windows (offset ranges) that it needs and is sent their
records. An *upper anchor* is where a range to read ends: a pair (offset sync) or both logs' ends; `by_content` states
what is proven of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.pairs import pair_below
from kafka_dr_spark.logs.restarts import longest_undetected_restart, upper_anchor
from kafka_dr_spark.translation.by_content import LogRange, proven_pairs
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

# Positions within `near` offsets of the cut-off are matched from the logs' ends downwards, not from a pair; this factor
# widens `near` if records may be missing on the target near the log's end (`complete` is False).
NEAR_WHEN_INCOMPLETE = 50


def answer_without_reading(case: Case, position: int) -> Answer | None:
    """Return the answer for a source position from log starts and ends alone; None if more must be read."""
    bounds = case.bounds
    if bounds.recreated:
        return refused_answer("the source topic was recreated: its offset syncs belong to the deleted log")
    if position < 0:
        return refused_answer(f"position {position} is not an offset")
    if bounds.cut_off is not None and position > bounds.cut_off:
        return refused_answer(f"position {position} is beyond the source's log end {bounds.cut_off}")
    if not bounds.target_exists:
        return _without_target(case)
    at_the_end = bounds.cut_off is not None and max(position, bounds.source_start or 0) == bounds.cut_off
    if at_the_end and case.ends_match:
        return Answer(bounds.boundary, "END", True, 0, "at the cut-off, drained")
    return None


def answers_without_reading(case: Case, positions: Ints) -> dict[int, Answer | None]:
    """Return by source position the answer from log starts and ends alone; None if more must be read."""
    bounds, answers = case.bounds, dict.fromkeys(positions.tolist())
    outside = positions
    if bounds.target_exists and not bounds.recreated and bounds.cut_off is not None:
        # For a position inside the log, bounds alone give no answer; such positions may be very many.
        outside = positions[(positions < 0) | (first_available(case, positions) >= bounds.cut_off)]
    return answers | {position: answer_without_reading(case, position) for position in outside.tolist()}


def _without_target(case: Case) -> Answer:
    bounds = case.bounds
    if bounds.cut_off is not None and bounds.source_start == bounds.cut_off:
        return Answer(0, "END", True, 0, "the source partition is empty, and the target partition does not exist")
    return refused_answer(
        f"target partition {bounds.target_topic}-{bounds.partition} does not exist while the source has records"
    )


def plan_reads(case: FullCase, positions: Ints) -> list[tuple[Ints, int]]:
    """Return the positions (ascending) grouped by the range to read, each group with the index of its upper anchor.

    The upper anchor is the first pair after which, judged by the pairs alone, no range between pairs is long enough to
    hide a restart of MirrorMaker 2 from before the position; one past the last pair means both logs' ends. Ranges that
    overlap on the source are merged.
    """
    pairs, bounds = case.pairs, case.bounds
    hiding = longest_undetected_restart(pairs, bounds, case.limits.reach)
    upstream = np.append(pairs.upstream, bounds.cut_off)
    tops = upper_anchor(pairs, bounds, hiding, pair_below(pairs, positions) + 1, proven=0)
    near = case.limits.near * (1 if bounds.complete else NEAR_WHEN_INCOMPLETE)
    tops[(bounds.cut_off - positions <= near) | (not bounds.drained)] = len(pairs)
    starts = np.flatnonzero(np.append(True, positions[1:] > np.maximum.accumulate(upstream[tops])[:-1]))
    ends = np.append(starts[1:], len(positions))
    return [(positions[start:end], int(tops[end - 1])) for start, end in zip(starts, ends)]


def within_limit(case: FullCase, planned: list[tuple[Ints, int]]) -> list[tuple[Ints, int]]:
    """Return those groups of positions whose source ranges the read limit allows, shortest range first.

    Of a group whose range is too long, the positions nearest to its upper anchor are returned. ``planned`` and the
    result pair each group with the index of its upper anchor.
    """
    upstream = np.append(case.pairs.upstream, case.bounds.cut_off)
    budget, chosen = case.left["source"], []
    for positions, top in sorted(planned, key=lambda candidate: int(upstream[candidate[1]] - candidate[0][0])):
        affordable = positions[upstream[top] - positions < budget]
        if len(affordable):
            budget -= int(upstream[top] - affordable[0]) + 1
            chosen.append((affordable, top))
    return chosen


def plan_searches(case: Case, positions: Ints) -> list[tuple[Ints, Search]]:
    """Return the searches that answer the source positions (ascending), each with the positions that it answers.

    [] if the target partition does not exist.
    """
    if not len(positions) or not target_known(case):
        return []
    if both_known(case) and case.segment.copied_back:
        return [(positions, to_originals(case, positions))]
    if not (both_known(case) and case.limits.source_readable):
        sampled = len(case.floors) or case.segment.closed
        search = from_floors(case, positions) if sampled else without_source(case, positions)
        return [(positions, _never_exact(search) if case.floors.fell or case.limits.samples_missing else search)]
    planned = within_limit(case, plan_reads(case, positions))
    planned_positions = np.concatenate([group for group, _ in planned]) if planned else positions[:0]
    rest = np.setdiff1d(positions, planned_positions)
    searches = [(group, _by_content(case, group, top)) for group, top in planned]
    return searches + ([(rest, _from_pairs(case, rest))] if len(rest) else [])


def _never_exact(search: Search) -> Search:
    """Return the answers of a search that relies on samples; none is exact, because the samples may be wrong or old."""
    answers = yield from search
    return [answer and answer._replace(exact=False) for answer in answers]


def _by_content(case: FullCase, positions: Ints, top: int) -> Search:
    """Return one answer per source position, by content.

    A position that content does not answer is answered by pairs, or, if no source record follows the position, by the
    last copy of the source's newest record.
    """
    stretch = LogRange(case, positions, top)
    answers = yield from stretch.settle()
    open_rows = [row for row, answer in enumerate(answers) if answer is None]
    if not open_rows:
        return answers
    if stretch.settled:
        fallback_answers = [(yield from after_last_copy(case))] * len(open_rows)
    else:
        fallback_answers = yield from _from_pairs(case, positions[open_rows])
    for row, answer in zip(open_rows, fallback_answers):
        answers[row] = answer
    return answers


def _from_pairs(case: TargetCase, positions: Ints) -> Search:
    """Return one answer per source position, from pairs.

    In a segment that has an end, the first copies of the pairs' records give the answers, because MirrorMaker 2's last
    run may have ended before the segment's end.
    """
    if not case.segment.closed:
        return (yield from nearest_pairs(case, positions))
    below = np.unique(pair_below(case.pairs, positions))
    pairs = yield from proven_pairs(case, below[below >= 0])
    return (yield from from_floors(replace(case, pairs=pairs), positions))


def first_available(case: Case, positions: Ints) -> Ints:
    """Return the positions; each position below the source's log start is replaced by the log start."""
    start = case.bounds.source_start
    return positions if start is None else np.maximum(positions, start)


def note_raised(case: Case, position: int, answer: Answer) -> Answer:
    """Return the answer, with a note in `clamped` if ``position`` is below the source's log start."""
    start = case.bounds.source_start
    if start is None or position >= start:
        return answer
    return noted_answer(answer, f"position raised to the source's log start {start}")
