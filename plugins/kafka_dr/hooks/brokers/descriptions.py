"""Data classes that describe a cluster's brokers, topics, settings and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka.admin import ConfigSource

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition


@dataclass(frozen=True)
class Broker:
    """One broker, with the address that it advertises to clients."""

    id: int
    host: str
    port: int


@dataclass(frozen=True)
class TopicToCreate:
    """A topic that does not exist yet; `replication_factor` -1: the cluster's default."""

    partitions: int
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicInfo:
    """One topic. A topic recreated under the same name has another id.

    Attributes:
        partitions: by partition, the broker id of its leader; None for a partition without leader.
        replicas: by partition, the ids of the brokers with a replica.
        in_sync: by partition, the ids of the brokers with an in-sync replica.
        internal: whether the topic is one of Kafka's own, such as __consumer_offsets.
    """

    name: str
    topic_id: str
    partitions: dict[int, int | None]
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    in_sync: dict[int, tuple[int, ...]] = field(default_factory=dict)
    internal: bool = False

    @property
    def leaderless(self) -> list[TopicPartition]:
        """Partitions without leader, which can neither be read nor written; sorted."""
        return [TopicPartition(self.name, p) for p, leader in sorted(self.partitions.items()) if leader is None]

    @property
    def led(self) -> list[TopicPartition]:
        """Partitions with a leader, sorted."""
        return [TopicPartition(self.name, p) for p, leader in sorted(self.partitions.items()) if leader is not None]


class Metadata(NamedTuple):
    """The cluster's metadata, as one of its brokers answered.

    Attributes:
        brokers: ids of live brokers, sorted.
        leaders: by topic and partition, the broker id of the leader; None for a partition without leader.
    """

    brokers: tuple[int, ...]
    leaders: dict[str, dict[int, int | None]]


class Settings(dict[str, str]):
    """Configuration of one topic or broker: values by key.

    Attributes:
        non_default: keys whose value is not Kafka's own default.
        overrides: keys set dynamically on this one topic or broker, not in a broker's file or for the whole cluster.
        hidden: keys whose value the broker does not show.
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__({key: entry.value for key, entry in entries.items() if entry.value is not None})
        source = {key: ConfigSource(entry.source) for key, entry in entries.items()}
        own = {ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG}
        self.non_default = frozenset(key for key in self if source[key] is not ConfigSource.DEFAULT_CONFIG)
        self.overrides = frozenset(key for key in self if source[key] in own)
        self.hidden = frozenset(entries) - frozenset(self)


class Member(NamedTuple):
    """One member of a group, with its assigned partitions; `instance`: its group.instance.id, None if it has none."""

    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    instance: str | None = None


@dataclass(frozen=True)
class GroupInfo:
    """One consumer group.

    Attributes:
        state: as Kafka calls it: Empty, Stable, PreparingRebalance, CompletingRebalance, Dead, or Unknown.
        type: classic or consumer (the newer protocol); unknown if the broker states a type that the client does not
            know.
        protocol_type: `consumer`; empty for a group whose positions only an admin client or a consumer without
            subscription committed.
        members: empty for a group without members.
        assignor: name of the assignor, which is `stream` for Kafka Streams; empty without members.
    """

    name: str
    state: str
    type: str
    protocol_type: str
    members: tuple[Member, ...] = ()
    assignor: str = ""

    @property
    def empty(self) -> bool:
        """Whether the group has no members, and its positions can be written; False in the state Unknown."""
        return self.state in ("Empty", "Dead") and not self.members
