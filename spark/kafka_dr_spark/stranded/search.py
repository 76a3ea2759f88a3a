"""Records of a returned cluster that were never replicated, found by content on both sides: decisions/0015.

The source is the returned cluster, the target the one that clients went to; its log is looked at below the boundary,
where nobody but MirrorMaker 2 wrote.

Invariants:

1. MirrorMaker 2 mirrors a partition in order: of what it had not mirrored before, it mirrors always the next record. So
   all records from one offset on, `from_offset`, are stranded, whatever was repeated before.
2. A content that first occurs on the source at a record r, and occurs on the target, was mirrored from r or from later:
   `from_offset` lies above r. What is mirrored behind the last such record follows directly one of its copies.
3. Below `from_offset` the c-th occurrence of a content from the end is matched with the c-th from the end on the
   target. What is left over is not on the target.
4. Offsets that Connect kept, and offset syncs, count only where the target holds nothing that the source lacks: a
   source that lost its tail has other records at these offsets.

Doubt only makes more stranded: what is listed and was replicated can be told by `exact`, what is forgotten by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.loss.partition_loss import highest_confirmed, plausible_pairs, where_copies_begin
from kafka_dr_spark.reading.matching import (
    Records,
    last_of_key,
    no_records,
)
from kafka_dr_spark.stranded.comparison import Both, Places
from kafka_dr_spark.translation.by_content import proven_floor
from kafka_dr_spark.translation.case import SOURCE, TARGET, Case, FullCase, Search, SourceCase, both_known, source_known

_NONE = NONE_KEPT = np.empty(0, np.int64)


@dataclass(frozen=True)
class Returned:
    """A partition beside its bounds (cut-off: its log end now); fields as in schemas ``returned`` and ``kept``."""

    topic: str
    partition: int
    source_from: int
    target_from: int
    proven_end: int | None
    replicated: int | None
    stable_end: int
    target_end: int | None
    copied_back: bool = False
    decided_to: int = 0
    deleted_to: int | None = None
    written_from: int | None = None
    kept: Ints = field(default_factory=lambda: NONE_KEPT)


@dataclass(frozen=True)
class StrandedRecords:
    """What of one partition is stranded, in source offsets.

    Attributes:
        from_offset: all records from here on.
        missing: and these below it.
        older: records that were replicated, or came from the target, and are not there any more; only where they were
            asked for.
        lacking: records of the target that the source does not hold any more.
        exact: none of those listed was ever replicated.
        rest: records that were read from `from_offset` on; None where nobody read them.
        settled: more of the logs would tell nothing else.
        evidence: what tells.
    """

    from_offset: int
    missing: Ints = field(default_factory=lambda: _NONE)
    older: Ints | range = field(default_factory=lambda: _NONE)
    lacking: int = 0
    exact: bool = True
    rest: int | None = None
    settled: bool = True
    evidence: str = ""

    @property
    def frontier(self) -> int:
        """The first offset that is not on the target: below it everything is."""
        return min(self.from_offset, int(self.missing[0])) if len(self.missing) else self.from_offset


class Certain(NamedTuple):
    """Offsets below which all is replicated: proven when clients left, and stated by MirrorMaker 2 of this log."""

    proven: int
    stated: int


class LogSpan(NamedTuple):
    """What is compared of a partition.

    Attributes:
        source: from here on the source is read.
        target: from here on the target.
        whole_from: all copies of records from here on lie in the target's stretch.
        source_cut: whether the source may have deleted records whose copies lie in the target's stretch.
        target_cut: whether the target may have deleted copies of records of the source's stretch.
    """

    source: int
    target: int
    whole_from: int
    source_cut: bool = False
    target_cut: bool = False


def stranded_of(case: Case, known: Returned, whole: bool = False) -> Search:
    """Tell what of a partition is stranded.

    Args:
        case: its cut-off is where the source's log ended before the flow back wrote to it, its boundary the target's
            log end before any client wrote there.
        whole: also tell what was replicated and is not on the target any more.
    """
    if not source_known(case):
        raise ContractBroken(f"bounds: source_start and cut_off of {case.bounds} must be known")
    bounds = case.bounds
    if known.copied_back:
        at = (case.bounds.target_start, case.bounds.boundary) if both_known(case) else (0, 0)
        older, told = yield from _only_here(case, (bounds.source_start, bounds.cut_off), at)
        return StrandedRecords(bounds.cut_off, older=older, evidence=told)
    found = yield from _below_the_copies(case, known, whole)
    if known.deleted_to is None or known.deleted_to <= bounds.cut_off:
        return found
    written, end = known.written_from, known.target_end
    at = (0, 0) if written is None or end is None else (written, end)
    older, told = yield from _only_here(case, (max(bounds.cut_off, bounds.source_start), known.deleted_to), at)
    return replace(
        found, older=np.append(np.asarray(found.older, np.int64), older), evidence=f"{found.evidence}; behind it {told}"
    )


def _below_the_copies(case: SourceCase, known: Returned, whole: bool) -> Search:
    """Tell what is stranded of what the source held before the flow back wrote to it."""
    begin = min(max(case.bounds.source_start, known.source_from, known.decided_to), case.bounds.cut_off)
    if not both_known(case):
        return StrandedRecords(begin, evidence="the target has no such partition")
    bounds = case.bounds
    proven = known.proven_end if known.proven_end is not None and known.proven_end <= bounds.cut_off else None
    if proven is not None and not whole:
        return StrandedRecords(
            max(begin, proven), evidence="everything below was proven to be on the target when clients left"
        )
    stated = max(begin, stated_by_others(case, known) if proven is None else proven)
    certain = Certain(begin if proven is None else max(begin, proven), stated)
    # Also what lies below the begin: of records that are alike, its copies are not those of what follows.
    cuts = bounds.source_start > known.source_from, bounds.target_start > known.target_from
    all_of_it = LogSpan(
        max(bounds.source_start, known.source_from), max(bounds.target_start, known.target_from), begin, *cuts
    )
    for span in [*([] if whole else narrow_span(case, known, stated)), all_of_it]:
        narrowed = span._replace(whole_from=max(span.whole_from, begin))
        found = yield from _compared(case, known, narrowed, certain, whole)
        if found is None or found.settled:
            break
    return found or (yield from _uncompared(case, certain))


def _only_here(case: Case, copies: tuple[int, int], originals: tuple[int, int]) -> Search:
    """Return copies of target records that the target no longer holds (all if too many to compare); and why.

    MirrorMaker 2's repeats are told, too: nothing tells one from a record of the same content that is gone.
    """
    if not case.may_read(SOURCE, copies[1] - copies[0]) or not case.may_read(
        TARGET, max(originals[1] - originals[0], 0)
    ):
        return range(*copies), "copies of the other cluster's topic: too much to compare"
    ours, theirs = yield from case.fetch(case.window(SOURCE, *copies), case.window(TARGET, *originals))
    both = Both(ours or no_records(), theirs or no_records())
    left = both.missing(both.ours.size())
    return (
        both.ours.offsets[left],
        f"copies of the other cluster's topic: it holds all but {int(left.sum())} of {both.ours.size()}",
    )


def _uncompared(case: Case, certain: Certain) -> Search:
    """Tell what is stranded without comparing: above what is stated, as far as the newest equal pair confirms it."""
    index = yield from proven_floor(case, case.pairs, len(case.pairs) - 1)
    borne_out = 0 if index < 0 else int(case.pairs.upstream[index]) + 1
    told = f"sync {case.pairs.name(index)}" if index >= 0 else "where the log begins"
    return StrandedRecords(
        max(certain.proven, min(certain.stated, borne_out)),
        exact=False,
        evidence=f"too much to compare: from {told} on",
    )


def stated_by_others(case: FullCase, known: Returned) -> int:
    """Return the offset below which MirrorMaker 2 claimed full replication; 0 if of another log or a lost tail."""
    kept = -1 if known.replicated is None else known.replicated
    if case.bounds.recreated or kept >= case.bounds.cut_off:
        return 0
    return max(highest_confirmed(plausible_pairs(case)), kept) + 1


def narrow_span(case: FullCase, known: Returned, first: int) -> list[LogSpan]:
    """Return spans enough to compare, from a sample before the last replicated record; [] without one.

    That record's copy lies behind the sample: a source that lost its tail has none like it.
    """
    index, floors = case.floors.index_below(first - 1), case.floors
    # A log that fell may have got other records in the middle: then everything is compared.
    if index < 0 or floors.fell or case.bounds.recreated:
        return []
    start, lowest = where_copies_begin(case, first - 1)
    if start is None or lowest < known.source_from or start < known.target_from:
        return []
    return [LogSpan(max(lowest, case.bounds.source_start), start, int(floors.source_end[index]))]


def _compared(case: FullCase, known: Returned, span: LogSpan, certain: Certain, whole: bool) -> Search:
    """Read a span of both logs and tell what of it is stranded; None if that is too much to read."""
    bounds, committed = case.bounds, case.limits.isolation == "read_committed"
    end = min(bounds.cut_off, known.stable_end) if committed else bounds.cut_off
    if not case.may_read(SOURCE, max(end - span.source, 0)) or not case.may_read(
        TARGET, max(bounds.boundary - span.target, 0)
    ):
        return None
    ours, theirs = yield from case.fetch(
        case.window(SOURCE, span.source, end), case.window(TARGET, span.target, bounds.boundary)
    )
    ours = ours or no_records()
    # What an earlier failback left where it was is on no other log; of records that are alike, others would be told in
    # its place.
    left = np.isin(ours.offsets, known.kept)
    both = Both(ours.where(~left), theirs or no_records())
    lost = both.lacking(span.source_cut)
    lost &= _never_cleaned(both, case, known) if bounds.source_compacted else True
    # What the target has and the source has not: other records may stand where MirrorMaker 2 was.
    stated = certain.proven if lost.any() else certain.stated
    sure, begin = both.beginning(stated, _places(case, span, both), span.source_cut)
    missing = both.missing(begin) & (both.ours.offsets >= span.whole_from)
    gone = missing & both.deleted(stated) if span.target_cut else np.zeros(len(missing), np.bool_)
    if bounds.target_compacted:
        gone |= missing & ~(yield from _never_cleaned_there(case, known, both.ours, missing & ~gone))
    offsets = both.ours.offsets
    reached = end if committed and begin == len(offsets) else int(offsets[begin - 1]) + 1 if begin else span.source
    unproven = (
        span.source_cut or span.target_cut or bounds.source_compacted or bounds.target_compacted or bounds.recreated
    )
    return StrandedRecords(
        from_offset=min(max(stated, reached), bounds.cut_off),
        missing=np.union1d(offsets[missing & ~gone], ours.offsets[left]),
        older=offsets[gone] if whole else _NONE,
        lacking=int(lost.sum()),
        exact=not (unproven or both.alike(sure)),
        rest=None if committed else len(offsets) - begin,
        settled=not (lost.any() or missing.any() or both.alike(sure)),
        evidence=_told(both, sure, begin)
        + (f"; {int(left.sum())} were left there by an earlier failback" if left.any() else ""),
    )


def _places(case: Case, span: LogSpan, both: Both) -> Places:
    """Return where copies of the source's records can stand.

    As many of its records as lie below one have copies below that one's, if nothing was taken from either log. Where
    the source has deleted some, their copies end behind a sample, unless MirrorMaker 2 may have gone back to what is
    deleted.
    """
    bounds, floors, ours = case.bounds, case.floors, both.ours.offsets
    rows = np.arange(len(ours))
    if not span.source_cut:
        before = np.minimum(rows, np.searchsorted(ours, span.whole_from))
        return Places(
            rows - before + both.also_there()[before],
            np.ones(len(rows), np.bool_),
            not (span.target_cut or bounds.target_compacted),
        )
    if bounds.recreated or floors.fell or not len(floors):
        return Places(0 * rows, np.zeros(len(rows), np.bool_), False)
    sample = np.searchsorted(floors.source_end, ours, side="right") - 1
    there = np.where(sample >= 0, floors.target_end[sample], 0)
    return Places(
        np.searchsorted(both.theirs.offsets, there),
        (sample >= 0) & (floors.replicated[sample] + 1 >= span.source),
        False,
    )


def _told(both: Both, sure: int, begin: int) -> str:
    doubt = f"; {begin - sure} of them are like others, and may be repeats of those" if begin > sure else ""
    return f"{begin} of {both.ours.size()} records were replicated, by comparison with {both.theirs.size()}{doubt}"


def _never_cleaned_there(case: FullCase, known: Returned, ours: Records, missing: Mask) -> Search:
    """Mask source records a cleaner cannot have taken from the target: last values of keys not rewritten there."""
    newest, start, end = (
        last_of_key(ours) & ~ours.tombstone,
        max(case.bounds.boundary, case.bounds.target_start),
        known.target_end or 0,
    )
    if not np.any(missing & newest) or end <= start or not case.may_read(TARGET, end - start):
        return newest
    (since,) = yield from case.fetch(case.window(TARGET, start, end))
    return newest & ~np.isin(ours.key, since.key)


def _never_cleaned(both: Both, case: FullCase, known: Returned) -> Mask:
    """Mask target records no source cleaner took: last values of keys absent there, or of all after a lost tail."""
    newest = last_of_key(both.theirs) & ~both.theirs.tombstone
    shrunk = known.replicated is not None and known.replicated >= case.bounds.cut_off
    return newest if shrunk else newest & ~np.isin(both.theirs.key, both.ours.key)
