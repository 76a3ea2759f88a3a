"""Takes samples of a flow: states of both clusters, of Connect and of groups.

A sample names the systems and topics that could not be read; the next sample tries to read them again.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.mirror_maker.patterns import group_filter_of
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.domain.recorder_rows import NONE_KEPT, Kind, NewestRows, PartitionSeen, RecorderRows, RowPlace
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.hooks.brokers.record import OffsetSpan, heartbeat_time, keep_part
from kafka_dr.recorder.clients import ASK_SECONDS, SILENT, Access, Side, ask_seconds
from kafka_dr.recorder.content_pairing import Pairing
from kafka_dr.recorder.groups import Groups
from kafka_dr.recorder.mirror_topics import LOCATION, MirrorTopics

#: Share of the interval for finding content pairs: the rest of a sample takes a second or two.
_PAIRING_SHARE = 0.6
#: Samples whose median distance counts as the recorder's pace: one slow sample is none.
_PACE_SAMPLES = 6


class Looker:
    """Takes samples of one flow; stores the last written states, because a sample writes changes only."""

    def __init__(
        self,
        flow: Flow,
        naming: Naming,
        access: Access,
        interval_seconds: float = 10.0,
        read_before: Callable[[], Mapping[RowPlace, int]] = dict,
    ) -> None:
        """Prepare the sampler; no sample is taken yet.

        Args:
            interval_seconds: time from the start of one sample to the start of the next; the search for content pairs
                may take only a part of this time.
            read_before: returns the next offsets of MirrorMaker 2's topics, where earlier recorders stopped reading.
        """
        self.flow, self.naming, self.access = flow, naming, access
        self._mirrors = FlowFilter({"": flow.mirror_maker}, naming, flow.target)
        self._checkpoint_config: Mapping[str, str] = flow.mirror_maker
        self._syncs_location = flow.mirror_maker.get(LOCATION)
        self._mirror_topics = MirrorTopics(flow, naming, access, read_before)
        self._replicated: dict[TopicPartition, int | None] | None = None
        self._source_answered = True
        self._partitions: NewestRows[TopicPartition, PartitionSeen] = NewestRows()
        self._deleted_topics: NewestRows[str, str] = NewestRows()
        self._missing_topics: frozenset[str] = frozenset()
        self._groups = Groups(access.source)
        self._topic_ids: dict[str, str] = {}
        self._interval_seconds = interval_seconds
        self._began: deque[float] = deque(maxlen=_PACE_SAMPLES)
        #: By cluster, the number of partitions in its last answer.
        self._sizes: dict[str, int] = {}
        self._pairing = Pairing(access, _PAIRING_SHARE * interval_seconds)
        self._problems: list[str] = []

    def look(self, whole: bool) -> RecorderRows:
        """Take one sample and return its rows: changes since the last sample, or all states if `whole`."""
        rows, self._problems = RecorderRows(int(time.time() * 1000)), []
        self._began.append(time.monotonic())
        states = self._read_connect()
        flows_back = self._flows_back()
        # Read the target first: then copies of records above the source's log end lie above the target's log end.
        target = self._read_cluster(self.access.target, "the target", self._mirrored)
        source = self._read_cluster(self.access.source, "the source", self._replicating)
        self._source_answered, rows.ids = source.answered, (source.cluster_id, target.cluster_id)
        partitions = self._join_clusters(source, target)
        changed = self._partitions.differing(partitions, whole)
        for state in changed.values():
            rows.add(Kind.PARTITION, **state._asdict())
        self._pairing.owe(changed)
        self._write_deleted_topics(rows, source, target, whole)
        self._read_mirror_topics(rows, source, target)
        # Read positions after the checkpoints: otherwise a checkpoint may be newer than its group's position.
        groups_read = self._write_groups(rows, source, whole)
        if source.answered and not flows_back:
            with self._tolerating("own pairs"):
                self._problems += self._pairing.write(rows, partitions)
        heartbeat_at = self._newest_heartbeat(target)
        details = {
            "whole": whole,
            "source_answered": source.answered,
            "problems": self._problems,
            "connectors": states,
            "flows_back": flows_back,
            "heartbeat_at": heartbeat_at,
            "groups_read": groups_read,
            "read_to": self._mirror_topics.read_to,
            "took_ms": int(time.time() * 1000) - rows.at,
            **self._pace(),
        }
        rows.add(Kind.SAMPLE, details=json.dumps(details))
        return rows

    def _pace(self) -> dict[str, float | None]:
        """Return how far behind its interval the recorder is, and what waits for a content pair; times in seconds."""
        apart = [later - earlier for earlier, later in pairwise(self._began)]
        waiting, oldest = self._pairing.waiting
        return {
            "interval_seconds": self._interval_seconds,
            "every_seconds": round(statistics.median(apart), 1) if apart else None,
            "pairs_waiting": waiting,
            "pairs_wait_seconds": round(oldest, 1),
        }

    @contextmanager
    def _tolerating(self, what: str) -> Iterator[None]:
        try:
            yield
        except SwitchbackError as error:
            self._problems.append(f"{what}: {error.reason}. Seen: {error.seen}")

    # -- both clusters ---------------------------------------------------------------------------------------------

    def _read_connect(self) -> dict[str, str]:
        """Read the recorded flow's connectors from Connect, and return their states.

        The connectors' settings and the last replicated offsets are stored in the object; if a worker does not answer,
        the values of an earlier sample stay.

        Returns:
            States by the keys `source` (of all source connectors) and `checkpoint`, as far as Connect answered; {} in
            dedicated mode.
        """
        states: dict[str, str] = {}
        connectors = self.access.connectors
        if connectors is None:
            return states
        with self._tolerating("Connect"):
            states["source"] = "; ".join(str(connectors.status(name, ASK_SECONDS)) for name in connectors.sources)
            self._mirrors = connectors.topic_filter(ASK_SECONDS)
            self._syncs_location = self._mirrors.configs[connectors.sources[0]].get(LOCATION, "source")
            many = ask_seconds(max(self._sizes.values(), default=0))
            self._replicated = connectors.offsets(many).of(self.flow.source)
            states["checkpoint"] = str(connectors.status(connectors.checkpoint, ASK_SECONDS))
            self._checkpoint_config = connectors.config(connectors.checkpoint, ASK_SECONDS)
        return states

    def _flows_back(self) -> bool | None:
        """Whether the reverse flow may be writing into the source topics of the sampled flow; None if unknown."""
        flow_back = self.access.flow_back
        if flow_back is None:
            return False
        with self._tolerating("the reverse flow"):
            # The reverse flow's worker runs near the source: if the source did not answer, do not wait for the worker.
            return flow_back.may_mirror() if self._source_answered else None
        return None

    def _read_cluster(
        self, cluster: KafkaCluster, what: str, partitions_of: Callable[[Mapping[str, TopicInfo]], list[TopicPartition]]
    ) -> Side:
        with self._tolerating(what):
            size = self._sizes.get(what) or cluster.partition_count(ASK_SECONDS)
            topics = cluster.topics(timeout=ask_seconds(size))
            self._sizes[what] = sum(len(topic.partitions) for topic in topics.values())
            partitions = partitions_of(topics)
            leaderless = tuple(tp for tp in partitions if topics[tp.topic].partitions[tp.partition] is None)
            led = sorted(set(partitions).difference(leaderless))
            if leaderless:
                self._problems.append(
                    f"{what}: {count_of(len(leaderless), 'partition')} without leader: {first_few(leaderless, 3)}"
                )
            ends = cluster.ends(led, timeout=ask_seconds(len(led)))
            starts = cluster.starts(led, timeout=ask_seconds(len(led)))
            spans = {tp: OffsetSpan(starts[tp], ends[tp]) for tp in led}
            return Side(True, topics, spans, cluster.seen_id, leaderless)
        # A cluster that is away must not delay the next samples by the time that a large one may take.
        self._sizes.pop(what, None)
        return SILENT

    def _replicating(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Return the source's partitions that the flow mirrors."""
        selects = self._mirrors.selects
        return [
            TopicPartition(name, p)
            for name, info in topics.items()
            if selects(name) and not self.naming.is_heartbeats(name)
            for p in info.partitions
        ]

    def _mirrored(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Return the target's partitions into which the flow mirrors.

        These are all partitions of target topics whose name is that of a mirrored topic, or whose source topic is in an
        earlier sample.
        """
        sampled = {self._remote(tp) for tp in self._partitions.known}
        selects = self._mirrors.selects
        named = {name for name in topics if (up := self._upstream(name)) is not None and selects(up)}
        return [
            TopicPartition(name, p)
            for name in sorted(named | {tp.topic for tp in sampled})
            if name in topics
            for p in topics[name].partitions
        ]

    def _upstream(self, topic: str) -> str | None:
        """Return the source topic of which a target topic is the copy; None if this flow does not write the topic.

        Under identity naming both topics have the same name.
        """
        return (
            self.naming.upstream(topic)
            if self.naming.source_alias(topic) == self.flow.source
            else topic
            if self.naming.remote(self.flow.source, topic) == topic
            else None
        )

    def _remote(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self.naming.remote(self.flow.source, tp.topic), tp.partition)

    def _join_clusters(self, source: Side, target: Side) -> dict[TopicPartition, PartitionSeen]:
        """Return the state on both clusters by source partition; without source offsets where it has no leader.

        If the source does not answer, the partitions are those of earlier samples.
        """
        partitions = [*source.spans, *source.leaderless] if source.answered else self._partitions.known
        return {tp: self._partition_state(tp, source, target) for tp in sorted(partitions)}

    def _partition_state(self, tp: TopicPartition, source: Side, target: Side) -> PartitionSeen:
        remote = self._remote(tp)
        source_span, target_span = source.spans.get(tp), target.spans.get(remote)
        return PartitionSeen(
            topic=tp.topic,
            partition=tp.partition,
            target_topic=remote.topic,
            topic_id=source.topics[tp.topic].topic_id if source_span else None,
            target_topic_id=target.topics[remote.topic].topic_id if target_span else None,
            source_start=source_span.start if source_span else None,
            source_end=source_span.end if source_span else None,
            target_start=target_span.start if target_span else None,
            target_end=target_span.end if target_span else None,
            replicated=self._last_replicated(tp),
        )

    def _last_replicated(self, tp: TopicPartition) -> int | None:
        if self._replicated is None:
            return None
        last_offset = self._replicated.get(tp)
        return NONE_KEPT if last_offset is None else last_offset

    def _write_deleted_topics(self, rows: RecorderRows, source: Side, target: Side, whole: bool) -> None:
        """Write as deleted each topic of the flow that the source lacks in two samples in a row.

        The records of a deleted topic count as no loss. No topic counts as deleted if the source has none of the flow's
        topics, because such a source has lost its data.
        """
        if not source.answered:
            return
        has_topics = source.spans or source.leaderless
        missing = frozenset(self._mirrored_topics(target) - set(source.topics)) if has_topics else frozenset()
        deleted, self._missing_topics = missing & self._missing_topics, missing
        for topic in self._deleted_topics.differing(dict.fromkeys(sorted(deleted), "Gone"), whole):
            rows.add(Kind.TOPIC, topic=topic, state="Gone")
        self._deleted_topics.gone(deleted)
        # Drop the deleted topics' partitions: if a topic reappears, its partitions are written again, even unchanged.
        self._partitions.gone([tp for tp in self._partitions.known if tp.topic not in deleted])

    def _mirrored_topics(self, target: Side) -> set[str]:
        """Return the names of source topics that the flow mirrors or has mirrored.

        A topic is returned if it is in an earlier sample, if Connect stores a replicated offset of it, or if a target
        topic has the name of its copy.
        """
        replicated = {tp.topic for tp, offset in (self._replicated or {}).items() if offset is not None}
        copies = {
            self.naming.upstream(name)
            for name in target.topics
            if self.naming.source_alias(name) == self.flow.source and not self.naming.is_internal(name)
        }
        named = {
            topic for topic in (*replicated, *copies) if topic is not None and not self.naming.is_heartbeats(topic)
        }
        return {*named, *(tp.topic for tp in self._partitions.known), *self._deleted_topics.known}

    def _read_mirror_topics(self, rows: RecorderRows, source: Side, target: Side) -> None:
        with self._tolerating("offset syncs"):
            self._problems += self._mirror_topics.write_syncs(rows, self._syncs_location, source, target)
        with self._tolerating("checkpoints"):
            self._problems += self._mirror_topics.write_checkpoints(rows, target)

    def _write_groups(self, rows: RecorderRows, source: Side, whole: bool) -> str | None:
        """Write groups and positions; return `WHOLE` (all) or `CHANGED` (changes only); None if groups were not read.

        Groups are not requested if the source has not answered in this sample.

        Args:
            whole: whether all groups and positions are written, and not only changes. All are also written if a topic
                was recreated.
        """
        ids = {tp.topic: source.topics[tp.topic].topic_id for tp in (*source.spans, *source.leaderless)}
        # Kafka deletes a topic's positions with the topic: an equal position on a recreated topic is another position.
        if whole or any(self._topic_ids.get(topic, topic_id) != topic_id for topic, topic_id in ids.items()):
            self._groups.owe_whole()
        self._topic_ids |= ids
        read = None
        with self._tolerating("groups"):
            if source.answered:
                read = self._groups.write(rows, source, group_filter_of(self._checkpoint_config).selects)
        if read and self._groups.not_recorded:
            names = ", ".join(self._groups.not_recorded)
            self._problems.append(f"positions of groups of an unknown type: {names}")
        return read

    def _newest_heartbeat(self, target: Side) -> int | None:
        """Return the time of MirrorMaker 2's newest heartbeat on the target, in ms since 1970; None if unknown."""
        topic = self.naming.remote(self.flow.source, self.naming.heartbeats_topic)
        with self._tolerating("heartbeats"):
            partitions = target.topics[topic].led if topic in target.topics else []
            tails = self.access.target_records.last_records(partitions, keep_part(heartbeat_time), timeout=ASK_SECONDS)
            return max((tail.last.part for tail in tails.values() if tail.last), default=None)
        return None
