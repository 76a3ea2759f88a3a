"""Read whether offset syncs, checkpoints and heartbeats have the records that they should have."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.diagnosis.positions import syncs_exist
from kafka_dr.actions.readiness.signs import heartbeat_at, offset_sync_at
from kafka_dr.actions.scope.internal_topics import syncs_place
from kafka_dr.domain.diagnosis.groups import GroupPlace
from kafka_dr.domain.diagnosis.internal_topics import InternalKind, InternalTopicFacts
from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import count_of, format_duration
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.hooks.brokers.record import digest_of
from kafka_dr.procedure.run import Run

_SECONDS = 10.0
#: Default of MirrorMaker 2's offset.lag.max. From Kafka 3.7 on, a sync is also written at each flush of offsets.
_OFFSET_LAG, _FLUSHES_SYNCS = 100.0, (3, 7)
#: Margin of a timestamp, in seconds: clocks of the machines differ.
_MARGIN = 1.0


def internal_topic_facts(
    procedure: Run,
    o: Observation,
    copies: bool,
    copies_heartbeats: bool,
    checkpoints_work: bool,
    places: Iterable[GroupPlace],
    now: float,
) -> list[InternalTopicFacts]:
    """Return what the tree of the internal topics asks.

    Args:
        copies: whether a source connector works, and nothing says that it copies no records.
        copies_heartbeats: whether nothing says so of the task that mirrors heartbeats, either.
        checkpoints_work: whether the checkpoint connector works, and the settings by which it reads offset syncs.
        now: seconds since 1970.
    """
    facts = [_offset_syncs(procedure, o, copies, now), _checkpoints(procedure, o, checkpoints_work, places)]
    if procedure.flow.connectors.heartbeat is not None:
        facts.append(_heartbeats(procedure, o, copies_heartbeats, now))
    return facts


def _age_text(newest: float | None, now: float) -> str:
    return (
        "it has no record" if newest is None else f"newest record {format_duration(round(max(0.0, now - newest)))} ago"
    )


def _offset_syncs(procedure: Run, o: Observation, copies: bool, now: float) -> InternalTopicFacts:
    alias, topic = syncs_place(procedure, procedure.flow)
    newest = offset_sync_at(procedure)
    return InternalTopicFacts(
        kind=InternalKind.OFFSET_SYNCS,
        name=topic,
        alias=alias,
        exists=syncs_exist(procedure, o),
        due=_records_since(procedure, o, newest, now),
        newest=_age_text(newest, now),
        writer_works=copies,
    )


def _records_since(procedure: Run, o: Observation, newest: float | None, now: float) -> str:
    """Return how many records since the newest offset sync should have caused another; "" if none.

    Args:
        newest: time of that sync, in seconds since 1970; None without one.
    """
    partitions = [tp for tp, end in o.last.target_ends.items() if end > 0]
    until = now - procedure.flow.readiness.checkpoint_latency_seconds
    if not partitions or (newest is not None and newest + _MARGIN >= until):
        return ""
    to = _offsets_at(procedure, o, partitions, until)
    since = dict.fromkeys(partitions, 0) if newest is None else _offsets_at(procedure, o, partitions, newest + _MARGIN)
    config = o.flow.source_config
    flushes = (kafka_version(o.flow.worker.version) or _FLUSHES_SYNCS) >= _FLUSHES_SYNCS
    enough = 0 if flushes else float(config.get("offset.lag.max", _OFFSET_LAG))
    written = {tp: to[tp] - max(since[tp], o.source_starts.get(tp, 0)) for tp in partitions}
    due = {tp: count for tp, count in written.items() if count > enough}
    return f"{count_of(sum(due.values()), 'record')} of {count_of(len(due), 'partition')} since" if due else ""


def _offsets_at(
    procedure: Run, o: Observation, partitions: list[TopicPartition], at: float
) -> dict[TopicPartition, int]:
    """Return the first source offset of a time or later, by partition; the log end without such a record."""
    found = procedure.systems.source.offsets_at(dict.fromkeys(partitions, round(at * 1000)))
    return {tp: o.last.source_ends[tp] if found.get(tp, -1) < 0 else found[tp] for tp in partitions}


def _checkpoints(procedure: Run, o: Observation, works: bool, places: Iterable[GroupPlace]) -> InternalTopicFacts:
    topic = procedure.naming.checkpoints_topic(procedure.flow.source)
    due = [place for place in places if place.selected and place.mirrored and place.due is not None]
    return InternalTopicFacts(
        kind=InternalKind.CHECKPOINTS,
        name=topic,
        alias=o.target.alias,
        exists=topic in o.target.topics,
        due=count_of(len(due), "position") + " could be translated" if due else "",
        writer_works=works,
    )


def _heartbeats(procedure: Run, o: Observation, copies: bool, now: float) -> InternalTopicFacts:
    limit = procedure.flow.readiness.replication_latency_seconds
    newest = heartbeat_at(procedure)
    late = newest is None or now - newest > limit
    written = _written_heartbeat(procedure) if late else None
    return InternalTopicFacts(
        kind=InternalKind.HEARTBEATS,
        name=procedure.naming.remote(procedure.flow.source, procedure.naming.heartbeats_topic),
        alias=o.target.alias,
        due=f"heartbeats of the last {format_duration(limit)}" if late else "",
        newest=_age_text(newest, now),
        writer_works=copies,
        written=written is not None and now - written <= limit if late else None,
    )


def _written_heartbeat(procedure: Run) -> float | None:
    """Return when the newest heartbeat was written on the source, in seconds since 1970; None without any."""
    topic = procedure.naming.heartbeats_topic
    found = procedure.systems.source.topics([topic], timeout=_SECONDS)
    partitions = found[topic].led if topic in found else []
    tails = procedure.systems.reader(procedure.request.source).last_records(
        partitions, timeout=_SECONDS, take=digest_of
    )
    times = [record.timestamp for tail in tails.values() for record in tail.records if record.timestamp is not None]
    return max(times) / 1000 if times else None
