"""Looks at a flow again and again. What cannot be read is named in the sample, and looked at again next time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.mirror_records import Decoded, decode_checkpoints, decode_heartbeat, decode_offset_syncs
from kafka_dr.domain.naming import Naming
from kafka_dr.domain.own_pairs import OwnPair, Seen, own_pair, suffix_start
from kafka_dr.domain.patterns import group_filter_of, topic_filter_of
from kafka_dr.domain.recorded import Kind, Newest, PartitionSeen, Rows, commits_partition
from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable, SwitchbackError
from kafka_dr.hooks.kafka_cluster import KafkaCluster, TopicInfo
from kafka_dr.hooks.kafka_records import Record, RecordReader, Span
from kafka_dr.hooks.mirror_maker import MirrorMaker
from kafka_dr.topology import Flow
from kafka_dr.vocabulary import COMMITS_TOPIC

#: A system that does not answer must not keep the next sample waiting.
_ASK_SECONDS = 4.0
#: Source records read at one sample, over all partitions, to find the target's newest ones.
_MOST_RECORDS = 200_000
_MOVED_TYPES = ("classic", "consumer")


@dataclass
class Access:
    """What the recorder reads with; everything on the source may fail at any time.

    Attributes:
        worker: None where MirrorMaker 2 runs in dedicated mode, and nothing can be asked of it.
    """

    source: KafkaCluster
    target: KafkaCluster
    source_records: RecordReader
    target_records: RecordReader
    worker: MirrorMaker | None


@dataclass(frozen=True)
class Side:
    """One cluster at one sample; `answered` is False where it did not, and then nothing is known of it."""

    answered: bool
    topics: Mapping[str, TopicInfo]
    spans: Mapping[TopicPartition, Span]


_SILENT = Side(False, {}, {})


class Looker:
    """One flow, and what was last written down of it."""

    def __init__(self, flow: Flow, naming: Naming, access: Access) -> None:
        self.flow, self.naming, self.access = flow, naming, access
        self._configs: dict[str, dict[str, str]] = {"source": dict(flow.mirror_maker), "checkpoint": dict(flow.mirror_maker)}
        self._replicated: dict[TopicPartition, int | None] = {}
        self._partitions: Newest[TopicPartition, PartitionSeen] = Newest()
        self._gone: Newest[str, str] = Newest()
        self._missing: frozenset[str] = frozenset()
        self._groups: Newest[str, tuple[int, str]] = Newest()
        self._commits: Newest[int, int] = Newest()
        self._pairs: dict[TopicPartition, OwnPair] = {}
        self._read: dict[TopicPartition, int] = {}
        self._problems: list[str] = []

    def look(self, whole: bool) -> Rows:
        """One sample: what differs from what is known, or everything."""
        rows, self._problems = Rows(int(time.time() * 1000)), []
        states = self._connect()
        # The target first: records written between the two looks are in no pair of ends.
        target = self._side(self.access.target, "the target", self._mirrored)
        source = self._side(self.access.source, "the source", self._replicating)
        changed = self._partitions.differing(self._both(source, target), whole)
        for seen in changed.values():
            rows.add(Kind.PARTITION, **seen._asdict())
        self._look_for_gone(rows, source, target, whole)
        parts = {
            "groups": lambda: self._look_at_groups(rows, whole),
            "own pairs": lambda: self._look_for_pairs(rows, changed, source),
            "MirrorMaker 2's topics": lambda: self._read_internal_topics(rows, target),
        }
        for what, look in parts.items():
            with self._tolerating(what):
                look()
        told = {"whole": whole, "source_answered": source.answered, "problems": self._problems, "connectors": states, "heartbeat_at": self._heartbeat(target), "took_ms": int(time.time() * 1000) - rows.at}
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
        """Connectors' states; their configuration and offsets are kept for as long as the worker does not answer."""
        states: dict[str, str] = {}
        worker, names = self.access.worker, self.flow.connectors
        if worker is None:
            return states
        with self._tolerating("Connect"):
            for kind, name in (("source", names.source), ("checkpoint", names.checkpoint)):
                states[kind] = str(worker.status(name, _ASK_SECONDS))
                self._configs[kind] = worker.config(name, _ASK_SECONDS)
            self._replicated = worker.offsets(names.source, _ASK_SECONDS).of(self.flow.source)
        return states

    def _side(self, cluster: KafkaCluster, what: str, wanted: Callable[[Mapping[str, TopicInfo]], list[TopicPartition]]) -> Side:
        with self._tolerating(what):
            topics = cluster.topics(timeout=_ASK_SECONDS)
            partitions = wanted(topics)
            ends = cluster.ends(partitions, timeout=_ASK_SECONDS)
            starts = cluster.starts(partitions, timeout=_ASK_SECONDS)
            return Side(True, topics, {tp: Span(starts[tp], ends[tp]) for tp in partitions})
        return _SILENT

    def _replicating(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Partitions of the source's topics that the flow mirrors."""
        selects = topic_filter_of(self._configs["source"], self.naming, self.flow.target)
        return [TopicPartition(name, p) for name, info in topics.items() if selects(name) and not self.naming.is_heartbeats(name) for p in info.partitions]

    def _mirrored(self, topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Partitions of the target's topics that hold what the flow mirrors, by their names and by what is known of the source."""
        known = {self._remote(tp) for tp in self._partitions.known}
        selects = topic_filter_of(self._configs["source"], self.naming, self.flow.target)
        named = {name for name in topics if (up := self._upstream(name)) is not None and selects(up)}
        return [TopicPartition(name, p) for name in sorted(named | {tp.topic for tp in known}) if name in topics for p in topics[name].partitions]

    def _upstream(self, topic: str) -> str | None:
        """The source's name of a target topic; under identity naming they are alike."""
        return self.naming.upstream(topic) if self.naming.source_alias(topic) == self.flow.source else topic if self.naming.remote(self.flow.source, topic) == topic else None

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
            replicated=self._replicated.get(tp),
        )

    def _look_for_gone(self, rows: Rows, source: Side, target: Side, whole: bool) -> None:
        """Topics of the flow that the source has no more, by two looks in a row: it has deleted them, and nobody loses what it held.

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
        """Topics of the source that were seen there, that Connect keeps an offset of, or whose copies the target has under names that say so."""
        replicated = {tp.topic for tp, offset in self._replicated.items() if offset is not None}
        copies = {self.naming.upstream(name) for name in target.topics if self.naming.source_alias(name) == self.flow.source and not self.naming.is_internal(name)}
        named = {topic for topic in (*replicated, *copies) if topic is not None and not self.naming.is_heartbeats(topic)}
        return {*named, *(tp.topic for tp in self._partitions.known), *self._gone.known}

    # -- groups ----------------------------------------------------------------------------------------------------

    def _look_at_groups(self, rows: Rows, whole: bool) -> None:
        """Positions of the groups that may have committed since: only they are asked, by the ends of Kafka's topic of commits."""
        ends = self._commit_ends()
        moved = self._commits.differing(ends, whole)
        listed = self.access.source.groups(_ASK_SECONDS)
        selects = group_filter_of(self._configs["checkpoint"])
        groups = {name: info for name, info in listed.items() if selects(name) and info.type in _MOVED_TYPES}
        states = {name: (len(info.members), info.state) for name, info in groups.items()}
        for name, (members, state) in self._groups.differing(states, whole).items():
            rows.add(Kind.GROUP, group=name, members=members, state=state)
        for name in self._groups.gone(states):
            rows.add(Kind.GROUP, group=name, state="Gone")
        asked = [name for name in groups if not ends or commits_partition(name, len(ends)) in moved]
        held = self.access.source.position_columns(asked, require_stable=False, timeout=_ASK_SECONDS)
        if held.group:
            rows.extend(Kind.POSITION, group=held.group, topic=held.topic, partition=held.partition, position=held.position)

    def _commit_ends(self) -> dict[int, int]:
        """By partition; empty where the topic cannot be seen: then all groups are asked every time."""
        try:
            topics = self.access.source.topics([COMMITS_TOPIC], _ASK_SECONDS)
            partitions = [TopicPartition(name, p) for name, info in topics.items() for p in info.partitions]
            return {tp.partition: end for tp, end in self.access.source.ends(partitions, timeout=_ASK_SECONDS).items()}
        except KafkaUnavailable:
            return {}

    # -- own pairs -------------------------------------------------------------------------------------------------

    def _look_for_pairs(self, rows: Rows, changed: Mapping[TopicPartition, PartitionSeen], source: Side) -> None:
        """The newest record of each target partition that grew, found again on the source, which is read to its end afterwards."""
        grown = [tp for tp, seen in changed.items() if source.answered and seen.target_end and seen.source_end is not None]
        if not grown:
            return
        newest = self._newest_records(grown)
        ends = self.access.source.ends(list(newest), timeout=_ASK_SECONDS)
        share = max(1_000, _MOST_RECORDS // max(1, len(newest)))
        spans = {tp: Span(suffix_start(source.spans[tp].start, ends[tp], self._pairs.get(tp), share), ends[tp]) for tp in newest}
        suffixes = self.access.source_records.ranges(spans, timeout=_ASK_SECONDS)
        for tp, suffix in suffixes.items():
            pair = own_pair(newest[tp], [Seen(r.offset, r.fingerprint()) for r in suffix], spans[tp].end)
            if pair:
                self._pairs[tp] = pair
                rows.add(Kind.PAIR, topic=tp.topic, partition=tp.partition, **pair._asdict())

    def _newest_records(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Seen]:
        tails = self.access.target_records.last_records([self._remote(tp) for tp in partitions], timeout=_ASK_SECONDS)
        found = {tp: tails[self._remote(tp)].last for tp in partitions}
        return {tp: Seen(last.offset, last.fingerprint()) for tp, last in found.items() if last is not None}

    # -- MirrorMaker 2's own topics ----------------------------------------------------------------------------------

    def _read_internal_topics(self, rows: Rows, target: Side) -> None:
        """Every offset sync and checkpoint that was written since: the topics are compacted, and forget."""
        syncs = self._new_records(*self._syncs_topic())
        self._keep(rows, Kind.SYNC, syncs, decode_offset_syncs([r.key for r in syncs], [r.value for r in syncs]))
        checkpoints = self._new_records(self.access.target_records, self.access.target, self.naming.checkpoints_topic(self.flow.source))
        self._keep(rows, Kind.CHECKPOINT, checkpoints, decode_checkpoints([r.key for r in checkpoints], [r.value for r in checkpoints]))

    def _syncs_topic(self) -> tuple[RecordReader, KafkaCluster, str]:
        access = self.access
        if self._configs["source"].get("offset-syncs.topic.location", "source") == "target":
            return access.target_records, access.target, self.naming.offset_syncs_topic(self.flow.source)
        return access.source_records, access.source, self.naming.offset_syncs_topic(self.flow.target)

    def _new_records(self, reader: RecordReader, cluster: KafkaCluster, topic: str) -> list[Record]:
        """Records since the last time; all that are left, the first time."""
        info = cluster.topics([topic], _ASK_SECONDS).get(topic)
        partitions = [TopicPartition(topic, p) for p in info.partitions] if info else []
        spans = reader.spans(partitions, _ASK_SECONDS)
        new = {tp: Span(max(span.start, self._read.get(tp, 0)), span.end) for tp, span in spans.items()}
        found = list(reader.scan(new, _ASK_SECONDS * 10))
        self._read |= {tp: span.end for tp, span in spans.items()}
        return found

    def _keep(self, rows: Rows, kind: Kind, records: list[Record], decoded: Decoded[Any]) -> None:
        unreadable = {index for index, _ in decoded.malformed}
        if unreadable:
            self._problems.append(f"{len(unreadable)} of {len(records)} records cannot be what they should be: {kind.value}s")
        sequence = [record.offset for index, record in enumerate(records) if index not in unreadable]
        columns = {name: [getattr(one, name) for one in decoded.records] for name in ("topic", "partition", "upstream", "downstream")}
        if kind is Kind.CHECKPOINT:
            columns["group"] = [one.group for one in decoded.records]
        if sequence:
            rows.extend(kind, sequence=sequence, **columns)

    def _heartbeat(self, target: Side) -> int | None:
        """When MirrorMaker 2's newest heartbeat on the target was emitted, in milliseconds since 1970."""
        topic = self.naming.remote(self.flow.source, self.naming.heartbeats_topic)
        with self._tolerating("heartbeats"):
            partitions = [TopicPartition(topic, p) for p in target.topics[topic].partitions] if topic in target.topics else []
            tails = self.access.target_records.last_records(partitions, timeout=_ASK_SECONDS)
            stamps = [decode_heartbeat(tail.last.key, tail.last.value).timestamp for tail in tails.values() if tail.last]
            return max(stamps, default=None)
        return None
