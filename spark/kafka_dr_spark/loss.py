"""What a lost source takes with it, by what a recorder saw of it and by the target's log. Why: decisions/0008.

Invariants:

1. No acknowledged record below `from_offset` is missing on the target.
2. No record in [from_offset, certain_to) is on the target. `certain_to` is None where that cannot be shown of any.
3. Records after the last sample have no bound: `possible_to` is the source's own end, None where nobody knows it.

MirrorMaker 2 mirrors a partition in order, and begins anew behind what Connect kept: of what it had not mirrored before, it mirrors
always the next record. So what is on the target is everything up to one source offset, whatever was repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_dr_spark.answers import SOURCE, TARGET, Case, Search
from kafka_dr_spark.floors import first_offset
from kafka_dr_spark.matching import Records, content_codes, join


@dataclass(frozen=True)
class LastSeen:
    """What the recorder saw of a partition last, and where it read the source whole.

    Attributes:
        source_end: the source's log end at the last sample; None for a partition that was never sampled.
        replicated: the last replicated offset that Connect kept then, or keeps now; None where it kept none. A task that begins anew goes on behind it.
        without_gaps: [start, end) of source offsets that all held a record, in order.
    """

    source_end: int | None
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
        seen: None for a partition of which nothing is known.
    """
    if case.bounds.drained and case.bounds.cut_off is not None:
        return Loss(case.bounds.cut_off, None, case.bounds.cut_off, "everything below the cut-off was proven to be on the target")
    highest = int(np.max(case.pairs.upstream, initial=-1))
    stored = -1 if seen is None or seen.replicated is None else seen.replicated
    least = Loss(max(highest, stored) + 1, None, case.bounds.cut_off, "up to what MirrorMaker 2 said that it replicated")
    if seen is None or seen.source_end is None or not len(case.pairs):
        return least
    follow = yield from _new_records_after_last_pair(case)
    return least if follow is None else _counted(case, seen, follow, least)


def _new_records_after_last_pair(case: Case) -> Search:
    """Return how many records follow the last pair on the target, if it and each of them was mirrored for the first time; else None.

    What the target took since a sample are copies of records above what Connect kept then. All copies of these are read here.
    """
    last = int(case.pairs.downstream[-1])
    start = first_offset(case, case.floors.kept_when_target_ended_by(last) + 1)
    if start is None or start > last or not case.may_read(TARGET, case.bounds.boundary - start):
        return None
    (tail,) = yield from case.fetch(case.window(TARGET, start, case.bounds.boundary))
    if tail is None or not tail.size():
        return None
    first = np.unique(content_codes(tail), return_index=True)[1]
    since = int(np.sum(tail.offsets >= last))
    return since - 1 if int(np.sum(tail.offsets[first] >= last)) == since else None


def _counted(case: Case, seen: LastSeen, follow: int, least: Loss) -> Loss:
    """The next ``follow`` source records above the last pair are on the target, and none above those."""
    upstream = int(case.pairs.upstream[-1])
    begin = upstream + follow + 1
    known_to_the_record = follow == 0 or seen.gap_free_up_to(upstream + 1) >= begin
    certain = seen.source_end if known_to_the_record and least.from_offset <= begin < seen.source_end else None
    return Loss(max(begin, least.from_offset), certain, case.bounds.cut_off, f"{follow} records follow {case.pairs.name(-1)} on the target")


def loss_with_source(case: Case, stored: int | None) -> Search:
    """Tell what a partition loses where its source can be read: what the target holds is found again on it by content.

    Args:
        case: as for `loss_of`; `cut_off` is the source's end, and pairs by content do not belong among its pairs.
        stored: the last replicated offset that Connect keeps, None where it keeps none.
    """
    first = max(int(np.max(case.pairs.upstream, initial=-1)), -1 if stored is None else stored, (case.bounds.source_start or 0) - 1) + 1
    least = Loss(first, None, case.bounds.cut_off, "up to what MirrorMaker 2 said that it replicated")
    start, lowest = _where_copies_begin(case, first)
    if start is None or not case.may_read(TARGET, case.bounds.boundary - start):
        return least
    (there,) = yield from case.fetch(case.window(TARGET, start, case.bounds.boundary))
    if there is None or not there.size():
        return Loss(first, case.bounds.cut_off, case.bounds.cut_off, "nothing on the target that could come from above")
    here = yield from _enough_of_the_source(case, lowest, first, there.size())
    return least if here is None else _found_again(case, here, there, first)


def _where_copies_begin(case: Case, first: int) -> tuple[int | None, int]:
    """Return from where the target holds every copy of the records from ``first`` on, and the lowest source record that can have a copy there.

    None where the source has lost records that can: what it still holds could then not be told from them.
    """
    start, known, index = first_offset(case, first), case.bounds, case.floors.index_below(first)
    lowest = int(case.floors.replicated[index]) + 1 if index >= 0 else 0
    return (start if lowest >= (known.source_start or 0) else None), lowest


def _enough_of_the_source(case: Case, lowest: int, first: int, count: int) -> Search:
    """Return the source's records from ``lowest`` on, as many from ``first`` on as there may have been mirrored; None if they are too many to read."""
    parts, start, end = [], lowest, min(case.bounds.cut_off, first + count)
    while start < case.bounds.cut_off and sum(part.between(first, end).size() for part in parts) <= count:
        if not case.may_read(SOURCE, end - start):
            return None
        parts += [part for part in (yield from case.fetch(case.window(SOURCE, start, end))) if part]
        # Not every offset holds a record: what is left to find is looked for in twice as many.
        start, end = end, min(case.bounds.cut_off, end + 2 * (end - first) + 1)
    return join(parts)


def _found_again(case: Case, here: Records, there: Records, first: int) -> Loss:
    """What is on the target for certain, by contents that only records from ``first`` on have, and what can be there at most, in their order."""
    codes = content_codes(join([here, there]))
    ours, theirs = codes[: here.size()], codes[here.size() :]
    new, offsets = ours[here.offsets >= first], here.offsets[here.offsets >= first]
    distinct, places = np.unique(new, return_index=True)
    certain = np.isin(distinct, theirs) & ~np.isin(distinct, ours[here.offsets < first])
    least, most = int(np.max(places[certain] + 1, initial=0)), _mirrored_at_most(new.tolist(), theirs.tolist())
    begin = int(offsets[least - 1]) + 1 if least else first
    told = f"{least} records above what MirrorMaker 2 said were found on the target" + ("" if least == most else f"; {most - least} more may be there")
    return Loss(begin, case.bounds.cut_off if least == most else None, case.bounds.cut_off, told)


def _mirrored_at_most(new: list[int], theirs: list[int]) -> int:
    """Return how many of the source's next records can have been mirrored, since each was mirrored after the one before."""
    reached = 0
    for content in theirs:
        reached += reached < len(new) and new[reached] == content
    return reached
