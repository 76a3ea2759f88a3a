"""Partitions whose logs grew by turns: which segment a position lies in, and a case for each. Why this is right:
decisions/0013.

Invariants:

1. A position on a joint belongs to the older segment, so that a group stands before what was stranded on the target
   there.
2. Among records that are stranded on the source a position stands at the end of the older segment: none of them is on
   the target.
3. Below the first segment nothing is known of either log.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafka_dr_spark.anchors import WHOLE, Bounds, Floors, Pairs, Segment, repeats_known, usable_pairs
from kafka_dr_spark.answers import Answer, Case, noted, refused
from kafka_dr_spark.schemas import ContractBroken
from kafka_dr_spark.translation import answer_without_reading, first_available, note_raised


def in_order(key: tuple[str, int], numbered: dict[int, Segment]) -> tuple[Segment, ...]:
    """Return a partition's segments, oldest first; ContractBroken where they do not follow each other on both logs."""
    segments = tuple(numbered[number] for number in sorted(numbered))
    if sorted(numbered) != list(range(len(segments))) or segments[-1].closed or segments[-1].copied_back:
        raise ContractBroken(
            f"segments: those of {key[0]}-{key[1]} must be numbered from 0, and the last one must be open and copied"
            " from the source"
        )
    at = (0, 0)
    for number, one in enumerate(segments):
        ends = (one.source_from, one.target_from) if one is segments[-1] else (one.source_to, one.target_to)
        wrong = (
            None in ends
            or one.source_from < at[0]
            or one.target_from < at[1]
            or ends[0] < one.source_from
            or ends[1] < one.target_from
        )
        if wrong or (one is segments[-1] and one.target_to is not None):
            raise ContractBroken(
                f"segments: number {number} of {key[0]}-{key[1]} does not follow what comes before it: {one}"
            )
        at = ends
    return segments


def bounds_within(bounds: Bounds, segment: Segment) -> Bounds:
    """Return a segment's own bounds. A last run may have died early before its end, but nothing of it is missing on
    the other log.
    """
    start, target_start = (
        max(segment.source_from, bounds.source_start or 0),
        max(segment.target_from, bounds.target_start),
    )
    if not segment.closed:
        return replace(bounds, source_start=start, target_start=target_start)
    ends = {"cut_off": segment.source_to, "boundary": segment.target_to}
    starts = {"source_start": min(start, segment.source_to), "target_start": min(target_start, segment.target_to)}
    return replace(bounds, **starts, **ends, drained=False, complete=True, other_writer=False)


def floors_within(floors: Floors, segment: Segment) -> Floors:
    """Return the samples that speak of a segment; those of a closed one are left out, since the direction has turned
    since.
    """
    inside = (
        (floors.source_end >= segment.source_from) & (floors.target_end >= segment.target_from) & (not segment.closed)
    )
    columns = (floors.source_end, floors.target_end, floors.replicated, floors.sampled_at)
    return Floors(*(column[inside] if len(column) else column for column in columns), fell=floors.fell)


def pairs_back(upstream: np.ndarray, downstream: np.ndarray, sequence: np.ndarray, bounds: Bounds) -> Pairs:
    """Return what the other flow's syncs say of a segment whose source is the copy: pairs (copy, original), with
    copies rising.
    """
    turned = replace(
        bounds,
        source_start=bounds.target_start,
        cut_off=bounds.boundary,
        target_start=bounds.source_start,
        boundary=bounds.cut_off,
    )
    found = usable_pairs(upstream, downstream, sequence, turned)
    return Pairs(found.downstream, found.upstream, found.discarded)


