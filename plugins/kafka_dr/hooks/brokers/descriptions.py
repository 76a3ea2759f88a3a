"""Descriptions of a cluster's brokers, topics and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka.admin import ConfigSource

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition


@dataclass(frozen=True)
class Broker:
    """One broker as clients see it."""

    id: int
    host: str
    port: int


@dataclass(frozen=True)
class TopicInfo:
    """One topic. A topic recreated under the same name has another id.

    Attributes:
        partitions: leader's broker id by partition; None for a partition without leader.
        replicas: ids of replica brokers by partition.
        in_sync: ids of in-sync brokers by partition.
    """

    name: str
    topic_id: str
    partitions: dict[int, int | None]
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    in_sync: dict[int, tuple[int, ...]] = field(default_factory=dict)
    internal: bool = False


class Metadata(NamedTuple):
    """The cluster's metadata by any one broker.

    Attributes:
        brokers: ids of live brokers, sorted.
        leaders: leader's broker id by topic and partition; None for a partition without leader.
    """

    brokers: tuple[int, ...]
    leaders: dict[str, dict[int, int | None]]


class Settings(dict[str, str]):
    """Configuration of one topic or broker, by key.

    Attributes:
        non_default: keys whose value is not Kafka's own default.
        overrides: keys set on this very topic or broker at run time.
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
    """One member of a group, with its assigned partitions."""

    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupInfo:
    """One consumer group.

    Attributes:
        state: Kafka's name: Empty, Stable, PreparingRebalance, CompletingRebalance, Dead, or Unknown.
        type: classic or consumer (the newer protocol), or unknown.
        protocol_type: `consumer`, or empty for a group that only an admin client or a simple consumer committed to.
        members: only filled for groups that are not empty.
    """

    name: str
    state: str
    type: str
    protocol_type: str
    members: tuple[Member, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the group has no members, so that its positions may be written. Unknown counts as not empty."""
        return self.state in ("Empty", "Dead") and not self.members
