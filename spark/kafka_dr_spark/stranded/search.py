"""Search for records of a returned cluster that were never replicated, by content of both logs: decisions/0015.

The source is the returned cluster, the target is the cluster that clients moved to; the target's log is read below the
boundary, where only MirrorMaker 2 wrote.

Invariants:

1. MirrorMaker 2 mirrors a partition in order: the next record mirrored for the first time is always the source's next
   one. So all records from one offset on, `from_offset`, are stranded, whatever was repeated before.
2. Take a content on the target, and let r be the first source record with this content. The target's record is a copy
   of r or of a later record, so `from_offset` lies above r. Take the highest r of all contents on the target. If more
   records after r were replicated, their copies directly follow a copy of r on the target.
3. Below `from_offset` the c-th last occurrence of a content is matched with the c-th last occurrence on the target. A
   record without a match is not on the target.
4. Connect's stored offsets and offset syncs count only if the source holds every content of the target, because a
   source that lost its newest records may have other records at these offsets.

In doubt a record is listed as stranded, and `exact` is False, because a record that is not listed would be lost. A
`Search` is a generator: it yields offset ranges to read, is sent their records, and returns what its docstring says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.loss.partition_loss import highest_confirmed, plausible_pairs, where_copies_begin
from kafka_dr_spark.reading.matching import Records, last_of_key, no_records
from kafka_dr_spark.stranded.comparison import ComparedRecords, Places
from kafka_dr_spark.translation.by_content import proven_floor
from kafka_dr_spark.translation.case import SOURCE, TARGET, Case, FullCase, Search, SourceCase, both_known, source_known

_NONE = NONE_KEPT = np.empty(0, np.int64)


@dataclass(frozen=True)
class Returned:
    """What the job's input states of one partition of the returned cluster (the source) besides its log bounds.

    Attributes:
        source_from: source offset at which the flow from source to target last began, 0 if not recorded. Copies of the
            records from this offset on lie at or above ``target_from``.
        target_from: target offset at or above which MirrorMaker 2 wrote only copies of records from ``source_from`` on.
        proven_end: source offset below which all records were proven to be on the target; None if nothing was proven.
        replicated: last replicated offset that Connect stores; None if there is none or the offset was not read.
        stable_end: the source's last stable offset now, at most the cut-off.
        target_end: the target's log end now; None if the target lacks the partition.
        copied_back: whether the topic has a prefixed name and holds copies of a target topic. If True, it will be
            deleted, and only its records that are no longer on the target are searched for.
        decided_to: source offset below which all records are copies, or were decided on by an earlier failback.
        deleted_to: the source's log end now if the topic will be recreated; records from the cut-off up to this end
            that are no longer on the target are searched for, too. None if the topic will not be recreated.
        written_from: target offset at or above which clients' records can lie; None if the target lacks the partition.
        kept: source offsets of stranded records that earlier failbacks left on the source.
    """

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
    """The stranded records of one partition, in source offsets.

    Attributes:
        from_offset: all records from this offset on are stranded.
        missing: offsets of stranded records below `from_offset`.
        older: offsets of records that were replicated, or were copied from the target, and are no longer on the target;
            empty if not requested.
        lacking: number of replicated records on the target that the source no longer holds.
        exact: whether it is certain that no listed record was ever replicated.
        rest: number of records from `from_offset` on; None if not all of these records were read.
        settled: whether reading more of the logs would change nothing.
        evidence: how the result was obtained.
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
        """The source offset of the first stranded record: `from_offset`, or that of a stranded record below."""
        return min(self.from_offset, int(self.missing[0])) if len(self.missing) else self.from_offset


class Certain(NamedTuple):
    """Two source offsets: all records below each of them are replicated, by proof or by statement.

    Attributes:
        proven: the offset that was proven when clients left the source.
        stated: the offset that MirrorMaker 2's offset syncs and Connect state, or the proven offset.
    """

    proven: int
    stated: int


