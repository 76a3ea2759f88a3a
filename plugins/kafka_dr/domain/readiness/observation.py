"""What both clusters and the flow between them were at one moment; readiness checks read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TopicView:
    """One topic: its id (a recreated topic has another), partition count, smallest replica count, and configs."""

    topic_id: str
    partitions: int
    replicas: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupView:
    """One group: its state and type as Kafka names them, whether nobody is in it, and who its members are."""

    state: str
    group_type: str = "classic"
    empty: bool = True
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterView:
    """One cluster: every topic by name, rules, groups, and SCRAM users (None where they cannot be listed)."""

    alias: str
    cluster_id: str
    brokers: tuple[int, ...]
    topics: Mapping[str, TopicView]
    rules: AclRules
    groups: Mapping[str, GroupView]
    users: frozenset[str] | None = None


#: States that last as long as a rebalance, or a start.
_PASSING = frozenset({"UNASSIGNED", "RESTARTING"})


@dataclass(frozen=True)
class ConnectorView:
    """One connector: its state, its tasks' states by id, its configuration, and the first line of each failure."""

    name: str
    state: str
    tasks: Mapping[int, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    traces: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether the connector and all of its tasks are RUNNING."""
        return self.state == "RUNNING" and all(state == "RUNNING" for state in self.tasks.values())

    @property
    def settling(self) -> bool:
        """Whether all that is wrong is that Connect is assigning or starting the connector or some tasks."""
        states = {self.state, *self.tasks.values()}
        return bool(states & _PASSING) and states <= {"RUNNING", *_PASSING}

    @property
    def stopped(self) -> bool:
        """Whether the connector is STOPPED and has no task left."""
        return self.state == "STOPPED" and not self.tasks


@dataclass(frozen=True)
class FlowView:
    """One flow: the worker that hosts it and its connectors (None where one does not exist).

    Attributes:
        dedicated: MirrorMaker 2 runs without a worker: the configurations are stated, nobody asked for them.
        stated: settings that the topology states of the flow, such as its worker's converters, which Connect shows to
            nobody.
    """

    source: str
    target: str
    worker_version: str
    worker_cluster_id: str
    source_connector: ConnectorView | None
    checkpoint_connector: ConnectorView | None
    replicated: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    dedicated: bool = False
    stated: Mapping[str, str] = field(default_factory=dict)

    @property
    def source_config(self) -> Mapping[str, str]:
        """The source connector's configuration; empty where there is no such connector."""
        return self.source_connector.config if self.source_connector else {}


@dataclass(frozen=True)
class Sample:
    """Log ends on both sides at one moment (`at`, in seconds), of the same source partitions."""

    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    at: float = 0.0


@dataclass(frozen=True)
class Observation:
    """Everything the gates may look at.

    Attributes:
        scope: source topic -> its name on the target.
        copies: source topics that are copies of the target's under names of their own -> the target's topics.
        groups: groups with positions on the scope's topics.
        source_starts: log starts of the scope's partitions on the source.
        first, last: two samples, some time apart.
        known_topic_ids: topic ids seen by the last procedure of this pair, by source topic.
        exempt: principals never fenced, by cluster alias.
        positions: what these groups committed on the scope's topics: group, topic, partition, position.
    """

    source: ClusterView
    target: ClusterView
    flow: FlowView
    reverse: FlowView | None
    scope: Mapping[str, str]
    groups: frozenset[str]
    source_starts: Mapping[TopicPartition, int]
    first: Sample
    last: Sample
    known_topic_ids: Mapping[str, str]
    exempt: Mapping[str, frozenset[str]]
    naming_policy: str
    naming_separator: str
    has_drain_hook: bool
    has_probe: bool
    positions: pd.DataFrame = field(compare=False)
    copies: Mapping[str, str] = field(default_factory=dict)
