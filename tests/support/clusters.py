"""A Kafka cluster and its ACLs, in memory, as far as a step sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, Producer
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.descriptions import Metadata, TopicInfo, TopicToCreate
from kafka_dr.hooks.brokers.group_requests import OK, Position, PositionColumns
from kafka_dr.hooks.brokers.record import Record


class Own(dict[str, str]):
    """Settings of a topic, all set on the topic itself."""

    @property
    def overrides(self) -> frozenset[str]:
        """Return the settings that were set on the topic itself."""
        return frozenset(self)

    @property
    def non_default(self) -> frozenset[str]:
        """Return the settings whose value is not Kafka's own default."""
        return frozenset(self)


class Message:
    """A record as the Kafka client returns it."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: getattr(self._record, name)

    def timestamp(self) -> tuple[int, int]:
        """Return the record's create time."""
        return (0, 0) if self._record.timestamp is None else (1, self._record.timestamp)


class Anchors:
    """The topic with the journal's anchors on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.values: list[bytes] = []
        self.takes = True

    def newest(self, read: Callable[[bytes], Any], _timeout: float) -> list[Any]:
        """Return the newest anchors."""
        self._cluster.answer()
        return [anchor for value in self.values[-50:] if (anchor := read(value)) is not None]

    def write(self, _key: str, value: bytes) -> None:
        """Store an anchor, if the cluster answers."""
        if self.takes and not self._cluster.away:
            self.values.append(value)

    def await_written(self, _timeout: float) -> None:
        """Raise an error if the cluster is away, or takes nothing."""
        self._cluster.answer()
        if not self.takes:
            raise KafkaUnavailable(f"writing to {self._cluster.alias} failed", "no answer in time", "look")


class Cluster:
    """Stand-in for one cluster, with what steps read of it."""

    def __init__(self, alias: str) -> None:
        self.alias, self.admin = alias, alias
        self.id, self.anchors = f"id-{alias}", Anchors(self)
        self.acls: set[AclEntry] = set()
        self.authorizer, self.takes_acls = True, True
        self.without_acls = Authorizer.NONE
        self.lags: dict[int, frozenset[AclEntry] | KafkaUnavailable] = {}
        self.log_ends: dict[TopicPartition, int] = {TopicPartition("orders", 0): 10}
        self.log_starts: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.internal: dict[str, list[tuple[bytes, bytes]]] = {}
        self.partitions: dict[str, dict[int, int]] = {"orders": {0: 1}, "__switchback_probe": {0: 1}}
        self.broker_ids = [1]
        #: Topics by request that created some or added partitions, and those whose leaders were awaited.
        self.requested: list[list[str]] = []
        self.awaited: list[dict[str, int]] = []
        self.known_settings = {"num.io.threads"}
        self.members: dict[str, int] = {}
        self.types: dict[str, str] = {}
        self.stable_ends: dict[TopicPartition, int] = {}
        self.committed: dict[str, dict[TopicPartition, Position]] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.deleted: list[str] = []
        self.replicas: dict[str, int] = {}
        self.placed: dict[str, dict[int, tuple[int, ...]]] = {}
        self.keys: dict[TopicPartition, bytes] = {}
        self.records: dict[TopicPartition, dict[int, str]] = {}
        self.markers: dict[TopicPartition, int] = {}
        self.positions_read = 0
        self.away: KafkaUnavailable | bool = False
        self.answers_after = 0.0
        self.scram = {"app": {"SCRAM-SHA-512": 4096}}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.complained: frozenset[str] = frozenset()
        self.producers: dict[TopicPartition, list[Producer]] | KafkaUnavailable = {}
        self.other_groups: dict[str, ListedGroup] = {}
        self.instances: dict[str, tuple[str, ...]] = {}
        self.assignors: dict[str, str] = {}
        self.transactions: list[KnownTransaction] | KafkaUnavailable = []
        self.sessions: dict[str, float] = {}
        self.sizes: dict[TopicPartition, int] | KafkaUnavailable = {}
        self.every_broker = SimpleNamespace(
            producers=self._listed_producers,
            groups=self._listed_groups,
            transactional_ids=self._listed_transactions,
            session_seconds=lambda _broker, names: {n: self.sessions[n] for n in names if n in self.sessions},
        )

    def _listed_producers(self, leaders: dict[TopicPartition, int]) -> dict[TopicPartition, list[Producer]]:
        if isinstance(self.producers, KafkaUnavailable):
            raise self.producers
        return {tp: self.producers.get(tp, []) for tp in leaders}

    def _listed_groups(self, _brokers: Iterable[int]) -> dict[str, ListedGroup]:
        return {g.name: ListedGroup("consumer", g.type) for g in self.groups().values()} | self.other_groups

    def _listed_transactions(self, _brokers: Iterable[int]) -> list[KnownTransaction]:
        if isinstance(self.transactions, KafkaUnavailable):
            raise self.transactions
        return self.transactions

    def answer(self) -> None:
        """Raise an error if the cluster is away."""
        if self.away:
            raise (
                self.away
                if isinstance(self.away, KafkaUnavailable)
                else KafkaUnavailable(f"asking {self.alias} failed", "no answer in time", "look at its brokers")
            )

    def close(self) -> None:
        """Stand in for closing the client."""

    def cluster_id(self, timeout: float = 30.0) -> str:
        """Return the cluster id."""
        self.answer()
        return self.id

    def brokers(self, **_: Any) -> list[Any]:
        """Return the brokers by id."""
        self.answer()
        return [SimpleNamespace(id=b) for b in self.broker_ids]

    def metadata(self, timeout: float = 30.0) -> Metadata:
        """Return brokers and leaders, after the delay that the test has set."""
        if self.away:
            time.sleep(timeout)
            self.answer()
        if self.answers_after:
            time.sleep(self.answers_after)
        return Metadata(tuple(self.broker_ids), {name: dict(leaders) for name, leaders in self.partitions.items()})

    def complaints(self) -> frozenset[str]:
        """Return the client's messages on its connections."""
        return self.complained

    def topics(self, names: Iterable[str] | None = None, **_: Any) -> dict[str, Any]:
        """Return the topics with the leader of each partition."""
        self.answer()
        wanted = self.partitions if names is None else [n for n in names if n in self.partitions]
        copies = {n: {p: (1,) * self.replicas.get(n, 1) for p in self.partitions[n]} for n in wanted}
        copies = {n: held | self.placed.get(n, {}) for n, held in copies.items()}
        return {n: TopicInfo(n, self.topic_ids.get(n, f"id-{n}"), self.partitions[n], copies[n]) for n in wanted}

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        **_: Any,
    ) -> None:
        """Create a topic if it is missing; a deleted topic gets another id."""
        self.answer()
        if name not in self.partitions:
            self.partitions[name] = dict.fromkeys(range(partitions), 1)
            self.replicas[name] = max(1, replication_factor)
            self.settings |= {name: dict(configs)} if configs else {}
            self.topic_ids |= {name: f"id-{name}-{self.deleted.count(name)}"} if name in self.deleted else {}

    def create_topics(self, topics: Mapping[str, TopicToCreate]) -> None:
        """Create topics in one request."""
        self.requested.append(list(topics))
        for name, topic in topics.items():
            default = topic.replication_factor == -1
            more = {} if default else {"replication_factor": topic.replication_factor}
            self.create_topic(name, topic.partitions, configs=topic.configs, **more)

    def add_partitions(self, totals: Mapping[str, int]) -> None:
        """Add partitions in one request."""
        self.requested.append(list(totals))
        for name, total in totals.items():
            self.create_partitions(name, total)

    def await_leaders(self, partitions: Mapping[str, int], timeout: float) -> None:
        """Every partition has a leader."""
        self.awaited.append(dict(partitions))

    def create_partitions(self, topic: str, total: int, assignment: list[list[int]] | None = None) -> None:
        """Raise a topic's partitions, on the brokers of the assignment."""
        added = range(len(self.partitions[topic]), total)
        placed = dict(zip(added, map(tuple, assignment or [[1]] * len(added)), strict=True))
        self.partitions[topic] |= {partition: brokers[0] for partition, brokers in placed.items()}
        self.placed[topic] = self.placed.get(topic, {}) | placed

    def set_config(self, topic: str, name: str, value: str) -> None:
        """Set one setting of a topic."""
        self.settings[topic] = self.settings.get(topic, {}) | {name: value}

    def elect_preferred_leaders(self, topic: str, partitions: Iterable[int]) -> None:
        """Let the first replica of each partition lead it, if the broker lives."""
        for partition in partitions:
            broker = self.topics([topic])[topic].replicas[partition][0]
            self.partitions[topic][partition] = broker if broker in self.broker_ids else None

    def delete_topics(
        self, names: Iterable[str], timeout: float = 30.0, ids: Mapping[str, str] | None = None
    ) -> list[str]:
        """Delete topics with all their records."""
        self.answer()
        gone = [name for name in names if self.partitions.pop(name, None)]
        self.deleted += gone
        for held in (self.log_ends, self.records):
            for tp in [tp for tp in held if tp.topic in gone]:
                del held[tp]
        return gone

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: str = "read_uncommitted", **_: Any
    ) -> dict[TopicPartition, int]:
        """Return log ends; under read_committed at most those of `stable_ends`."""
        self.answer()
        stable = self.stable_ends if isolation == "read_committed" else {}
        return {tp: stable.get(tp, self.log_ends.get(tp, 0)) for tp in partitions}

    def starts(self, partitions: Iterable[TopicPartition], **_: Any) -> dict[TopicPartition, int]:
        """Return log starts."""
        self.answer()
        return {tp: self.log_starts.get(tp, 0) for tp in partitions}

    def offsets_at(self, times: Mapping[TopicPartition, int], **_: Any) -> dict[TopicPartition, int]:
        """Return -1: no record of a bench has a timestamp."""
        self.answer()
        return dict.fromkeys(times, -1)

    def scram_users(self) -> dict[str, dict[str, int]]:
        """Return SCRAM mechanisms and iterations by user."""
        return self.scram

    def client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return client quotas, as the test has set them."""
        return self.quotas

    def broker_settings(self) -> frozenset[str]:
        """Return the names of the brokers' settings, as the test has set them."""
        self.answer()
        return frozenset(self.known_settings)

    def count_members(self, group: str) -> int:
        """Return how many members the test has set for a group."""
        return self.members.get(group, 0)

    def groups(self) -> dict[str, Any]:
        """Return groups with as many members as the test has set, and groups that only have positions."""
        self.answer()
        known = dict.fromkeys(self.committed, 0) | self.members
        return {
            g: SimpleNamespace(
                name=g,
                state="Stable" if n else "Empty",
                type=self.types.get(g, "classic"),
                empty=not n,
                members=[
                    SimpleNamespace(client_id="c", host="h", instance=one)
                    for one in (*self.instances.get(g, ()), *[None] * n)[:n]
                ],
                assignor=self.assignors.get(g, ""),
            )
            for g, n in known.items()
        }

    def positions(self, groups: Iterable[str], **_: Any) -> dict[str, dict[TopicPartition, Position]]:
        """Return committed positions."""
        self.answer()
        return {g: dict(self.committed[g]) for g in groups if g in self.committed}

    def position_columns(self, groups: Iterable[str], **_: Any) -> PositionColumns:
        """Return committed positions as columns."""
        self.answer()
        self.positions_read += 1
        rows = [(g, *tp, p.offset) for g in groups for tp, p in self.committed.get(g, {}).items()]
        return (
            PositionColumns(*(list(column) for column in zip(*rows, strict=True)))
            if rows
            else PositionColumns([], [], [], [])
        )

    def commit_many(
        self, positions: Iterable[tuple[str, Mapping[TopicPartition, int]]]
    ) -> dict[str, dict[TopicPartition, str]]:
        """Commit positions, and answer OK."""
        self.answer()
        done = {}
        for group, offsets in positions:
            self.committed.setdefault(group, {}).update({tp: Position(o) for tp, o in offsets.items()})
            done[group] = dict.fromkeys(offsets, "ok")
        return done

    def delete_groups(self, names: Iterable[str]) -> dict[str, str]:
        """Delete groups with their positions."""
        self.answer()
        for name in (wanted := list(names)):
            self.committed.pop(name, None)
        return dict.fromkeys(wanted, OK)

    def delete_positions(self, positions: Mapping[str, Iterable[TopicPartition]]) -> dict[str, KafkaUnavailable]:
        """Delete single positions; no group is refused."""
        self.answer()
        for group, partitions in positions.items():
            for partition in partitions:
                self.committed.get(group, {}).pop(partition, None)
        return {}

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of the topics that exist."""
        self.answer()
        return {t: Own(self.settings.get(t, {})) for t in topics if t in self.partitions or t in self.settings}


class Acls:
    """The ACL entries of one cluster; a cluster can be set to ignore added entries."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def authorizer(self, **_: Any) -> Authorizer:
        """Return what decides in the cluster."""
        self.cluster.answer()
        return Authorizer.BY_ACL if self.cluster.authorizer else self.cluster.without_acls

    def entries(self) -> frozenset[AclEntry]:
        """Return all ACL entries."""
        self.cluster.answer()
        return frozenset(self.cluster.acls)

    def entries_for(self, topic: str) -> frozenset[AclEntry]:
        """Return the ACL entries that cover a topic."""
        return frozenset(e for e in self.entries() if e.resource_type == "topic" and e.covers(topic))

    def entries_by_broker(self, topic: str | None = None) -> dict[int, frozenset[AclEntry] | KafkaUnavailable]:
        """Return the ACL entries by broker; a broker in `lags` has those that the test gives it."""
        known = {broker: self.entries() for broker in self.cluster.broker_ids} | self.cluster.lags
        if topic is None:
            return known
        return {
            broker: entries
            if isinstance(entries, KafkaUnavailable)
            else frozenset(e for e in entries if (e.name, e.pattern) == (topic, "literal"))
            for broker, entries in known.items()
        }

    def holds(self, entry: AclEntry, **_: Any) -> bool:
        """Return whether the cluster has an ACL entry."""
        return entry in self.entries()

    def add(self, entries: Iterable[AclEntry], **_: Any) -> None:
        """Add ACL entries, unless the cluster ignores them."""
        self.cluster.acls |= set(entries) if self.cluster.takes_acls else set()

    def remove(self, entries: Iterable[AclEntry]) -> None:
        """Remove exactly these ACL entries."""
        self.cluster.acls -= set(entries)

    def missing(self, entries: Iterable[AclEntry]) -> list[AclEntry]:
        """Return those of the ACL entries that the cluster does not have."""
        return sorted(set(entries) - self.entries())