class LogSpan(NamedTuple):
    """The ranges of both logs to compare.

    Attributes:
        source: source offset from which the source is read.
        target: target offset from which the target is read.
        whole_from: source offset; all copies of source records from it on lie in the target's range.
        source_cut: whether the source may have deleted records whose copies lie in the target's range.
        target_cut: whether the target may have deleted copies of records of the source's range.
    """

    source: int
    target: int
    whole_from: int
    source_cut: bool = False
    target_cut: bool = False


def stranded_of(case: Case, known: Returned, whole: bool = False) -> Search:
    """Return the `StrandedRecords` of a partition, found by comparing the logs of both clusters.

    Args:
        case: its cut-off is the source's log end before the flow back wrote to the source, its boundary the target's
            log end before any client wrote to the target.
        known: the partition's rows of returned.parquet and kept.parquet.
        whole: whether to list also records that were replicated and are no longer on the target.
    """
    if not source_known(case):
        raise ContractBroken(
            f"bounds: source_start and cut_off of {case.bounds} must be given; a new try of the Airflow task writes all"
            " input files again"
        )
    bounds = case.bounds
    if known.copied_back:
        originals = (case.bounds.target_start, case.bounds.boundary) if both_known(case) else (0, 0)
        older, reason = yield from _only_here(case, (bounds.source_start, bounds.cut_off), originals)
        return StrandedRecords(bounds.cut_off, older=older, evidence=reason)
    stranded = yield from _below_the_copies(case, known, whole)
    if known.deleted_to is None or known.deleted_to <= bounds.cut_off:
        return stranded
    written_from, end = known.written_from, known.target_end
    originals = (0, 0) if written_from is None or end is None else (written_from, end)
    older, reason = yield from _only_here(case, (max(bounds.cut_off, bounds.source_start), known.deleted_to), originals)
    return replace(
        stranded,
        older=np.append(np.asarray(stranded.older, np.int64), older),
        evidence=f"{stranded.evidence}; above source offset {bounds.cut_off}: {reason}",
    )


def _below_the_copies(case: SourceCase, known: Returned, whole: bool) -> Search:
    """Return the `StrandedRecords` below the cut-off, where the flow back has not written to the source."""
    begin = min(max(case.bounds.source_start, known.source_from, known.decided_to), case.bounds.cut_off)
    if not both_known(case):
        return StrandedRecords(begin, evidence="the target does not have this partition")
    bounds = case.bounds
    proven = known.proven_end if known.proven_end is not None and known.proven_end <= bounds.cut_off else None
    if proven is not None and not whole:
        return StrandedRecords(
            max(begin, proven),
            evidence="all records below were proven to be on the target when clients left the source",
        )
    stated = max(begin, stated_by_others(case, known) if proven is None else proven)
    certain = Certain(begin if proven is None else max(begin, proven), stated)
    # Records below `begin` are compared too, because else their copies would count for later records of equal content.
    deleted = bounds.source_start > known.source_from, bounds.target_start > known.target_from
    whole_span = LogSpan(
        max(bounds.source_start, known.source_from), max(bounds.target_start, known.target_from), begin, *deleted
    )
    for span in [*([] if whole else narrow_span(case, known, stated)), whole_span]:
        narrowed = span._replace(whole_from=max(span.whole_from, begin))
        stranded = yield from _compared(case, known, narrowed, certain, whole)
        if stranded is None or stranded.settled:
            break
    return stranded or (yield from _uncompared(case, certain))


def _only_here(case: Case, copies: tuple[int, int], originals: tuple[int, int]) -> Search:
    """Return the offsets of source records that are copies of records no longer on the target, and the evidence.

    If there are too many copies to compare, the offsets of all copies are returned. The offsets of MirrorMaker 2's
    repeats are included, because a repeat equals a copy of a deleted record with the same content.

    Args:
        copies: source range that holds copies only, end exclusive.
        originals: target range that holds their originals, end exclusive.
    """
    if not case.may_read(SOURCE, copies[1] - copies[0]) or not case.may_read(
        TARGET, max(originals[1] - originals[0], 0)
    ):
        return range(*copies), "copies of the other cluster's topic: too many records to compare"
    ours, theirs = yield from case.fetch(case.window(SOURCE, *copies), case.window(TARGET, *originals))
    both = ComparedRecords(ours or no_records(), theirs or no_records())
    unmatched = both.missing(both.ours.size())
    return (
        both.ours.offsets[unmatched],
        f"copies of the other cluster's topic, which holds all but {int(unmatched.sum())} of {both.ours.size()}",
    )


