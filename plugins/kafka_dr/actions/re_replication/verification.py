"""Wait until the chosen topics are copied, then compare every source record with its copy, by content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import pandas as pd

from kafka_dr.actions.re_replication.groups import merged_positions, source_positions
from kafka_dr.actions.re_replication.older_copies import READ_SECONDS
from kafka_dr.actions.re_replication.proven_offsets import stored_offsets
from kafka_dr.actions.re_replication.scope import ChosenTopics, planned_copies, planned_topics
from kafka_dr.actions.scope.internal_topics import checkpoints_of
from kafka_dr.actions.scope.position_frames import COLUMNS, TYPES, frame_partitions, in_order, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.domain.re_replication.copies import (
    ComparedRecord,
    Copied,
    FirstKept,
    compare_copies,
    first_kept,
    first_place,
)
from kafka_dr.errors import Contradiction, NotReady
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import CopiesAwaited, CopiesVerified, TargetTopicsExported, TargetTopicsReady
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: Number of the first records of one log by which the place of its log start in the other one is found.
_KEPT_RECORDS = 1000
_PAIRS = ["topic", "partition", "first_source", "first_target", "last_source", "last_target", "end", "begins"]


def await_copies(procedure: Run, step: str) -> CopiesAwaited:
    """Wait until Connect states that all records are copied that the source held when this run first waited."""
    noted = procedure.progress.facts(CopiesAwaited)
    awaited = noted[0] if noted else _note_ends(procedure, step)
    ends = frame_partitions(procedure.artifacts.load(awaited.source_ends), "offset")
    chosen, firsts = planned_topics(procedure), planned_copies(procedure)[1]
    reader = procedure.systems.reader(procedure.request.source, chosen.isolation)
    tails = reader.last_records(ends, take=digest_of)
    last = {tp: tail.last.offset for tp, tail in tails.items() if tail.last is not None}
    # A record that was written since is no reason to wait longer.
    wanted = {tp: min(offset, ends[tp] - 1) for tp, offset in last.items() if offset >= firsts[tp]}

    def copied() -> CopiesAwaited:
        stored = stored_offsets(procedure)
        behind = {tp: offset for tp, offset in wanted.items() if stored.get(tp, -1) < offset}
        if behind:
            _refuse_failed(procedure)
            shown = [f"{tp}: {stored.get(tp)} of {offset}" for tp, offset in sorted(behind.items())]
            raise NotYet(f"{len(behind)} of {len(ends)} partitions are not copied yet: {first_few(shown, 5)}")
        return awaited

    return procedure.progress.wait(
        step, "The copies of the chosen topics", copied, procedure.request.deadlines.catch_up_seconds
    )


def _note_ends(procedure: Run, step: str) -> CopiesAwaited:
    """Note the groups' positions on the source, then its log ends, which no position of these exceeds."""
    chosen, exported = planned_topics(procedure), procedure.progress.require(TargetTopicsExported)
    remote = set(chosen.names.values())
    checkpoints = checkpoints_of(procedure)
    groups = {
        *procedure.artifacts.load(exported.positions)["group"],
        *checkpoints.loc[checkpoints["topic"].isin(remote), "group"],
    }
    derived = procedure.artifacts.load(exported.source_positions)
    positions = merged_positions(source_positions(chosen, sorted(groups)), derived)
    ends = procedure.systems.source.ends(list(chosen.partitions), chosen.isolation)
    awaited = CopiesAwaited(
        source_ends=procedure.artifacts.save("ends_to_copy", partitions_frame(ends, "offset")),
        positions=procedure.artifacts.save("positions_to_place", positions),
    )
    record_fact(procedure.authority, step, awaited)
    return awaited


def _refuse_failed(procedure: Run) -> None:
    worker = procedure.mirror_maker(procedure.flow)
    for status in map(worker.status, worker.sources):
        if "FAILED" in {status.state, *status.tasks.values()} or status.stopped:
            raise NotReady(
                f"Connector {status.name} is stopped or failed, or a task has failed, while topics are copied again",
                str(status),
                "Read the log of the Connect worker, correct the cause, and restart or resume the connector in Connect."
                " Then clear verify_copies with its downstream tasks.",
            )


