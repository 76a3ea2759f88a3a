"""Read which clients the source has, of every kind: groups of all protocols, members, transactional ids."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from kafka_dr.domain.clients.inventory import STREAMS_ASSIGNOR, SeenClients
from kafka_dr.domain.kafka_model.groups import GroupRecord, group_record
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction
from kafka_dr.domain.mirror_maker.patterns import group_filter_of
from kafka_dr.domain.readiness.observation import ClusterView, FlowView, GroupView
from kafka_dr.domain.recorder_rows import commits_partition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.record import Consumed, OffsetSpan
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import COMMITS_TOPIC

#: How long __consumer_offsets is read for session timeouts, in seconds; records by which the first window reaches back
#: from the log's end, and how much further each next window reaches.
_READ_SECONDS, _FIRST_WINDOW, _GROWTH = 15.0, 20_000, 8


def see_clients(
    procedure: Run, source: ClusterView, flow: FlowView, scope: Mapping[str, str], moved: frozenset[str]
) -> SeenClients:
    """Return what is read of the source's clients; in a drill, of the clients that the drill's flow selects.

    Args:
        source: the source, as observed just now.
        flow: the flow that is to move.
        scope: source topic -> its name on the target.
        moved: groups that move.

    Raises:
        KafkaUnavailable: a broker does not list its groups.
    """
    selects = group_filter_of(flow.checkpoint_connector.config if flow.checkpoint_connector else {})
    listed = procedure.systems.source.every_broker.groups(source.brokers)
    # A group may have been deleted since its positions were read.
    waited_for = moved.intersection(source.groups).difference(procedure.request.exclude_groups)
    staying = {name: members for name in sorted(waited_for) if (members := _staying_members(source.groups[name]))}
    deadlines = procedure.request.deadlines
    return SeenClients(
        groups={name: group for name, group in listed.items() if selects(name) or not procedure.in_drill},
        moved=moved,
        left_out=frozenset(name for name in listed if not selects(name)),
        topics={topic: scope.get(topic) for topic in source.topics},
        assignors={name: view.assignor for name, view in source.groups.items() if view.assignor},
        staying=_with_sessions(procedure, source, staying),
        waits=min(deadlines.drain_seconds + deadlines.fence_seconds, deadlines.max_fence_seconds),
        transactions=() if procedure.in_drill else _transactional_ids(procedure, source),
        connectors=tuple(connector.name for connector in flow.connectors),
    )


def _staying_members(group: GroupView) -> tuple[str, ...]:
    """Return the members that stay in a group when they are stopped: static ones, and "" for those of Kafka Streams."""
    others_stay = group.assignor == STREAMS_ASSIGNOR and len(group.members) > len(group.static)
    return (*group.static, "") if others_stay else group.static


def _transactional_ids(procedure: Run, source: ClusterView) -> tuple[KnownTransaction, ...] | None:
    try:
        return tuple(procedure.systems.source.every_broker.transactional_ids(source.brokers))
    except KafkaUnavailable:
        return None


def _with_sessions(
    procedure: Run, source: ClusterView, staying: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, float | None]]:
    """Return group -> session timeout by member that stays, in seconds; None where it cannot be read.

    The brokers decide the session timeout of the newer protocol. A classic member states its own when it joins, and no
    request shows that: it stands in the group's record in __consumer_offsets.
    """
    newer = [name for name in staying if source.groups[name].group_type == "consumer"]
    of_group = _newer_sessions(procedure, source, newer) if newer else {}
    of_member = _classic_sessions(procedure, staying.keys() - set(newer))
    return {
        name: {member: of_group.get(name, of_member.get(name, {}).get(member)) for member in members}
        for name, members in staying.items()
    }


def _newer_sessions(procedure: Run, source: ClusterView, groups: Iterable[str]) -> dict[str, float]:
    try:
        return procedure.systems.source.every_broker.session_seconds(source.brokers[0], groups)
    except KafkaUnavailable:
        return {}


def _classic_sessions(procedure: Run, groups: Collection[str]) -> dict[str, Mapping[str, float]]:
    """Return group -> its session timeouts in seconds, as far as the newest records of these groups are found."""
    found: dict[str, Mapping[str, float]] = {}
    if not groups:
        return found
    ends_at = time.monotonic() + _READ_SECONDS
    try:
        commits = procedure.systems.source.topics([COMMITS_TOPIC])
        count = len(commits[COMMITS_TOPIC].partitions) if COMMITS_TOPIC in commits else 0
        where = {group: TopicPartition(COMMITS_TOPIC, commits_partition(group, count)) for group in groups if count}
        reader, back = procedure.systems.reader(procedure.request.source), _FIRST_WINDOW
        logs = reader.spans(where.values())
        while missing := {tp for group, tp in where.items() if group not in found and logs[tp].start < logs[tp].end}:
            windows = {tp: OffsetSpan(max(logs[tp].start, logs[tp].end - back), logs[tp].end) for tp in missing}
            newest = {
                record.group: record.session_seconds
                for record in reader.scan(windows, ends_at - time.monotonic(), take=_record_of)
                if record is not None and record.group in where
            }
            found |= {group: sessions for group, sessions in newest.items() if group not in found}
            logs |= {tp: OffsetSpan(logs[tp].start, window.start) for tp, window in windows.items()}
            back *= _GROWTH
    except KafkaUnavailable:
        # What is not found stays unknown, which the plan says.
        pass
    return found


def _record_of(message: Consumed) -> GroupRecord | None:
    return group_record(message.key(), message.value())
