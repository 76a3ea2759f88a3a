"""Logs that grew by turns: the segment that a position lies in, and a case for each. Why: decisions/0013.

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

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.logs.bounds import TargetBounds
from kafka_dr_spark.logs.pairs import WHOLE, Pairs, usable_pairs
from kafka_dr_spark.logs.restarts import repeats_known
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.translation.case import Answer, Case, TargetCase, noted_answer, refused_answer, target_known
from kafka_dr_spark.translation.partition import answer_without_reading, first_available, note_raised

#: Source offsets, target offsets and sequence of offset syncs.
Syncs = tuple[Ints, Ints, Ints]


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
        newest = one is segments[-1]
        end, target_end = (one.source_from, one.target_from) if newest else (one.source_to, one.target_to)
        if (
            end is None
            or target_end is None
            or not at[0] <= one.source_from <= end
            or not at[1] <= one.target_from <= target_end
            or (newest and one.target_to is not None)
        ):
            raise ContractBroken(
                f"segments: number {number} of {key[0]}-{key[1]} does not follow what comes before it: {one}"
            )
        at = end, target_end
    return segments


def bounds_within(bounds: TargetBounds, segment: Segment) -> TargetBounds:
    """Return a segment's own bounds. Its last run may have died early, but the other log lacks nothing of it."""
    start, target_start = (
        max(segment.source_from, bounds.source_start or 0),
        max(segment.target_from, bounds.target_start),
    )
    if segment.source_to is None or segment.target_to is None:
        return replace(bounds, source_start=start, target_start=target_start)
    return replace(
        bounds,
        source_start=min(start, segment.source_to),
        target_start=min(target_start, segment.target_to),
        cut_off=segment.source_to,
        boundary=segment.target_to,
        drained=False,
        complete=True,
        other_writer=False,
    )


def floors_within(floors: Floors, segment: Segment) -> Floors:
    """Return a segment's samples; none for a closed segment, since the direction has turned since."""
    inside = (
        (floors.source_end >= segment.source_from) & (floors.target_end >= segment.target_from) & (not segment.closed)
    )
    columns = (floors.source_end, floors.target_end, floors.replicated, floors.sampled_at)
    ends, targets, kept, at = (column[inside] if len(column) else column for column in columns)
    return Floors(ends, targets, kept, at, floors.fell)


def pairs_back(upstream: Ints, downstream: Ints, sequence: Ints, bounds: TargetBounds) -> Pairs:
    """Return pairs (copy, original) of a segment whose source is the copy, from the reverse flow's syncs."""
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
    parts: tuple[TargetCase, ...] = ()

    def cases(self, positions: Ints) -> list[tuple[Case, Ints]]:
        """Return what is to be translated: each case with its distinct positions."""
        if not self.parts:
            return [(self.whole, positions)]
        numbers, inside = self._places(positions)
        wanted = self._contradiction() is None
        return [(case, np.unique(inside[(numbers == number) & wanted])) for number, case in enumerate(self.parts)]

    def answers(self, positions: Ints, found: list[dict[int, Answer | None]]) -> dict[int, Answer | None]:
        """Return the answer of each position, from those of the cases."""
        whole = self.whole
        if not self.parts or not target_known(whole):
            return found[0]
        contradiction = self._contradiction()
        told: dict[int, Answer | None] = {}
        for position, number, inside in zip(
            positions.tolist(), *(column.tolist() for column in self._places(positions))
        ):
            early = answer_without_reading(whole, position)
            if early is not None and early.class_ == "REFUSED":
                told[position] = early
            elif contradiction:
                told[position] = refused_answer(contradiction)
            else:
                answer = (
                    self._below_all(whole.bounds)
                    if number < 0
                    else self._answer(whole.bounds, number, position, found[number][inside])
                )
                told[position] = note_raised(whole, position, answer)
        return told

    def report(self) -> dict[str, Any]:
        """Return what was read and found on the way."""
        cases = self.parts or (self.whole,)
        read = {side: sum(case.read[side] for case in cases) for side in self.whole.read}
        listed = {name: [one for case in cases for one in getattr(case, name)][:100] for name in ("holes", "cut")}
        repeats = sum(
            repeats_known(case.pairs, case.bounds)
            for case in cases
            if target_known(case) and not case.segment.copied_back
        )
        return {"read": read, **listed, "discarded": max(case.pairs.discarded for case in cases), "repeats": repeats}

    def _places(self, positions: Ints) -> tuple[Ints, Ints]:
        """Return for each position its segment's number (-1 below the first) and its place in the segment."""
        segments = [case.segment for case in self.parts]
        gaps = [True, *(one.source_from != before.source_to for before, one in itertools.pairwise(segments))]
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

    def _below_all(self, known: TargetBounds) -> Answer:
        first = self.parts[0].segment
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

    def _answer(self, whole: TargetBounds, number: int, position: int, found: Answer | None) -> Answer:
        """Return the segment's answer, by default the segment's start; never below the target's log start."""
        known, end = self.parts[number].bounds, self.parts[number].segment.source_to
        size = known.boundary - known.target_start
        begin = f"nearest: target offset {known.target_start}, where the segment of the position begins"
        answer = found or Answer(known.target_start, "NEAREST", size == 0, size, begin)
        if answer.target_position is not None and answer.target_position < whole.target_start:
            answer = noted_answer(
                answer._replace(target_position=whole.target_start),
                f"raised to the target's log start {whole.target_start}",
            )
        if end is not None and position > end:
            until = self.parts[number + 1].segment.source_from
            answer = noted_answer(
                answer,
                f"the records from source offset {end} to {until} stayed on the source: none of them is on the target",
            )
        return answer


def partition_of(whole: Case, segments: tuple[Segment, ...], syncs: Syncs, syncs_back: Syncs) -> Partition:
    """Return a partition with a case for each of its segments; one that reaches over both logs is none.

    Args:
        whole: the case of both logs.
        syncs: the flow's own syncs.
        syncs_back: those of the other flow, whose source is the target.
    """
    if segments in ((), (WHOLE,)) or not target_known(whole) or whole.bounds.recreated:
        return Partition(whole)
    parts = []
    for segment in segments:
        bounds = bounds_within(whole.bounds, segment)
        pairs = pairs_back(*syncs_back, bounds) if segment.copied_back else usable_pairs(*syncs, bounds)
        parts.append(TargetCase(bounds, pairs, whole.limits, floors_within(whole.floors, segment), segment))
    return Partition(whole, tuple(parts))
