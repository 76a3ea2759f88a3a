"""What a lost source takes with it, by what a recorder saw of it and by the target's log. Why: decisions/0008.

Invariants:

1. No acknowledged record below `from_offset` is missing on the target.
2. No record in [from_offset, certain_to) is on the target. `certain_to` is None where that cannot be shown of any.
3. Records after the last sample have no bound: `possible_to` is the source's own end, None where nobody knows it.
4. One wrong offset sync changes neither of these: what it says counts only where another statement says so, too. Doubt
   only lowers `from_offset`. However many there are, none counts where they state more than the recorder's own pair
   leaves room for.

MirrorMaker 2 mirrors a partition in order, and begins anew behind what Connect kept: of what it had not mirrored
before, it mirrors always the next record. So what is on the target is everything up to one source offset, whatever was
repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.logs.pairs import Pairs
from kafka_dr_spark.reading.matching import Records, content_codes, join_records
from kafka_dr_spark.translation.case import SOURCE, TARGET, Case, FullCase, Search, both_known, target_known


class Unbroken(NamedTuple):
    """Source offsets [start, end) that all held a record; ``downstream`` is a copy of ``start`` or of one below."""

    start: int
    end: int
    downstream: int


@dataclass(frozen=True)
class PartitionLastSeen:
    """What the recorder saw of a partition last, and where it read the source whole.

    Attributes:
        source_end: the source's log end at the last sample; None for a partition that was never sampled.
        replicated: the last replicated offset that Connect kept then, or keeps now; None where it kept none. A task
            that begins anew goes on behind it.
        without_gaps: where the source had none, in order.
    """

    source_end: int | None
    replicated: int | None
    without_gaps: tuple[Unbroken, ...] = ()

    def gap_free_up_to(self, offset: int) -> int:
        """Return the end of the stretch without gaps that begins at an offset; the offset itself where none does."""
        for start, end, _ in self.without_gaps:
            offset = end if start <= offset < end else offset
        return offset

    def mirrored_below(self, offsets: Ints, new_from: int) -> int | None:
        """Return a source offset that nothing on the target comes from or from above; None where nobody knows one.

        Args:
            offsets: of the target's last records, of which those from ``new_from`` on are first copies: each takes the
                source one record further.
        """
        reached = [
            (one.end, one.start + 1 + int(np.sum(offsets > one.downstream)))
            for one in self.without_gaps
            if one.downstream >= new_from
        ]
        return min((reaches for end, reaches in reached if reaches <= end), default=None)


@dataclass(frozen=True)
class Loss:
    """What one partition loses, in source offsets; `to` exclusive."""

    from_offset: int
    certain_to: int | None
    possible_to: int | None
    evidence: str


def loss_of(case: Case, seen: PartitionLastSeen | None) -> Search:
    """Tell what a partition loses.

    Args:
        case: with floors, MirrorMaker 2's own pairs (which state an origin; pairs by content do not), and bounds
            (`cut_off` None where nobody knows the source's end).
        seen: None for a partition of which nothing is known.
    """
    if case.bounds.drained and case.bounds.cut_off is not None:
        return Loss(
            case.bounds.cut_off,
            None,
            case.bounds.cut_off,
            "everything below the cut-off was proven to be on the target",
        )
    if case.pairs.discarded and not len(case.floors):
        return Loss(
            case.bounds.source_start or 0,
            None,
            case.bounds.cut_off,
            "offset syncs speak of an older log on the target, and nobody recorded what went with it",
        )
    pairs, stored = plausible_pairs(case), -1 if seen is None or seen.replicated is None else seen.replicated
    least = Loss(
        max(highest_confirmed(pairs), stored) + 1,
        None,
        case.bounds.cut_off,
        "up to what MirrorMaker 2 said that it replicated",
    )
    if seen is None or seen.source_end is None or not len(pairs):
        return least
    claims = yield from _claims(case, pairs, seen)
    if claims.contradicted(least.from_offset):
        claims, least = (
            LossClaims([], claims.kept),
            replace(
                least,
                from_offset=stored + 1,
                evidence=f"{least.evidence}; offset syncs state more than the target can hold",
            ),
        )
    return _counted(case, seen, claims, least)


def plausible_pairs(case: Case) -> Pairs:
    """Return pairs that agree with all samples: what is below the target's end is from below the source's end."""
    pairs, floors = case.pairs, case.floors
    if not len(floors):
        return pairs
    after = np.searchsorted(floors.target_end, pairs.downstream, side="right")
    # Behind the last sample: a record, and at most one marker beside it, for each that the target took since.
    since = floors.source_end[-1] + 2 * (pairs.downstream - floors.target_end[-1])
    kept = pairs.upstream < np.where(after < len(floors), np.append(floors.source_end, 0)[after], since + 1)
    return Pairs(pairs.upstream[kept], pairs.downstream[kept], pairs.discarded)


def highest_confirmed(pairs: Pairs) -> int:
    """Return the highest source offset of a pair that the next pair confirms as plausible progress; -1 if none."""
    further, along = np.diff(pairs.upstream), np.diff(pairs.downstream)
    return int(np.max(pairs.upstream[:-1][(further >= 0) & (further <= 2 * along)], initial=-1))


class LossClaim(NamedTuple):
    """The source's next ``records`` records from ``upstream`` on are on the target, if what it rests on is true."""

    upstream: int
    records: int
    evidence: str

    @property
    def end(self) -> int:
        """Below it nothing is missing."""
        return self.upstream + self.records


class LossClaims(NamedTuple):
    """Claims of the last two pairs and of Connect; `below`: offset above all mirrored records, None if unknown."""

    stated: list[LossClaim]
    kept: LossClaim | None = None
    below: int | None = None

    def contradicted(self, confirmed: int) -> bool:
        """Whether pairs, or what they confirm to be mirrored, reach further than that."""
        return self.below is not None and max([confirmed, *(claim.end for claim in self.stated)]) > self.below


def _claims(case: Case, pairs: Pairs, seen: PartitionLastSeen) -> Search:
    """Return the last two pairs' and Connect's earlier claims, as far as they and what follows are first copies.

    What the target took since a sample are copies of records above what Connect kept then. All copies of these are read
    here.
    """
    last = range(max(len(pairs) - 2, 0), len(pairs))
    first = int(pairs.downstream[last[0]])
    sample = case.floors.index_when_target_ended_by(first)
    kept = -1 if sample < 0 else int(case.floors.replicated[sample])
    start = case.first_offset(kept + 1)
    if (
        start is None
        or start > first
        or not target_known(case)
        or not case.may_read(TARGET, case.bounds.boundary - start)
    ):
        return LossClaims([])
    (tail,) = yield from case.fetch(case.window(TARGET, start, case.bounds.boundary))
    if tail is None or not tail.size():
        return LossClaims([])
    again = np.delete(tail.offsets, np.unique(content_codes(tail), return_index=True)[1])
    new_from = int(np.max(again + 1, initial=start))
    counts = [(i, int(np.sum(tail.offsets >= pairs.downstream[i]))) for i in last if pairs.downstream[i] >= new_from]
    stated = [
        LossClaim(int(pairs.upstream[i]), count, f"{count - 1} records follow {pairs.name(i)} on the target")
        for i, count in counts
    ]
    below, since = (
        seen.mirrored_below(tail.offsets, new_from),
        (-1 if sample < 0 else int(case.floors.target_end[sample])),
    )
    if since < new_from:
        return LossClaims(stated, None, below)
    count = int(np.sum(tail.offsets >= since))
    return LossClaims(
        stated,
        LossClaim(kept + 1, count, f"{count} records followed on the target once Connect had kept {kept}"),
        below,
    )


def _counted(case: Case, seen: PartitionLastSeen, claims: LossClaims, least: Loss) -> Loss:
    """What two pairs claim both, or Connect alone, if it is more than the least.

    To the record where that is all there can be; or, where nobody knows, where both pairs claim the same, and the
    source had no gap from the first of them on.
    """
    both = [min(claims.stated, key=lambda claim: claim.end)] if len(claims.stated) > 1 else []
    told = max(
        [*both, *([claims.kept] if claims.kept else [])],
        key=lambda claim: claim.end,
        default=LossClaim(least.from_offset, 0, least.evidence),
    )
    agreed = (
        bool(both)
        and {claim.end for claim in claims.stated} == {told.end}
        and seen.gap_free_up_to(min(claim.upstream for claim in claims.stated) + 1) >= told.end
    )
    end, evidence = (least.from_offset, least.evidence) if told.end < least.from_offset else (told.end, told.evidence)
    certain = agreed and end == told.end if claims.below is None else end == claims.below
    below_end = seen.source_end is not None and end < seen.source_end
    return Loss(end, seen.source_end if certain and below_end else None, case.bounds.cut_off, evidence)


def loss_with_source(case: Case, stored: int | None) -> Search:
    """Tell what a partition loses where its source can be read, by comparing contents with the target.

    Args:
        case: as for `loss_of`; `cut_off` is the source's end, and pairs by content do not belong among its pairs.
        stored: the last replicated offset that Connect keeps, None where it keeps none.
    """
    first = (
        max(
            highest_confirmed(plausible_pairs(case)),
            -1 if stored is None else stored,
            (case.bounds.source_start or 0) - 1,
        )
        + 1
    )
    least = Loss(first, None, case.bounds.cut_off, "up to what MirrorMaker 2 said that it replicated")
    start, lowest = where_copies_begin(case, first)
    if start is None or not both_known(case) or not case.may_read(TARGET, case.bounds.boundary - start):
        return least
    (there,) = yield from case.fetch(case.window(TARGET, start, case.bounds.boundary))
    if there is None or not there.size():
        return Loss(first, case.bounds.cut_off, case.bounds.cut_off, "nothing on the target that could come from above")
    here = yield from _enough_of_the_source(case, lowest, first, there.size())
    return least if here is None else _found_again(case, here, there, first)


def where_copies_begin(case: Case, first: int) -> tuple[int | None, int]:
    """Return from where the target holds every copy from ``first`` on, and the lowest source record copied there.

    None where the source has lost records that can: what it still holds could then not be told from them.
    """
    start, known, index = case.first_offset(first), case.bounds, case.floors.index_below(first)
    lowest = int(case.floors.replicated[index]) + 1 if index >= 0 else 0
    return (start if lowest >= (known.source_start or 0) else None), lowest


def _enough_of_the_source(case: FullCase, lowest: int, first: int, count: int) -> Search:
    """Return source records from ``lowest`` on, ``count`` of them from ``first`` on; None if too many to read."""
    parts: list[Records] = []
    start, end = lowest, min(case.bounds.cut_off, first + count)
    while start < case.bounds.cut_off and sum(part.between(first, end).size() for part in parts) <= count:
        if not case.may_read(SOURCE, end - start):
            return None
        parts += [part for part in (yield from case.fetch(case.window(SOURCE, start, end))) if part]
        # Not every offset holds a record: what is left to find is looked for in twice as many.
        start, end = end, min(case.bounds.cut_off, end + 2 * (end - first) + 1)
    return join_records(parts)


def _found_again(case: Case, here: Records, there: Records, first: int) -> Loss:
    """Tell the loss by content: certain copies where only new records have it, possible ones by order."""
    codes = content_codes(join_records([here, there]))
    ours, theirs = codes[: here.size()], codes[here.size() :]
    new, offsets = ours[here.offsets >= first], here.offsets[here.offsets >= first]
    distinct, places = np.unique(new, return_index=True)
    certain = np.isin(distinct, theirs) & ~np.isin(distinct, ours[here.offsets < first])
    least, most = int(np.max(places[certain] + 1, initial=0)), _mirrored_at_most(new.tolist(), theirs.tolist())
    # Where not all below are there, the target's topic was made anew; or where nothing else says what was mirrored, and
    # there is what was not read here.
    unsaid = first <= (case.bounds.source_start or 0)
    if not np.all(np.isin(new[:least], theirs)) or (unsaid and not np.all(np.isin(theirs, ours))):
        return Loss(first, None, case.bounds.cut_off, "the target does not hold the source's records in their order")
    begin = int(offsets[least - 1]) + 1 if least else first
    told = f"{least} records above what MirrorMaker 2 said were found on the target" + (
        "" if least == most else f"; {most - least} more may be there"
    )
    return Loss(begin, case.bounds.cut_off if least == most else None, case.bounds.cut_off, told)


def _mirrored_at_most(new: list[int], theirs: list[int]) -> int:
    """Return the most of the source's next records that can have been mirrored, given they are mirrored in order."""
    reached = 0
    for content in theirs:
        reached += reached < len(new) and new[reached] == content
    return reached
