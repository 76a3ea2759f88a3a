"""State of both clusters and of the flow between them at one moment, for the readiness checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_dr.domain.access.trial import AccessTrial
from kafka_dr.domain.clients.inventory import SeenClients
from kafka_dr.domain.kafka_model.acl import AclChange, AclRules
from kafka_dr.domain.kafka_model.client_quotas import Quotas, ScramUsers
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.logins.login_view import LoginView
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.readiness.owners import OwnerView
from kafka_dr.domain.routing.dns_view import DnsView

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TopicView:
    """One topic: its id (a recreated topic has another id), partition count, smallest replica count, and configs.

    Attributes:
        overrides: names of the configs that are set on the topic itself.
    """

    topic_id: str
    partitions: int
    replicas: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    overrides: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GroupView:
    """One group.

    Attributes:
        state, group_type: as Kafka names them.
        empty: whether the group is without members.
        members: names of the members.
        assignor: name of the assignor by which the members share partitions; empty without members.
        static: `group.instance.id` of each static member, sorted.
    """

    state: str
    group_type: str = "classic"
    empty: bool = True
    members: tuple[str, ...] = ()
    assignor: str = ""
    static: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterView:
    """One cluster: all topics by name, ACL rules, groups by name, and SCRAM users (None if users cannot be listed).

    Attributes:
        leaderless: partitions without leader, of all topics: their logs cannot be read, and their samples are missing.
        scram: SCRAM mechanisms and iterations of each user; None if users cannot be listed.
        quotas: client quotas; None if they cannot be listed.
    """

    alias: str
    cluster_id: str
    brokers: tuple[int, ...]
    topics: Mapping[str, TopicView]
    rules: AclRules
    groups: Mapping[str, GroupView]
    users: frozenset[str] | None = None
    leaderless: tuple[TopicPartition, ...] = ()
    scram: ScramUsers | None = None
    quotas: Quotas | None = None


#: States of a connector or task that end when Connect has finished a rebalance or a start.
_PASSING = frozenset({"UNASSIGNED", "RESTARTING"})


@dataclass(frozen=True)
class ConnectorView:
    """One connector: its state, its tasks' states by id, its configuration, and each failure trace's first line."""

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
        """Whether Connect is assigning or starting the connector or some tasks, and all other states are RUNNING."""
        states = {self.state, *self.tasks.values()}
        return bool(states & _PASSING) and states <= {"RUNNING", *_PASSING}

    @property
    def stopped(self) -> bool:
        """Whether the connector is STOPPED and has no task left."""
        return self.state == "STOPPED" and not self.tasks


@dataclass(frozen=True)
class WorkerView:
    """One Connect worker: its version, the id of the Kafka cluster that it uses, and whether it can set offsets."""

    version: str
    cluster_id: str
    sets_offsets: bool = True


@dataclass(frozen=True)
class FlowView:
    """One flow: the Connect workers that run it, and its connectors.

    Attributes:
        worker: runs the source connectors.
        source_connectors: those that exist.
        checkpoint_connector: None if it does not exist.
        missing: names of connectors that do not exist.
        checkpoint_worker: runs the checkpoint connector; None: the same worker.
        mirrors: which topics the flow mirrors, and by which source connector.
        replicated: last replicated offset by source partition; None if Connect has no offset of the partition.
        dedicated: MirrorMaker 2 runs in dedicated mode: configurations come from the topology, not from Connect.
        offsets_problem: why offsets of a flow in dedicated mode cannot be set; "" if they can, and in a Connect worker.
        stated: the flow's settings from the topology, such as the worker's converters, which Connect's REST API does
            not show.
        unnamed: connectors of the same aliases in the flow's workers that the topology does not name.
    """

    source: str
    target: str
    worker: WorkerView
    source_connectors: tuple[ConnectorView, ...]
    checkpoint_connector: ConnectorView | None
    mirrors: FlowFilter
    missing: tuple[str, ...] = ()
    checkpoint_worker: WorkerView | None = None
    replicated: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    dedicated: bool = False
    offsets_problem: str = ""
    stated: Mapping[str, str] = field(default_factory=dict)
    unnamed: tuple[ConnectorView, ...] = ()

    @property
    def connectors(self) -> tuple[ConnectorView, ...]:
        """Existing connectors, source connectors first."""
        return (*self.source_connectors, *filter(None, (self.checkpoint_connector,)))

    @property
    def workers(self) -> tuple[WorkerView, ...]:
        """The Connect workers; that with the source connectors first."""
        return (self.worker, *filter(None, (self.checkpoint_worker,)))

    @property
    def source_config(self) -> Mapping[str, str]:
        """The first source connector's configuration; empty without a source connector."""
        return self.source_connectors[0].config if self.source_connectors else {}


@dataclass(frozen=True)
class Sample:
    """Log ends on source and target, both by source partition; `at`: seconds on this process's monotonic clock.

    Partitions without leader are left out.
    """

    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    at: float = 0.0


@dataclass(frozen=True)
class Observation:
    """The input of all readiness checks.

    Attributes:
        scope: source topic -> its name on the target.
        copies: source topic that MirrorMaker 2 mirrored from the target under a prefixed name, such as `dr.orders` ->
            the topic on the target from which it was mirrored, such as `orders`.
        groups: groups that move: with positions on the scope's topics on the source.
        source_starts: log starts of the scope's partitions on the source, except those without leader.
        first, last: two samples of log ends, the second some seconds after the first.
        known_topic_ids: source topic -> topic id that the last procedure of this pair of clusters recorded.
        exempt: principals that are never fenced, by cluster alias.
        policy_class: the custom replication policy class that the topology names; None without one.
        has_fence_hook: whether a fence hook that spares MirrorMaker 2 fences in a planned failover, too.
        has_probe: whether the topology names a probe principal for the source, which tries to write behind the fence.
        target_fence: what fences of earlier procedures changed in the target's ACL entries; open_target reverts them.
        positions: positions that `groups` have committed on the source: group, topic, partition, position.
        owners: what is known of programs that put connectors or ACL entries back.
        writers: principals of MirrorMaker 2 on the target; None if they were not looked up.
        unsigned_journal: whether the topology names no key of the journal.
        unsigned_samples: whether the flight recorder runs without a key, so that nothing proves its samples.
        trials: what the applications' own logins showed on the target; () if none was tried.
        cluster_logins: alias -> Switchback's login to the cluster, source first; {} if the logins were not looked up.
        other_logins: how the probes and MirrorMaker 2 log in, and logins over HTTP.
        immovable: name -> type of groups that the flow selects and that have positions in scope, but that cannot be
            moved, because their type is unknown.
        clients: the source's clients of every kind.
        dns: the shared DNS name by which clients find their cluster; None if they find it otherwise.
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
    has_fence_hook: bool
    positions: pd.DataFrame = field(compare=False)
    copies: Mapping[str, str] = field(default_factory=dict)
    target_fence: AclChange = field(default_factory=AclChange)
    immovable: Mapping[str, str] = field(default_factory=dict)
    owners: OwnerView = field(default_factory=OwnerView)
    writers: frozenset[str] | None = None
    policy_class: str | None = None
    unsigned_journal: bool = False
    unsigned_samples: bool = False
    clients: SeenClients = field(default_factory=SeenClients)
    trials: tuple[AccessTrial, ...] = ()
    cluster_logins: Mapping[str, LoginView] = field(default_factory=dict)
    other_logins: tuple[LoginView, ...] = ()
    dns: DnsView | None = None