def _uncompared(case: Case, certain: Certain) -> Search:
    """Return the `StrandedRecords` of logs too long to compare: all records from one source offset on, not exact.

    This offset is the lower of two: the stated offset, and the offset after the newest offset sync whose two records
    are equal. Without such a sync it is 0. If the proven offset is higher, the proven offset counts instead.
    """
    index = yield from proven_floor(case, case.pairs, len(case.pairs) - 1)
    confirmed = 0 if index < 0 else int(case.pairs.upstream[index]) + 1
    start = f"sync {case.pairs.name(index)}" if index >= 0 else "the beginning of the log"
    return StrandedRecords(
        max(certain.proven, min(certain.stated, confirmed)),
        exact=False,
        evidence=f"too many records to compare: from {start} on",
    )


def stated_by_others(case: FullCase, known: Returned) -> int:
    """Return the returned cluster's offset below which all records are replicated, by what MirrorMaker 2 recorded.

    MirrorMaker 2 recorded offset syncs and, in Connect, the last replicated offset. No record is read for this. 0 if a
    topic was recreated, or if the returned cluster has lost its newest records: the syncs are then about other records.
    """
    stored = -1 if known.replicated is None else known.replicated
    if case.bounds.recreated or stored >= case.bounds.cut_off:
        return 0
    return max(highest_confirmed(plausible_pairs(case)), stored) + 1


def narrow_span(case: FullCase, known: Returned, first: int) -> list[LogSpan]:
    """Return the smallest ranges of both logs to compare, as a list of one `LogSpan`; [] if no sample shows them.

    The last replicated record is at source offset ``first`` - 1. The ranges begin at the newest sample before this
    record, so that they contain its copy: if the source has lost its newest records, it lacks the copy's content, and
    the comparison shows the loss.
    """
    index, floors = case.floors.index_below(first - 1), case.floors
    # If a log end once fell, both logs are compared whole, because other records may have been written at the same
    # offsets.
    if index < 0 or floors.fell or case.bounds.recreated:
        return []
    start, lowest = where_copies_begin(case, first - 1)
    if start is None or lowest < known.source_from or start < known.target_from:
        return []
    return [LogSpan(max(lowest, case.bounds.source_start), start, int(floors.source_end[index]))]


def _compared(case: FullCase, known: Returned, span: LogSpan, certain: Certain, whole: bool) -> Search:
    """Read a span of both logs and return its `StrandedRecords`; None if the span exceeds the read limit."""
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
    # Records that an earlier failback left in place are not on the target; if compared, they would be matched with the
    # copies of other records of equal content.
    left_in_place = np.isin(ours.offsets, known.kept)
    both = ComparedRecords(ours.where(~left_in_place), theirs or no_records())
    lost_on_source = both.lacking(span.source_cut)
    lost_on_source &= _never_cleaned(both, case, known) if bounds.source_compacted else True
    # If the source lacks target records, the source's offsets may hold other records than MirrorMaker 2 mirrored.
    stated = certain.proven if lost_on_source.any() else certain.stated
    certain_count, replicated_count = both.beginning(stated, _places(case, span, both), span.source_cut)
    missing = both.missing(replicated_count) & (both.ours.offsets >= span.whole_from)
    deleted_copies = missing & both.deleted(stated) if span.target_cut else np.zeros(len(missing), np.bool_)
    if bounds.target_compacted:
        deleted_copies |= missing & ~(
            yield from _never_cleaned_there(case, known, both.ours, missing & ~deleted_copies)
        )
    offsets = both.ours.offsets
    reached = (
        end
        if committed and replicated_count == len(offsets)
        else int(offsets[replicated_count - 1]) + 1
        if replicated_count
        else span.source
    )
    unproven = (
        span.source_cut or span.target_cut or bounds.source_compacted or bounds.target_compacted or bounds.recreated
    )
    return StrandedRecords(
        from_offset=min(max(stated, reached), bounds.cut_off),
        missing=np.union1d(offsets[missing & ~deleted_copies], ours.offsets[left_in_place]),
        older=offsets[deleted_copies] if whole else _NONE,
        lacking=int(lost_on_source.sum()),
        exact=not (unproven or both.alike(certain_count)),
        rest=None if committed else len(offsets) - replicated_count,
        settled=not (lost_on_source.any() or missing.any() or both.alike(certain_count)),
        evidence=_comparison_evidence(both, certain_count, replicated_count)
        + (f"; {int(left_in_place.sum())} were left in place by an earlier failback" if left_in_place.any() else ""),
    )


