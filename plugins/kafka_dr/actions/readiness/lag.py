"""Measure a flow's lag by comparing the logs of both clusters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.lag import (
    FlowLag,
    PartitionLag,
    SeenRecord,
    SourceLog,
    in_flow,
    lag_of_partition,
    unproven_begins,
)
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import OffsetSpan, RecordDigest, Tail, digest_of
from kafka_dr.procedure.run import Run

#: Records that are read on the source for all lagging partitions together, and least and most for one partition.
_READ_IN_ALL, _LEAST, _MOST = 40_000, 5, 500
_READ_SECONDS = 15.0
#: Digest that no record has: the target's newest record is not known.
_NO_RECORD = ""


def measure_lag(procedure: Run, observation: Observation) -> FlowLag:
    """Return the lag of the flow that was observed.

    Raises:
        KafkaUnavailable: a cluster did not answer in time.
    """
    source, partitions = procedure.systems.source, list(observation.last.source_ends)
    ends, at = _ends_of_existing(source, partitions), time.time()
    starts = observation.source_starts
    begins = unproven_begins(starts, ends, observation.flow.replicated)
    if not begins:
        return in_flow((), len(ends), at)
    tails = _newest_copies(procedure, observation, begins)
    ends_after = _ends_of_existing(source, begins)
    begins = {tp: begin for tp, begin in begins.items() if tp in ends_after}
    first = _first_to_read(procedure, begins, starts, tails)
    read = _read_above(procedure, first, ends_after)
    # Where the newest copy was not found, above all that Connect counts as replicated: the copy has another writer.
    lost = {tp: begin for tp, begin in begins.items() if not _is_found(tails.get(tp), read[tp].records)}
    read |= _read_above(procedure, lost, ends_after)
    return in_flow(
        (_lag(tp, SourceLog(begin, ends[tp], ends_after[tp]), tails.get(tp), read[tp]) for tp, begin in begins.items()),
        len(ends),
        at,
    )


def _ends_of_existing(cluster: KafkaCluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return log ends; partitions of topics that were deleted meanwhile are left out."""
    left = list(partitions)
    while True:
        try:
            return cluster.ends(left)
        except KafkaUnavailable:
            topics = cluster.topics()
            existing = [tp for tp in left if tp.topic in topics]
            if len(existing) == len(left):
                raise
            left = existing


def _newest_copies(
    procedure: Run, observation: Observation, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Tail[RecordDigest]]:
    """Return the last record of each partition that the target has, by source partition."""
    remote = {
        tp: to for tp, to in remote_partitions(procedure, partitions).items() if tp in observation.last.target_ends
    }
    tails = procedure.systems.reader(procedure.request.target).last_records(remote.values(), take=digest_of)
    return {tp: tails[to] for tp, to in remote.items()}


def _first_to_read(
    procedure: Run,
    begins: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    tails: Mapping[TopicPartition, Tail[RecordDigest]],
) -> dict[TopicPartition, int]:
    """Return where the newest copy may be on the source: at its timestamp, at least below `begin`."""
    times = {
        tp: record.timestamp
        for tp, tail in tails.items()
        for record in tail.records
        if record.timestamp is not None and not record.log_append_time
    }
    same_time = procedure.systems.source.offsets_at(times) if times else {}
    return {tp: max(begin - 1, starts[tp], same_time.get(tp, -1)) for tp, begin in begins.items()}


@dataclass
class _Read:
    """Records of one partition that were read, and up to which offset."""

    to: int
    records: list[RecordDigest] = field(default_factory=list)


def _read_above(
    procedure: Run, first: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, _Read]:
    """Read some records of each partition from an offset on; of a partition that cannot be read, none."""
    most = max(_LEAST, min(_MOST, _READ_IN_ALL // max(1, len(first))))
    spans = {tp: OffsetSpan(start, max(start, min(ends[tp], start + most))) for tp, start in first.items()}
    read, given_up = {tp: _Read(span.end) for tp, span in spans.items()}, dict[TopicPartition, str]()
    reader = procedure.systems.reader(procedure.request.source)
    for record in reader.scan(spans, _READ_SECONDS, take=digest_of, given_up=given_up):
        read[record.topic_partition].records.append(record)
    return read | {tp: _Read(spans[tp].start) for tp in given_up}


def _digest(record: RecordDigest, like: RecordDigest) -> str:
    return record.fingerprint(with_timestamp=not like.log_append_time)


def _is_found(tail: Tail[RecordDigest] | None, records: Iterable[RecordDigest]) -> bool:
    return any(
        _digest(record, copy) == _digest(copy, copy) for copy in (tail.records if tail else ()) for record in records
    )


def _lag(partition: TopicPartition, log: SourceLog, tail: Tail[RecordDigest] | None, read: _Read) -> PartitionLag:
    copy = tail.records[-1] if tail and tail.records else None
    like = copy or (read.records[0] if read.records else None)
    seen = [SeenRecord(r.offset, _digest(r, like or r), r.timestamp, r.size) for r in read.records]
    newest = None if tail is None or tail.end == 0 else _digest(copy, copy) if copy else _NO_RECORD
    dated = copy is not None and not copy.log_append_time
    return lag_of_partition(partition, log, newest, seen, read.to, dated)