@dataclass
class _Verified:
    """Sums of all partitions.

    Attributes:
        pairs: per partition the values of `_PAIRS`; `placed`: rows of group, target topic, partition, position.
    """

    records: int = 0
    repeats: int = 0
    deleted: int = 0
    foreign: list[str] = field(default_factory=list)
    pairs: list[tuple[object, ...]] = field(default_factory=list)
    placed: list[tuple[object, ...]] = field(default_factory=list)


def verify_copies(procedure: Run, awaited: CopiesAwaited) -> CopiesVerified:
    """Compare all copies; return figures, the groups' places, and the first and last pair of each partition.

    Raises:
        Contradiction: a source record has no copy.
    """
    comparison, sums = _Comparer(procedure, awaited), _Verified()
    for tp, remote in comparison.chosen.partitions.items():
        comparison.add(tp, remote, sums)
    pairs = pd.DataFrame(sums.pairs, columns=_PAIRS).astype(dict.fromkeys(_PAIRS[2:], "Int64"))
    placed = in_order(pd.DataFrame(sums.placed, columns=COLUMNS).astype(TYPES))
    return CopiesVerified(
        partitions=len(comparison.chosen.partitions),
        records=sums.records,
        repeats=sums.repeats,
        deleted=sums.deleted,
        foreign=sums.foreign,
        placed=procedure.artifacts.save("placed", placed),
        pairs=procedure.artifacts.save("pairs", pairs),
    )


