"""Determine one partition's loss from the flight recorder's samples and the target's log. Why: decisions/0008.

Invariants:

1. No acknowledged record below `from_offset` is missing on the target.
2. No record in [from_offset, certain_to) is on the target. `certain_to` is None if this cannot be shown of any record.
3. Records after the last sample have no bound: `possible_to` is the source's own end, None if unknown.
4. One wrong offset sync changes neither `from_offset` nor `certain_to`, because no sync counts alone: a second sync
   must agree. Doubt only lowers `from_offset`. All syncs are ignored if they state that more source records are on the
   target than the flight recorder's content pairs allow.

MirrorMaker 2 mirrors a partition in order and resumes after the offset that Connect stored: the next record mirrored
for the first time is always the source's next one. So the target holds all records up to one source offset, whatever
was repeated.

A `Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
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
    """A source range [start, end) in which every offset had a record.

    ``downstream`` is the target offset of a copy of record ``start`` or of a lower record.
    """

    start: int
    end: int
    downstream: int


@dataclass(frozen=True)
class PartitionLastSeen:
    """The flight recorder's last sample of a partition, and source ranges in which every offset had a record.

    Attributes:
        source_end: the source's log end at the last sample; None for a partition that was never sampled.
        replicated: the last replicated offset that Connect stores now or, if it was not read now, had stored at the
            last sample; None if there is no such offset. A restarted connector task resumes after this offset.
        without_gaps: source ranges in which every offset had a record, in order.
    """

    source_end: int | None
    replicated: int | None
    without_gaps: tuple[Unbroken, ...] = ()

    def gap_free_up_to(self, offset: int) -> int:
        """Return the source offset up to which, from ``offset`` on, every offset certainly had a record.

        ``offset`` itself is returned if none of these source ranges contains ``offset``.
        """
        for start, end, _ in self.without_gaps:
            offset = end if start <= offset < end else offset
        return offset

    def mirrored_below(self, offsets: Ints, new_from: int) -> int | None:
        """Return a source offset at or above which no record was mirrored; None if the samples show no such offset.

        Args:
            offsets: offsets of the target's last records.
            new_from: target offset. Each target record from this offset on is the first copy of a source record, and
                the first copies have the order of the source's records.
        """
        reached = [
            (gap_free.end, gap_free.start + 1 + int(np.sum(offsets > gap_free.downstream)))
            for gap_free in self.without_gaps
            if gap_free.downstream >= new_from
        ]
        return min((reaches for end, reaches in reached if reaches <= end), default=None)


@dataclass(frozen=True)
class Loss:
    """The loss of one partition, in source offsets; the module's invariants define the fields.

    `certain_to` and `possible_to` are exclusive ends, and None if unknown. `evidence` says in words what was compared.
    """

    from_offset: int
    certain_to: int | None
    possible_to: int | None
    evidence: str


def loss_of(case: Case, seen: PartitionLastSeen | None) -> Search:
    """Return the `Loss` of a partition whose source cannot be read, from samples and the target's last records.

    Args:
        case: its pairs are offset syncs only, because a content pair does not state from which source record a copy
            comes; its `cut_off` is None if the source's end is unknown.
        seen: the flight recorder's last sample; None for a partition that was never sampled.
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
            "the offset syncs belong to an older log on the target, and no sample of the recorder shows what was in"
            " that log",
        )
    pairs, stored_offset = plausible_pairs(case), -1 if seen is None or seen.replicated is None else seen.replicated
    least = Loss(
        max(highest_confirmed(pairs), stored_offset) + 1,
        None,
        case.bounds.cut_off,
        "up to the last record that MirrorMaker 2 stated as replicated",
    )
    if seen is None or seen.source_end is None or not len(pairs):
        return least
    claims = yield from _claims(case, pairs, seen)
    if claims.contradicted(least.from_offset):
        claims, least = (
            LossClaims([], claims.stored),
            replace(
                least,
                from_offset=stored_offset + 1,
                evidence=f"{least.evidence}; offset syncs state more than the target can hold",
            ),
        )
    return _loss_by_claims(case, seen, claims, least)


def plausible_pairs(case: Case) -> Pairs:
    """Return the pairs (u, d) that no sample of the flight recorder contradicts.

    A sample contradicts a pair if d lies below the sample's target end, but u at or above its source end. The last
    sample also contradicts a pair whose d lies at or above its target end, if u lies above its source end by more than
    twice as much as d lies above its target end.
    """
    pairs, floors = case.pairs, case.floors
    if not len(floors):
        return pairs
    after = np.searchsorted(floors.target_end, pairs.downstream, side="right")
    # For pairs above the last sample: per record that the target took after this sample at most one source record and
    # one transaction marker.
    newest_limit = floors.source_end[-1] + 2 * (pairs.downstream - floors.target_end[-1])
    plausible = pairs.upstream < np.where(after < len(floors), np.append(floors.source_end, 0)[after], newest_limit + 1)
    return Pairs(pairs.upstream[plausible], pairs.downstream[plausible], pairs.discarded)


