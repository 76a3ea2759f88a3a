"""Looks at a flow again and again. What cannot be read is named in the sample, and looked at again next time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import decode_heartbeat
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.mirror_maker.patterns import group_filter_of, topic_filter_of
from kafka_dr.domain.recorder_rows import NONE_KEPT, Kind, NewestRows, PartitionSeen, RecorderRows, RowPlace
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.recorder.clients import ASK_SECONDS, SILENT, Access, Side
from kafka_dr.recorder.content_pairing import Pairing
from kafka_dr.recorder.groups import Groups
from kafka_dr.recorder.mirror_topics import LOCATION, MirrorTopics

#: Of an interval, for own pairs: all the rest of a look takes a second or two.
_PAIRING_SHARE = 0.6


class Looker:
    """One flow, and what was last written down of it."""

    def __init__(
        self,
        flow: Flow,
        naming: Naming,
        access: Access,
        interval_seconds: float = 10.0,
        read_before: Callable[[], Mapping[RowPlace, int]] = dict,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            interval_seconds: from one look to the next.
            read_before: how far MirrorMaker 2's topics were read by earlier recorders.
        """
        self.flow, self.naming, self.access = flow, naming, access
        self._configs: dict[str, dict[str, str]] = {
            "source": dict(flow.mirror_maker),
            "checkpoint": dict(flow.mirror_maker),
        }
        self._version = ""
        self._syncs_location = flow.mirror_maker.get(LOCATION)
        self._mirror_topics = MirrorTopics(flow, naming, access, read_before)
        self._replicated: dict[TopicPartition, int | None] | None = None
        self._source_answered = True
        self._partitions: NewestRows[TopicPartition, PartitionSeen] = NewestRows()
        self._gone: NewestRows[str, str] = NewestRows()
        self._missing: frozenset[str] = frozenset()
        self._groups = Groups(access.source)
        self._topic_ids: dict[str, str] = {}
        self._pairing = Pairing(access, _PAIRING_SHARE * interval_seconds)
        self._problems: list[str] = []

    def look(self, whole: bool) -> RecorderRows:
        """One sample: what differs from what is known, or everything."""
        rows, self._problems = RecorderRows(int(time.time() * 1000)), []
        states = self._connect()
        flows_back = self._flows_back()
        # The target first: records written between the two looks are in no pair of ends.
        target = self._side(self.access.target, "the target", self._mirrored)
        source = self._side(self.access.source, "the source", self._replicating)
        self._source_answered = source.answered
        both = self._both(source, target)
        changed = self._partitions.differing(both, whole)
        for seen in changed.values():
            rows.add(Kind.PARTITION, **seen._asdict())
        self._pairing.owe(changed)
        self._look_for_gone(rows, source, target, whole)
        self._read_mirror_topics(rows, source, target)
        # After the checkpoints: one that is read later may say more than the positions.
        groups_read = self._look_at_groups(rows, source, whole)
        if source.answered and not flows_back:
            with self._tolerating("own pairs"):
                self._problems += self._pairing.write(rows, both)
        heartbeat_at = self._heartbeat(target)
        told = {
            "whole": whole,
            "source_answered": source.answered,
            "problems": self._problems,
            "connectors": states,
            "flows_back": flows_back,
            "heartbeat_at": heartbeat_at,
            "groups_read": groups_read,
            "read_to": self._mirror_topics.read_to,
            "took_ms": int(time.time() * 1000) - rows.at,
        }
        rows.add(Kind.SAMPLE, details=json.dumps(told))
        return rows

    @contextmanager
    def _tolerating(self, what: str) -> Iterator[None]:
        try:
            yield
        except SwitchbackError as error:
            self._problems.append(f"{what}: {error.reason}. Seen: {error.seen}")

    # -- both sides ------------------------------------------------------------------------------------------------

    def _connect(self) -> dict[str, str]:
        """Connectors' states; version, configuration and offsets are kept for as long as the worker does not answer."""
        states: dict[str, str] = {}
        worker, names = self.access.worker, self.flow.connectors
        if worker is None:
            return states
        with self._tolerating("Connect"):
            for kind, name in (("source", names.source), ("checkpoint", names.checkpoint)):
                states[kind] = str(worker.status(name, ASK_SECONDS))
                self._configs[kind] = worker.config(name, ASK_SECONDS)
            self._version = worker.worker(ASK_SECONDS).version
            self._syncs_location = self._configs["source"].get(LOCATION, "source")
            self._replicated = worker.offsets(names.source, ASK_SECONDS).of(self.flow.source)
        return states

    def _flows_back(self) -> bool | None:
        """Whether the flow the other way may be mirroring into what this one reads; None where it was not said."""
        flow_back = self.access.flow_back
        if flow_back is None:
            return False
        with self._tolerating("the flow back"):
            # Its worker stands beside the source: where that is away, it is not waited for as well.
            return flow_back.may_mirror() if self._source_answered else None
        return None

    def _side(
        self, cluster: KafkaCluster, what: str, wanted: Callable[[Mapping[str, TopicInfo]], list[TopicPartition]]
    ) -> Side:
        with self._tolerating(what):
            topics = cluster.topics(timeout=ASK_SECONDS)
            partitions = wanted(topics)
            ends = cluster.ends(partitions, timeout=ASK_SECONDS)
            starts = cluster.starts(partitions, timeout=ASK_SECONDS)
            return Side(True, topics, {tp: OffsetSpan(starts[tp], ends[tp]) for tp in partitions})
        return SILENT

    def _replicating(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Partitions of the source's topics that the flow mirrors."""
        selects = topic_filter_of(self._configs["source"], self.naming, self.flow.target, self._version)
        return [
            TopicPartition(name, p)
            for name, info in topics.items()
            if selects(name) and not self.naming.is_heartbeats(name)
            for p in info.partitions
        ]

    def _mirrored(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """List the target's partitions that hold what the flow mirrors, by name and by known source topics."""
        known = {self._remote(tp) for tp in self._partitions.known}
        selects = topic_filter_of(self._configs["source"], self.naming, self.flow.target, self._version)
        named = {name for name in topics if (up := self._upstream(name)) is not None and selects(up)}
        return [
            TopicPartition(name, p)
            for name in sorted(named | {tp.topic for tp in known})
            if name in topics
            for p in topics[name].partitions
        ]

    def _upstream(self, topic: str) -> str | None:
        """The source's name of a target topic; under identity naming they are alike."""
        return (
            self.naming.upstream(topic)
            if self.naming.source_alias(topic) == self.flow.source
            else topic
            if self.naming.remote(self.flow.source, topic) == topic
            else None
        )

    def _remote(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self.naming.remote(self.flow.source, tp.topic), tp.partition)

    def _both(self, source: Side, target: Side) -> dict[TopicPartition, PartitionSeen]:
        """Every partition that the source has, or had when it last answered."""
        partitions = source.spans if source.answered else self._partitions.known
        return {tp: self._seen(tp, source, target) for tp in sorted(partitions)}

    def _seen(self, tp: TopicPartition, source: Side, target: Side) -> PartitionSeen:
        remote = self._remote(tp)
        here, there = source.spans.get(tp), target.spans.get(remote)
        return PartitionSeen(
            topic=tp.topic,
            partition=tp.partition,
            target_topic=remote.topic,
            topic_id=source.topics[tp.topic].topic_id if here else None,
            target_topic_id=target.topics[remote.topic].topic_id if there else None,
            source_start=here.start if here else None,
            source_end=here.end if here else None,
            target_start=there.start if there else None,
            target_end=there.end if there else None,
            replicated=self._last_replicated(tp),
        )

    def _last_replicated(self, tp: TopicPartition) -> int | None:
        if self._replicated is None:
            return None
        kept = self._replicated.get(tp)
        return NONE_KEPT if kept is None else kept

    def _look_for_gone(self, rows: RecorderRows, source: Side, target: Side, whole: bool) -> None:
        """Write down topics of the flow that the source lacks in two samples in a row: deleted there, so no loss.

        A source that has none of them left has lost them all: that is what the record is kept for.
        """
        if not source.answered:
            return
        missing = frozenset(self._mirrored_topics(target) - set(source.topics)) if source.spans else frozenset()
        gone, self._missing = missing & self._missing, missing
        for topic in self._gone.differing(dict.fromkeys(sorted(gone), "Gone"), whole):
            rows.add(Kind.TOPIC, topic=topic, state="Gone")
        self._gone.gone(gone)
        # One that comes back is written down again, also if it is what it was.
        self._partitions.gone([tp for tp in self._partitions.known if tp.topic not in gone])

    def _mirrored_topics(self, target: Side) -> set[str]:
        """Source topics that were seen there, have an offset in Connect, or have copies named so on the target."""
        replicated = {tp.topic for tp, offset in (self._replicated or {}).items() if offset is not None}
        copies = {
            self.naming.upstream(name)
            for name in target.topics
            if self.naming.source_alias(name) == self.flow.source and not self.naming.is_internal(name)
        }
        named = {
            topic for topic in (*replicated, *copies) if topic is not None and not self.naming.is_heartbeats(topic)
        }
        return {*named, *(tp.topic for tp in self._partitions.known), *self._gone.known}

    def _read_mirror_topics(self, rows: RecorderRows, source: Side, target: Side) -> None:
        with self._tolerating("offset syncs"):
            self._problems += self._mirror_topics.write_syncs(rows, self._syncs_location, source, target)
        with self._tolerating("checkpoints"):
            self._problems += self._mirror_topics.write_checkpoints(rows, target)

    def _look_at_groups(self, rows: RecorderRows, source: Side, whole: bool) -> str | None:
        """Whether the groups were listed, and how; a source that is away was named, and is waited for once."""
        ids = {tp.topic: source.topics[tp.topic].topic_id for tp in source.spans}
        # With a topic made anew Kafka dropped its positions: one that is as high again must be told from them.
        if whole or any(self._topic_ids.get(topic, topic_id) != topic_id for topic, topic_id in ids.items()):
            self._groups.owe_whole()
        self._topic_ids |= ids
        with self._tolerating("groups"):
            return (
                self._groups.write(rows, source, group_filter_of(self._configs["checkpoint"]).selects)
                if source.answered
                else None
            )
        return None

    def _heartbeat(self, target: Side) -> int | None:
        """When MirrorMaker 2's newest heartbeat on the target was emitted, in milliseconds since 1970."""
        topic = self.naming.remote(self.flow.source, self.naming.heartbeats_topic)
        with self._tolerating("heartbeats"):
            partitions = (
                [TopicPartition(topic, p) for p in target.topics[topic].partitions] if topic in target.topics else []
            )
            tails = self.access.target_records.last_records(partitions, timeout=ASK_SECONDS)
            stamps = [
                decode_heartbeat(tail.last.key, tail.last.value).timestamp for tail in tails.values() if tail.last
            ]
            return max(stamps, default=None)
        return None
