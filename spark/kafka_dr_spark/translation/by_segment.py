"""Translate each position within the segment that it lies in, once the replication direction has changed.

Why: decisions/0013. The positions of each segment are translated as a case (`Case`) of their own, with log starts, log
ends and pairs of this segment.

Invariants:

1. A position on the joint of two segments (where one ends and the next begins) belongs to the older segment, so that a
   group is placed before the records stranded on the target at this joint.
2. A position between two segments lies among records stranded on the source. It gets the answer of the older segment's
   end, because none of these records is on the target.
3. For a record below the oldest segment neither the log to which it was first written nor the offset of a copy is
   recorded.
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

#: Offset syncs of one flow, as columns: offset on the flow's source, offset on its target, order of writing.
Syncs = tuple[Ints, Ints, Ints]


def in_order(key: tuple[str, int], numbered: dict[int, Segment]) -> tuple[Segment, ...]:
    """Return a partition's segments, oldest first.

    Args:
        key: topic and number of the partition.
        numbered: the segments by their numbers.

    Raises:
        ContractBroken: a number is missing, a segment begins below the end of the segment before, or the last segment
            has an end or was copied back.
    """
    segments = tuple(numbered[number] for number in sorted(numbered))
    if sorted(numbered) != list(range(len(segments))) or segments[-1].closed or segments[-1].copied_back:
        raise ContractBroken(
            f"segments: the segments of {key[0]}-{key[1]} must be numbered from 0 without gaps, and the last segment"
            " must have no end and be copied from the source"
        )
    ends = (0, 0)
    for number, segment in enumerate(segments):
        newest = segment is segments[-1]
        end, target_end = (
            (segment.source_from, segment.target_from) if newest else (segment.source_to, segment.target_to)
        )
        if (
            end is None
            or target_end is None
            or not ends[0] <= segment.source_from <= end
            or not ends[1] <= segment.target_from <= target_end
            or (newest and segment.target_to is not None)
        ):
            raise ContractBroken(
                f"segments: segment {number} of {key[0]}-{key[1]} must begin at or above the end of the segment before"
                f" it and end at or above its begin, and only the last segment can have no end: {segment}"
            )
        ends = end, target_end
    return segments


def bounds_within(bounds: TargetBounds, segment: Segment) -> TargetBounds:
    """Return the log bounds of one segment: the whole logs' bounds, narrowed to the segment on both clusters.

    In a segment that has an end, ``complete`` is True, because every record has a copy. ``drained`` is False, because
    MirrorMaker 2's last run may have ended before it reached the segment's end.
    """
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
    """Return the samples taken within a segment; none for a closed segment, which is translated without samples."""
    inside = (
        (floors.source_end >= segment.source_from) & (floors.target_end >= segment.target_from) & (not segment.closed)
    )
    columns = (floors.source_end, floors.target_end, floors.replicated, floors.sampled_at)
    ends, targets, replicated, times = (column[inside] if len(column) else column for column in columns)
    return Floors(ends, targets, replicated, times, floors.fell)


def pairs_back(upstream: Ints, downstream: Ints, sequence: Ints, bounds: TargetBounds) -> Pairs:
    """Return pairs (source offset of a copy, target offset of its original) of a segment that was copied back.

    The pairs are made from the offset syncs of the flow from target to source: ``upstream`` is an offset on the target,
    ``downstream`` an offset on the source.
    """
    reversed_bounds = replace(
        bounds,
        source_start=bounds.target_start,
        cut_off=bounds.boundary,
        target_start=bounds.source_start,
        boundary=bounds.cut_off,
    )
    reversed_pairs = usable_pairs(upstream, downstream, sequence, reversed_bounds)
    return Pairs(reversed_pairs.downstream, reversed_pairs.upstream, reversed_pairs.discarded)


@dataclass(frozen=True)
class Partition:
    """A partition to translate.

    Attributes:
        whole: the case of both logs in full.
        parts: one case per segment, oldest first; empty if ``whole`` is the only case.
    """

    whole: Case
    parts: tuple[TargetCase, ...] = ()

    def cases(self, positions: Ints) -> list[tuple[Case, Ints]]:
        """Return each case with its positions to translate, distinct and lowered to the end of the case's segment."""
        if not self.parts:
            return [(self.whole, positions)]
        numbers, clamped = self._places(positions)
        consistent = self._contradiction() is None
        return [(case, np.unique(clamped[(numbers == number) & consistent])) for number, case in enumerate(self.parts)]

    def answers(self, positions: Ints, found: list[dict[int, Answer | None]]) -> dict[int, Answer | None]:
        """Return the answer by source position; None if the group's policy must decide.

        Args:
            positions: source positions.
            found: per case, in the order in which `cases` returns the cases, its answers by position.
        """
        whole = self.whole
        if not self.parts or not target_known(whole):
            return found[0]
        contradiction = self._contradiction()
        answers: dict[int, Answer | None] = {}
        for position, number, clamped in zip(
            positions.tolist(), *(column.tolist() for column in self._places(positions))
        ):
            early = answer_without_reading(whole, position)
            if early is not None and early.class_ == "REFUSED":
                answers[position] = early
            elif contradiction:
                answers[position] = refused_answer(contradiction)
            else:
                answer = (
                    self._below_all(whole.bounds)
                    if number < 0
                    else self._answer(whole.bounds, number, position, found[number][clamped])
                )
                answers[position] = note_raised(whole, position, answer)
        return answers

    def report(self) -> dict[str, Any]:
        """Return the partition's figures for summary.json.

        The figures are: records read by cluster, source records missing on the target, source records whose copies
        retention has deleted, offset syncs discarded, and repeats.
        """
        cases = self.parts or (self.whole,)
        read = {side: sum(case.read[side] for case in cases) for side in self.whole.read}
        listed = {
            name: [finding for case in cases for finding in getattr(case, name)][:100] for name in ("holes", "cut")
        }
        repeats = sum(
            repeats_known(case.pairs, case.bounds)
            for case in cases
            if target_known(case) and not case.segment.copied_back
        )
        return {"read": read, **listed, "discarded": max(case.pairs.discarded for case in cases), "repeats": repeats}

    def _places(self, positions: Ints) -> tuple[Ints, Ints]:
        """Return per position its segment's number, and the position lowered to that segment's end.

        The number is -1 for a position below the oldest segment. A position below the source's log start is first
        raised to this log start.
        """
        segments = [case.segment for case in self.parts]
        gaps = [True, *(segment.source_from != before.source_to for before, segment in itertools.pairwise(segments))]
        begins = np.array([segment.source_from + (not gap) for segment, gap in zip(segments, gaps)], np.int64)
        numbers = np.searchsorted(begins, positions, side="right") - 1
        ends = np.array(
            [np.iinfo(np.int64).max if segment.source_to is None else segment.source_to for segment in segments],
            np.int64,
        )
        return numbers, np.minimum(first_available(self.whole, positions), ends[numbers])

    def _contradiction(self) -> str | None:
        """Return why the newest segment cannot belong to the present logs; None if no offset contradicts the logs."""
        bounds, newest = self.whole.bounds, self.parts[-1].segment
        for side, begin, end in (
            ("source", newest.source_from, bounds.cut_off),
            ("target", newest.target_from, bounds.boundary),
        ):
            if end is not None and begin > end:
                return (
                    f"the newest segment begins at {side} offset {begin}, beyond that log's end {end}, because the"
                    " segments were recorded of other logs"
                )
        return None

    def _below_all(self, bounds: TargetBounds) -> Answer:
        first = self.parts[0].segment
        size = bounds.boundary - bounds.target_start
        note = f"no record below source offset {first.source_from} is proven to be on the target"
        return Answer(
            bounds.target_start,
            "NEAREST",
            size == 0,
            size,
            f"nearest: the target's log start {bounds.target_start}",
            note,
        )

    def _answer(self, whole: TargetBounds, number: int, position: int, case_answer: Answer | None) -> Answer:
        """Return the answer for a position in segment ``number``; ``case_answer`` is the answer of the segment's case.

        If ``case_answer`` is None, the answer is the segment's begin on the target. The target position is never below
        the target's log start.
        """
        bounds, end = self.parts[number].bounds, self.parts[number].segment.source_to
        size = bounds.boundary - bounds.target_start
        begin = f"nearest: target offset {bounds.target_start}, where the segment of the position begins"
        answer = case_answer or Answer(bounds.target_start, "NEAREST", size == 0, size, begin)
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
    """Return a partition with a case for each segment, or with one case if one segment covers both logs.

    Args:
        whole: the case of both logs.
        segments: the partition's segments, oldest first.
        syncs: offset syncs of the flow from source to target.
        syncs_back: offset syncs of the flow from target to source.
    """
    if segments in ((), (WHOLE,)) or not target_known(whole) or whole.bounds.recreated:
        return Partition(whole)
    parts = []
    for segment in segments:
        bounds = bounds_within(whole.bounds, segment)
        pairs = pairs_back(*syncs_back, bounds) if segment.copied_back else usable_pairs(*syncs, bounds)
        parts.append(TargetCase(bounds, pairs, whole.limits, floors_within(whole.floors, segment), segment))
    return Partition(whole, tuple(parts))
