"""Find out whether the newest record of a mirrored partition came from the source, or from another writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.hooks.brokers.record import OffsetSpan, RecordDigest, digest_of
from kafka_dr.procedure.run import Run

_READ_SECONDS, _MOST_ALIKE = 15.0, 200


def foreign_records(procedure: Run, o: Observation) -> dict[TopicPartition, str]:
    """Return source partition -> what shows that the target's newest record is not one of the source's.

    A record keeps its timestamp when it is mirrored, so the original is looked for at that time. Compacted topics, and
    records to which brokers gave the time, prove nothing and are left out; so is a partition of which the source may
    have deleted the original.

    Raises:
        KafkaUnavailable: a cluster did not answer in time.
    """
    newest = _newest_dated(procedure, o)
    times = {tp: record.timestamp for tp, record in newest.items() if record.timestamp is not None}
    first = procedure.systems.source.offsets_at(times) if times else {}
    found = {tp: f"offset {newest[tp].offset}: no record of the source is so new" for tp in times if first[tp] < 0}
    # Read after the copies: the original of the newest copy may be newer than the observation.
    ends = procedure.systems.source.ends(times)
    spans = {
        tp: OffsetSpan(offset, min(ends[tp], offset + _MOST_ALIKE))
        for tp, offset in first.items()
        if offset > o.source_starts[tp] or offset == o.source_starts[tp] == 0
    }
    originals = _read_spans(procedure, spans)
    for tp, span in spans.items():
        alike = originals.get(tp)
        if alike is None or (span.end < ends[tp] and alike and not _is_newer(alike[-1], newest[tp])):
            continue
        if newest[tp].dated not in {record.dated for record in alike}:
            found[tp] = f"offset {newest[tp].offset}: the source has another record at its time"
    return found


def _newest_dated(procedure: Run, o: Observation) -> dict[TopicPartition, RecordDigest]:
    """Return the target's newest record of each partition that can be looked for on the source."""
    plain = {topic for topic in o.scope if "compact" not in o.source.topics[topic].configs.get("cleanup.policy", "")}
    partitions = [
        tp
        for tp, end in o.last.target_ends.items()
        if end > 0 and tp.topic in plain and o.last.source_ends.get(tp, 0) > o.source_starts.get(tp, 0)
    ]
    remote = remote_partitions(procedure, partitions)
    tails = procedure.systems.reader(procedure.request.target).last_records(remote.values(), take=digest_of)
    return {
        tp: tails[to].records[-1]
        for tp, to in remote.items()
        if tails[to].records and not tails[to].records[-1].log_append_time
    }


def _read_spans(procedure: Run, spans: Mapping[TopicPartition, OffsetSpan]) -> dict[TopicPartition, list[RecordDigest]]:
    """Return the records of the spans, by partition; one that cannot be read is left out."""
    given_up = dict[TopicPartition, str]()
    records: dict[TopicPartition, list[RecordDigest]] = {tp: [] for tp in spans}
    reader = procedure.systems.reader(procedure.request.source)
    read: Iterable[RecordDigest] = reader.scan(spans, _READ_SECONDS, take=digest_of, given_up=given_up)
    for record in read:
        records[record.topic_partition].append(record)
    return {tp: found for tp, found in records.items() if tp not in given_up}


def _is_newer(record: RecordDigest, than: RecordDigest) -> bool:
    return (record.timestamp or 0) > (than.timestamp or 0)
