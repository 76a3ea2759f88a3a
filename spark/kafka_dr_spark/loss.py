"""What a lost source takes with it, by what a recorder saw of it and by the target's log. Why: decisions/0008.

Invariants:

1. No acknowledged record below `from_offset` is missing on the target.
2. No record in [from_offset, certain_to) is on the target. `certain_to` is None where that cannot be shown of any.
3. Records after the last sample have no bound: `possible_to` is the source's own end, None where nobody knows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_dr_spark.answers import TARGET, Case, Search
from kafka_dr_spark.floors import first_offset
from kafka_dr_spark.matching import content_codes, occurrence_from_end


@dataclass(frozen=True)
class LastSeen:
    """What the recorder saw of a partition last, and where it read the source whole.

    Attributes:
        source_end: the source's log end at the last sample.
        replicated: the last replicated offset that Connect kept then; None where it kept none. A task that begins anew goes on behind it.
        without_gaps: [start, end) of source offsets that all held a record, in order.
    """

    source_end: int
    replicated: int | None
    without_gaps: tuple[tuple[int, int], ...] = ()

    def gap_free_up_to(self, offset: int) -> int:
        """Return the end of the stretch without gaps that begins at an offset; the offset itself where none does."""
        for start, end in self.without_gaps:
            offset = end if start <= offset < end else offset
        return offset


@dataclass(frozen=True)
class Loss:
    """What one partition loses, in source offsets; `to` exclusive."""

    from_offset: int
    certain_to: int | None
    possible_to: int | None
    evidence: str


def loss_of(case: Case, seen: LastSeen | None) -> Search:
    """Tell what a partition loses.

    Args:
        case: with floors, MirrorMaker 2's own pairs (which state an origin; pairs by content do not), and bounds (`cut_off` None where nobody knows the source's end).
        seen: None for a partition that was never sampled.
    """
    highest = int(np.max(case.pairs.upstream, initial=-1))
    stored = -1 if seen is None or seen.replicated is None else seen.replicated
    least = Loss(max(highest, stored) + 1, None, case.bounds.cut_off, "up to what MirrorMaker 2 said that it replicated")
    if seen is None or not len(case.pairs):
        return least
    follow = yield from _new_records_after_last_pair(case, stored + 1)
    return least if follow is None else _counted(case, seen, follow, least)


def _new_records_after_last_pair(case: Case, lowest_repeat: int) -> Search:
    """Return how many records follow the last pair on the target, if none of them was there before; else None.

    A task that began anew since the last sample began at ``lowest_repeat`` or above it: the first copy of what it repeated lies
    above the floor of that offset, and is read here.
    """
    start, last = first_offset(case, min(lowest_repeat, int(case.pairs.upstream[-1]))), int(case.pairs.downstream[-1])
    if start is None or start > last or not case.may_read(TARGET, case.bounds.boundary - start):
        return None
    (tail,) = yield from case.fetch(case.window(TARGET, start, case.bounds.boundary))
    if tail is None or not tail.size() or np.any(occurrence_from_end(content_codes(tail)) > 0):
        return None
    return int(np.sum(tail.offsets > last))


def _counted(case: Case, seen: LastSeen, follow: int, least: Loss) -> Loss:
    """The next ``follow`` source records above the last pair are on the target, and none above those."""
    upstream = int(case.pairs.upstream[-1])
    begin = upstream + follow + 1
    known_to_the_record = follow == 0 or seen.gap_free_up_to(upstream + 1) >= begin
    certain = seen.source_end if known_to_the_record and least.from_offset <= begin < seen.source_end else None
    return Loss(max(begin, least.from_offset), certain, case.bounds.cut_off, f"{follow} records follow {case.pairs.name(-1)} on the target")