@dataclass(frozen=True)
class Partition:
    """A partition to translate.

    Attributes:
        whole: both logs; where they grew one way it is all there is to translate.
        parts: a case for each segment, oldest first.
    """

    whole: Case
    parts: tuple[Case, ...] = ()

    def cases(self, positions: np.ndarray) -> list[tuple[Case, np.ndarray]]:
        """Return what is to be translated: each case with its distinct positions."""
        if not self.parts:
            return [(self.whole, positions)]
        numbers, inside = self._places(positions)
        wanted = self._contradiction() is None
        return [(case, np.unique(inside[(numbers == number) & wanted])) for number, case in enumerate(self.parts)]

    def answers(self, positions: np.ndarray, found: list[dict[int, Answer | None]]) -> dict[int, Answer | None]:
        """Return the answer of each position, from those of the cases."""
        if not self.parts:
            return found[0]
        contradiction, told = self._contradiction(), {}
        for position, number, inside in zip(
            positions.tolist(), *(column.tolist() for column in self._places(positions))
        ):
            early = answer_without_reading(self.whole, position)
            if early is not None and early.class_ == "REFUSED":
                told[position] = early
            elif contradiction:
                told[position] = refused(contradiction)
            else:
                answer = (
                    self._below_all()
                    if number < 0
                    else self._answer(self.parts[number], number, position, found[number][inside])
                )
                told[position] = note_raised(self.whole, position, answer)
        return told

    def report(self) -> dict[str, Any]:
        """Return what was read and found on the way."""
        cases = self.parts or (self.whole,)
        read = {side: sum(case.read[side] for case in cases) for side in self.whole.read}
        listed = {name: [one for case in cases for one in getattr(case, name)][:100] for name in ("holes", "cut")}
        repeats = sum(
            repeats_known(case.pairs, case.bounds)
            for case in cases
            if case.bounds.target_exists and not case.segment.copied_back
        )
        return {"read": read, **listed, "discarded": max(case.pairs.discarded for case in cases), "repeats": repeats}

    def _places(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for each position the number of its segment, -1 below the first one, and where it stands in that
        one.
        """
        segments = [case.segment for case in self.parts]
        gaps = [True, *(one.source_from > before.source_to for before, one in itertools.pairwise(segments))]
        begins = np.array([one.source_from + (not gap) for one, gap in zip(segments, gaps)], np.int64)
        numbers = np.searchsorted(begins, positions, side="right") - 1
        ends = np.array(
            [np.iinfo(np.int64).max if one.source_to is None else one.source_to for one in segments], np.int64
        )
        return numbers, np.minimum(first_available(self.whole, positions), ends[numbers])

    def _contradiction(self) -> str | None:
        """Return how the logs contradict the segments, None where they do not."""
        known, newest = self.whole.bounds, self.parts[-1].segment
        for side, begin, end in (
            ("source", newest.source_from, known.cut_off),
            ("target", newest.target_from, known.boundary),
        ):
            if end is not None and begin > end:
                return (
                    f"the newest segment begins at {side} offset {begin}, beyond that log's end {end}: what is known of"
                    " the logs' turns is not of these"
                )
        return None

    def _below_all(self) -> Answer:
        known, first = self.whole.bounds, self.parts[0].segment
        size = known.boundary - known.target_start
        note = f"nothing is known to be on the target of what lies below source offset {first.source_from}"
        return Answer(
            known.target_start,
            "NEAREST",
            size == 0,
            size,
            f"nearest: the target's log start {known.target_start}",
            note,
        )

    def _answer(self, case: Case, number: int, position: int, found: Answer | None) -> Answer:
        """Return what a segment's case says of a position: from where it begins on, if nothing tells more; never
        below the target's log start.
        """
        known, whole = case.bounds, self.whole.bounds
        size = known.boundary - known.target_start
        begin = f"nearest: target offset {known.target_start}, where the segment of the position begins"
        answer = found or Answer(known.target_start, "NEAREST", size == 0, size, begin)
        if answer.target_position is not None and answer.target_position < whole.target_start:
            answer = noted(
                answer._replace(target_position=whole.target_start),
                f"raised to the target's log start {whole.target_start}",
            )
        if case.segment.closed and position > case.segment.source_to:
            until = self.parts[number + 1].segment.source_from
            answer = noted(
                answer,
                f"the records from source offset {case.segment.source_to} to {until} stayed on the source: none of them"
                " is on the target",
            )
        return answer


def partition_of(
    whole: Case, segments: tuple[Segment, ...], syncs: tuple[np.ndarray, ...], syncs_back: tuple[np.ndarray, ...]
) -> Partition:
    """Return a partition with a case for each of its segments; one that reaches over both logs is none.

    Args:
        whole: the case of both logs.
        syncs: upstream, downstream and sequence of the flow's own syncs.
        syncs_back: those of the other flow, whose source is the target.
    """
    if segments in ((), (WHOLE,)) or not whole.bounds.target_exists or whole.bounds.recreated:
        return Partition(whole)
    parts = []
    for segment in segments:
        bounds = bounds_within(whole.bounds, segment)
        pairs = pairs_back(*syncs_back, bounds) if segment.copied_back else usable_pairs(*syncs, bounds)
        parts.append(Case(bounds, pairs, whole.limits, floors_within(whole.floors, segment), segment))
    return Partition(whole, tuple(parts))