def highest_confirmed(pairs: Pairs) -> int:
    """Return the highest source offset u of a pair (u, d) that the next pair confirms; -1 without such a pair.

    The next pair confirms a pair if, from the pair to the next, u does not fall and rises at most twice as much as d.
    """
    further, along = np.diff(pairs.upstream), np.diff(pairs.downstream)
    return int(np.max(pairs.upstream[:-1][(further >= 0) & (further <= 2 * along)], initial=-1))


class LossClaim(NamedTuple):
    """A claim that the first ``records`` source records from source offset ``upstream`` on are on the target."""

    upstream: int
    records: int
    evidence: str

    @property
    def end(self) -> int:
        """The source offset below which, by this claim, no record is missing on the target."""
        return self.upstream + self.records


class LossClaims(NamedTuple):
    """The claims of the last two pairs and of Connect's stored offset.

    Attributes:
        stated: claims of the last two pairs.
        stored: claim of Connect's stored offset, None without one.
        below: source offset at or above which no record was mirrored; None if the samples show no such offset.
    """

    stated: list[LossClaim]
    stored: LossClaim | None = None
    below: int | None = None

    def contradicted(self, confirmed: int) -> bool:
        """Return whether pairs state that a record at or above `below` was mirrored; False if `below` is None.

        Args:
            confirmed: source offset below which all records are on the target, as pairs that confirm each other or
                Connect's stored offset state.
        """
        return self.below is not None and max([confirmed, *(claim.end for claim in self.stated)]) > self.below


def _claims(case: Case, pairs: Pairs, seen: PartitionLastSeen) -> Search:
    """Return the claims of the last two pairs and of Connect's stored offset, as far as no repeat invalidates them.

    A repeat is a target record that has the content of a lower target record read here. A pair's claim is left out if a
    repeat lies at or above the pair. Connect's claim is left out if a repeat lies at or above the target's end in the
    sample from which the stored offset comes.

    Target records added after a sample are copies of source records above the offset that Connect had stored at this
    sample. The target is read to its end, from the lowest offset at which such copies can lie.
    """
    last = range(max(len(pairs) - 2, 0), len(pairs))
    first = int(pairs.downstream[last[0]])
    sample = case.floors.index_when_target_ended_by(first)
    stored_offset = -1 if sample < 0 else int(case.floors.replicated[sample])
    start = case.first_offset(stored_offset + 1)
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
    repeats = np.delete(tail.offsets, np.unique(content_codes(tail), return_index=True)[1])
    new_from = int(np.max(repeats + 1, initial=start))
    counts = [(i, int(np.sum(tail.offsets >= pairs.downstream[i]))) for i in last if pairs.downstream[i] >= new_from]
    stated = [
        LossClaim(int(pairs.upstream[i]), count, f"{count - 1} records follow {pairs.name(i)} on the target")
        for i, count in counts
    ]
    below, sampled_end = (
        seen.mirrored_below(tail.offsets, new_from),
        (-1 if sample < 0 else int(case.floors.target_end[sample])),
    )
    if sampled_end < new_from:
        return LossClaims(stated, None, below)
    count = int(np.sum(tail.offsets >= sampled_end))
    return LossClaims(
        stated,
        LossClaim(
            stored_offset + 1,
            count,
            f"{count} records followed on the target after Connect had stored offset {stored_offset}",
        ),
        below,
    )


def _loss_by_claims(case: Case, seen: PartitionLastSeen, claims: LossClaims, least: Loss) -> Loss:
    """Return the `Loss` that begins where, by the claims, the records on the target end.

    Two ends are compared, and the higher end counts: the end of Connect's claim, and the lower end of the two pairs'
    claims. The claim of one pair alone does not count. The loss never begins below the loss ``least``.

    The loss is certain up to the source's log end at the last sample, if it begins at `claims.below`. If `below` is
    None, it is certain if both pairs claim the end that counts and the source had no gap from the lower pair to this
    end.
    """
    lower_claim = [min(claims.stated, key=lambda claim: claim.end)] if len(claims.stated) > 1 else []
    best = max(
        [*lower_claim, *([claims.stored] if claims.stored else [])],
        key=lambda claim: claim.end,
        default=LossClaim(least.from_offset, 0, least.evidence),
    )
    agreed = (
        bool(lower_claim)
        and {claim.end for claim in claims.stated} == {best.end}
        and seen.gap_free_up_to(min(claim.upstream for claim in claims.stated) + 1) >= best.end
    )
    end, evidence = (least.from_offset, least.evidence) if best.end < least.from_offset else (best.end, best.evidence)
    # After a fall of log ends, the newest sample may describe another log than the target's records.
    certain = (agreed and end == best.end if claims.below is None else end == claims.below) and not case.floors.fell
    below_end = seen.source_end is not None and end < seen.source_end
    return Loss(end, seen.source_end if certain and below_end else None, case.bounds.cut_off, evidence)