class _Comparer:
    """Compares partitions of the plan, one after the other.

    Attributes:
        chosen: the topics of the plan.
    """

    def __init__(self, procedure: Run, awaited: CopiesAwaited) -> None:
        artifacts, ready = procedure.artifacts, procedure.progress.require(TargetTopicsReady)
        self._procedure = procedure
        self.chosen: ChosenTopics = planned_topics(procedure)
        self._firsts = planned_copies(procedure)[1]
        self._ends = frame_partitions(artifacts.load(awaited.source_ends), "offset")
        self._begins = frame_partitions(artifacts.load(ready.begins), "offset")
        self._positions = artifacts.load(awaited.positions)
        self._source = procedure.systems.reader(procedure.request.source, self.chosen.isolation)
        self._target = procedure.systems.reader(procedure.request.target)

    def add(self, tp: TopicPartition, remote: TopicPartition, sums: _Verified) -> None:
        """Compare one partition, and add what was seen to the sums; raise Contradiction if a copy is missing."""
        rows = self._positions[(self._positions["topic"] == tp.topic) & (self._positions["partition"] == tp.partition)]
        copies, kept = self._kept(tp, remote)
        begins, originals = copies.start, self._originals(tp, kept.source)
        positions = rows["position"].tolist()
        wanted = [position for position in positions if position >= originals.start]
        later = self._with_originals(tp, remote, originals, copies) if originals.start > kept.source else copies
        copied = self._compare(tp, remote, originals, later, wanted)
        if later != copies and not copied.holds_all_below(self._ends[tp]):
            # Contents repeat, and a repeat of the copier lies among the first copies.
            copied = self._compare(tp, remote, originals, copies, wanted)
        if not copied.holds_all_below(self._ends[tp]):
            raise self._missing(tp, copied)
        passed_over = copied.passed_over
        if originals.start > kept.source:
            # What stands before the first copy that has an original may be copies of deleted records.
            judged_from = copied.first[1] if copied.first else copies.end
            passed_over = tuple(seen for seen in passed_over if seen.offset > judged_from)
        foreign = self._foreign(tp, passed_over)
        if foreign:
            sums.foreign.append(f"{remote}: {count_of(len(foreign), 'record')}, the first at offset {foreign[0]}")
        sums.records, sums.deleted = sums.records + copied.records, sums.deleted + kept.deleted
        sums.repeats += len(passed_over) - len(foreign)
        first, last = copied.first or (None, None), copied.last or (None, None)
        sums.pairs.append((*tp, *first, *last, self._ends[tp], begins))
        # Records that the source has deleted have copies, and a group below them has not read these.
        places = {p: begins for p in positions if p < originals.start} | dict(copied.placed)
        sums.placed += [
            (group, remote.topic, remote.partition, places[position])
            for group, position in zip(rows["group"].tolist(), positions, strict=True)
            if position in places
        ]

    def _kept(self, tp: TopicPartition, remote: TopicPartition) -> tuple[OffsetSpan, FirstKept]:
        """Return where the new copies stand on the target, and the first source record whose copy is still there."""
        first, begins = self._firsts[tp], self._begins.get(remote, 0)
        if remote not in self.chosen.existing.values():
            return OffsetSpan(0, 0), FirstKept(first, 0)
        # The target's end first: no copy of a record that is read is missing only because it is not there yet.
        log = self._target.spans([remote])[remote]
        copies = OffsetSpan(max(begins, log.start), log.end)
        if copies.start == begins:
            return copies, FirstKept(first, 0)
        kept = [seen.fingerprint for seen in islice(self._seen(self._target, remote, copies, tp.topic), _KEPT_RECORDS)]
        originals = self._seen(self._source, tp, self._originals(tp, first), tp.topic)
        return copies, first_kept(originals, kept, copies.start - begins) or FirstKept(first, 0)

    def _originals(self, tp: TopicPartition, first: int) -> OffsetSpan:
        span = self._source.spans([tp])[tp]
        return OffsetSpan(max(span.start, first), span.end)

    def _with_originals(
        self, tp: TopicPartition, remote: TopicPartition, originals: OffsetSpan, copies: OffsetSpan
    ) -> OffsetSpan:
        """Return the copies without those of records that the source's retention has deleted since."""
        below = OffsetSpan(originals.start, max(originals.start, min(originals.end, self._ends[tp])))
        kept = [seen.fingerprint for seen in islice(self._seen(self._source, tp, below, tp.topic), _KEPT_RECORDS)]
        place = first_place(self._seen(self._target, remote, copies, tp.topic), kept)
        return copies if place is None else OffsetSpan(place, copies.end)

    def _compare(
        self,
        tp: TopicPartition,
        remote: TopicPartition,
        originals: OffsetSpan,
        copies: OffsetSpan,
        positions: list[int],
    ) -> Copied:
        return compare_copies(
            self._seen(self._source, tp, originals, tp.topic),
            self._seen(self._target, remote, copies, tp.topic),
            copies.start,
            positions,
        )

    def _seen(self, reader: RecordReader, tp: TopicPartition, span: OffsetSpan, topic: str) -> Iterator[ComparedRecord]:
        dated = self.chosen.with_timestamps[topic]
        for record in reader.scan({tp: span}, READ_SECONDS, take=record_of):
            yield ComparedRecord(record.offset, record.fingerprint(dated))

    def _foreign(self, tp: TopicPartition, passed_over: tuple[ComparedRecord, ...]) -> list[int]:
        """Return the target offsets of records that are no repeats: another writer wrote them."""
        foreign: dict[str, list[int]] = {}
        for seen in passed_over:
            foreign.setdefault(seen.fingerprint, []).append(seen.offset)
        source = self._seen(self._source, tp, self._source.spans([tp])[tp], tp.topic) if foreign else ()
        for seen in source:
            foreign.pop(seen.fingerprint, None)
        return sorted(offset for offsets in foreign.values() for offset in offsets)

    def _missing(self, tp: TopicPartition, copied: Copied) -> Contradiction:
        request = self._procedure.request
        return Contradiction(
            f"A record of {request.source} has no copy on {request.target}",
            f"{tp}: offset {copied.missing}; {copied.records} records before it are there, in order",
            "Read the log of the Connect worker at the time of the copying, and mend what it names. Then clear"
            " verify_copies: records that have arrived since count.",
        )