def _places(case: Case, span: LogSpan, both: ComparedRecords) -> Places:
    """Return the target rows at which copies of the source's records can lie.

    Without deleted source records: if n earlier source records have copies in the span, at least n target rows lie
    before a record's copy. With deleted source records: a record's copies lie at or above the target's end in the
    newest sample from before the record. From this end on all target records are copies of remaining source records,
    unless MirrorMaker 2 may have gone back to deleted records after that sample.
    """
    bounds, floors, ours = case.bounds, case.floors, both.ours.offsets
    rows = np.arange(len(ours))
    if not span.source_cut:
        rows_below = np.minimum(rows, np.searchsorted(ours, span.whole_from))
        return Places(
            rows - rows_below + both.also_there()[rows_below],
            np.ones(len(rows), np.bool_),
            not (span.target_cut or bounds.target_compacted),
        )
    if bounds.recreated or floors.fell or not len(floors):
        return Places(0 * rows, np.zeros(len(rows), np.bool_), False)
    sample = np.searchsorted(floors.source_end, ours, side="right") - 1
    target_ends = np.where(sample >= 0, floors.target_end[sample], 0)
    return Places(
        np.searchsorted(both.theirs.offsets, target_ends),
        (sample >= 0) & (floors.replicated[sample] + 1 >= span.source),
        False,
    )


def _comparison_evidence(both: ComparedRecords, certain: int, replicated: int) -> str:
    doubt = (
        f"; {replicated - certain} of these equal other records, and may be repeats of them"
        if replicated > certain
        else ""
    )
    return (
        f"{replicated} of {both.ours.size()} records were replicated, by comparison with {both.theirs.size()} records"
        f"{doubt}"
    )


def _never_cleaned_there(case: FullCase, known: Returned, ours: Records, missing: Mask) -> Search:
    """Return a mask of source records whose copies the target's log cleaner cannot have removed.

    A marked record is the last of its key on the source and no tombstone, and no client has written its key on the
    target after the boundary. The last condition is dropped if clients' records exceed the read limit, or if no record
    of ``missing`` meets the other conditions.

    Args:
        case: gives the target to read.
        known: gives the target's log end now.
        ours: source records.
        missing: mask of the source records for which the result is needed.
    """
    newest, start, end = (
        last_of_key(ours) & ~ours.tombstone,
        max(case.bounds.boundary, case.bounds.target_start),
        known.target_end or 0,
    )
    if not np.any(missing & newest) or end <= start or not case.may_read(TARGET, end - start):
        return newest
    (since,) = yield from case.fetch(case.window(TARGET, start, end))
    return newest & ~np.isin(ours.key, since.key)


def _never_cleaned(both: ComparedRecords, case: FullCase, known: Returned) -> Mask:
    """Return a mask of target records whose originals the source's log cleaner cannot have removed.

    A marked record is the last of its key on the target and no tombstone, and the source holds no record of its key.
    The last condition is dropped if the source has lost its newest records.
    """
    newest = last_of_key(both.theirs) & ~both.theirs.tombstone
    lost_tail = known.replicated is not None and known.replicated >= case.bounds.cut_off
    return newest if lost_tail else newest & ~np.isin(both.theirs.key, both.ours.key)