def loss_with_source(case: Case, stored: int | None) -> Search:
    """Return the `Loss` of a partition whose source can be read, by comparing contents with the target.

    Args:
        case: its pairs are offset syncs only, without content pairs; its `cut_off` is the source's log end.
        stored: the last replicated offset that Connect stores; None if Connect stores none.
    """
    first = (
        max(
            highest_confirmed(plausible_pairs(case)),
            -1 if stored is None else stored,
            (case.bounds.source_start or 0) - 1,
        )
        + 1
    )
    least = Loss(first, None, case.bounds.cut_off, "up to the last record that MirrorMaker 2 stated as replicated")
    start, lowest = where_copies_begin(case, first)
    if start is None or not both_known(case) or not case.may_read(TARGET, case.bounds.boundary - start):
        return least
    (copies,) = yield from case.fetch(case.window(TARGET, start, case.bounds.boundary))
    if copies is None or not copies.size():
        return Loss(
            first,
            case.bounds.cut_off,
            case.bounds.cut_off,
            f"the target has no record that can be a copy of a source record from offset {first} on",
        )
    originals = yield from _source_records(case, lowest, first, copies.size())
    return least if originals is None else _loss_by_content(case, originals, copies, first)


def where_copies_begin(case: Case, first: int) -> tuple[int | None, int]:
    """Return where, on the target, the copies of the source records from ``first`` on begin at the earliest.

    Returns:
        a target offset: all copies of source records from ``first`` on lie at or above it; and a source offset: no
        record below it has a copy at or above the target offset. The target offset is None if it is unknown. It is also
        None if the source has deleted a record at or above the source offset, because copies of deleted records cannot
        be distinguished from copies of remaining records.
    """
    start, bounds, index = case.first_offset(first), case.bounds, case.floors.index_below(first)
    lowest = int(case.floors.replicated[index]) + 1 if index >= 0 else 0
    return (start if lowest >= (bounds.source_start or 0) else None), lowest


def _source_records(case: FullCase, lowest: int, first: int, count: int) -> Search:
    """Return the source records from offset ``lowest`` on, with more than ``count`` records at or above ``first``.

    If the log has fewer records, all records up to the cut-off are returned. None if the read limit is too low.
    """
    parts: list[Records] = []
    start, end = lowest, min(case.bounds.cut_off, first + count)
    while start < case.bounds.cut_off and sum(part.between(first, end).size() for part in parts) <= count:
        if not case.may_read(SOURCE, end - start):
            return None
        parts += [part for part in (yield from case.fetch(case.window(SOURCE, start, end))) if part]
        # The next read spans twice as many offsets, because not every offset holds a record.
        start, end = end, min(case.bounds.cut_off, end + 2 * (end - first) + 1)
    return join_records(parts)


def _loss_by_content(case: Case, originals: Records, copies: Records, first: int) -> Loss:
    """Return the `Loss` that a comparison of contents shows; it begins at source offset ``first`` or higher.

    ``originals`` are records of the source, ``copies`` are records of the target. A source record certainly has a copy
    if its content is on the target and on no source record below ``first``. How many records can have copies at most
    follows from the order of the target's records.
    """
    codes = content_codes(join_records([originals, copies]))
    source_codes, target_codes = codes[: originals.size()], codes[originals.size() :]
    new, offsets = source_codes[originals.offsets >= first], originals.offsets[originals.offsets >= first]
    distinct, first_rows = np.unique(new, return_index=True)
    certain = np.isin(distinct, target_codes) & ~np.isin(distinct, source_codes[originals.offsets < first])
    least_mirrored, most_mirrored = (
        int(np.max(first_rows[certain] + 1, initial=0)),
        _mirrored_at_most(new.tolist(), target_codes.tolist()),
    )
    # Contradiction: a record below the last certain copy is missing (the target topic was recreated), or, without any
    # statement of MirrorMaker 2, the target holds contents that the source range lacks.
    unstated = first <= (case.bounds.source_start or 0)
    if not np.all(np.isin(new[:least_mirrored], target_codes)) or (
        unstated and not np.all(np.isin(target_codes, source_codes))
    ):
        return Loss(first, None, case.bounds.cut_off, "the target does not hold the source's records in their order")
    begin = int(offsets[least_mirrored - 1]) + 1 if least_mirrored else first
    evidence = f"{least_mirrored} records beyond those that MirrorMaker 2 stated as replicated are on the target" + (
        "" if least_mirrored == most_mirrored else f"; {most_mirrored - least_mirrored} more may be on the target"
    )
    return Loss(begin, case.bounds.cut_off if least_mirrored == most_mirrored else None, case.bounds.cut_off, evidence)


def _mirrored_at_most(new: list[int], copied: list[int]) -> int:
    """Return how many of the source's next records can have copies at most, if records are mirrored in order.

    Args:
        new: contents of the source's next records.
        copied: contents of the target's records.
    """
    reached = 0
    for content in copied:
        reached += reached < len(new) and new[reached] == content
    return reached
