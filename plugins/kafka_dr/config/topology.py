"""The topology: clusters, MirrorMaker 2's flows between them, and the connections of other systems.

The models are frozen and have the shape of the YAML file. Addresses and secrets are in Airflow connections; the file
only names these connections.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from kafka_dr.config.applications import ApplicationSettings
from kafka_dr.config.connectors import Connectors
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.drill import DrillSettings
from kafka_dr.config.fields import (
    LONGEST_DEADLINE,
    Alias,
    Connection,
    FilePath,
    Folder,
    Isolation,
    Model,
    Policy,
    Principal,
    PublicKey,
    Seconds,
    Setting,
)
from kafka_dr.config.metrics import MetricsSettings
from kafka_dr.config.notifications import NotificationRoute
from kafka_dr.config.objectives import Objectives, ReadinessLimits
from kafka_dr.config.offset_option import OffsetOptionRecord
from kafka_dr.config.routing import RoutingSettings
from kafka_dr.config.run_limits import Approvers, ParamLimits
from kafka_dr.config.spark_settings import SparkSettings
from kafka_dr.config.storage import Recorder, RecordExports, StoreSettings
from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph
from kafka_dr.domain.mirror_maker.naming import Naming, NamingSpec, naming_of
from kafka_dr.domain.mirror_maker.offsets_topic_settings import OffsetsTopicSettings, offsets_topic_settings
from kafka_dr.domain.mirror_maker.patterns import PatternList, list_items, pattern_list, pattern_problem
from kafka_dr.errors import BadInput


class Principals(Model):
    """Principals of one cluster that no fence refuses.

    Attributes:
        mirror_maker: principals of MirrorMaker 2's connectors or processes.
        orchestrator: principals of Switchback.
        exempt: all other principals that no fence refuses, such as administrators.
    """

    mirror_maker: tuple[Principal, ...] = ()
    orchestrator: tuple[Principal, ...] = ()
    exempt: tuple[Principal, ...] = ()


class Cluster(Model):
    """A Kafka cluster.

    Attributes:
        connection: Airflow connection with the orchestrator's principal.
        probe_connection: Airflow connection with an ordinary client's principal, to prove that a fence refuses clients.
        principals: principals that are exempt from every fence.
        allow_everyone_if_no_acl_found: the brokers' setting `allow.everyone.if.no.acl.found`, which no broker reports.
        super_users: principals in the setting `super.users` of every broker and controller, which no broker reports. If
            all exempt principals are among them, a fence needs one DENY entry for each topic.
        authorizer_logs: for each broker the path, or a glob, of its authorizer log with rotated files, where steps run.
    """

    connection: Connection
    probe_connection: Connection | None = None
    principals: Principals = Principals()
    allow_everyone_if_no_acl_found: bool = False
    super_users: tuple[Principal, ...] = ()
    authorizer_logs: tuple[FilePath, ...] = ()

    @field_validator("authorizer_logs")
    @classmethod
    def _one_for_each_broker(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(paths)) < len(paths):
            raise ValueError("the same log stands there twice; each broker has a log of its own")
        return paths


class Flow(Model):
    """Replication in one direction.

    Attributes:
        source, target: aliases of the two clusters.
        connectors: names of the flow's connectors. In dedicated mode they are MirrorMaker 2's own.
        connect: Airflow connection of the Connect worker that runs the connectors; the checkpoint connector may name
            another one.
        stop_hook: instead of `connect` if MirrorMaker 2 runs in dedicated mode, without a REST API: Airflow connection
            of the hook that stops MirrorMaker 2, and may start it again.
        isolation: isolation level of MirrorMaker 2's source consumer; MirrorMaker 2's own default is
            `read_uncommitted`.
        runs: `always` if the flow also runs while the opposite flow runs, as both flows of an active-active pair do;
            `in_turn` if only one of the two runs at a time.
        mirror_maker: settings of the flow, by MirrorMaker 2's names. With a Connect worker: settings from the worker's
            properties, such as converters, which Connect's REST API does not report. In dedicated mode: all settings of
            the flow, and of its processes `offset.storage.topic` and `group.id`, unless they are dedicated mode's own.
            While the worker does not answer, they are read instead of the connectors' configuration.
        managed_by: the program that keeps the flow's connectors as it states them, and so undoes what a procedure does:
            procedures that act are refused while it may do so.
        objectives: recovery objectives of a move from source to target, and how often it is rehearsed.
        readiness: limits beyond which readiness_check says that the flow is not ready.
        offset_option: how groups are meant to find their positions on the target, and why; None: nobody recorded it.
    """

    source: Alias
    target: Alias
    connect: Connection | None = None
    stop_hook: Connection | None = None
    connectors: Connectors
    isolation: Isolation = "read_uncommitted"
    runs: Literal["always", "in_turn"] = "in_turn"
    mirror_maker: dict[str, Setting] = Field(default_factory=dict)
    managed_by: Literal["strimzi"] | None = None
    objectives: Objectives = Objectives()
    readiness: ReadinessLimits = ReadinessLimits()
    offset_option: OffsetOptionRecord | None = None

    @model_validator(mode="after")
    def _has_one_handle(self) -> Flow:
        if (self.connect is None) == (self.stop_hook is None):
            raise ValueError(
                "a flow has either `connect`, its Connect worker, or `stop_hook`, for MirrorMaker 2 in dedicated mode;"
                " name one of the two"
            )
        if self.stop_hook is not None and (len(self.connectors.source) > 1 or self.connectors.checkpoint.connect):
            raise ValueError(
                "MirrorMaker 2 in dedicated mode runs one source connector a flow, and its checkpoint connector in the"
                " same processes; name one source connector, and no `connect` of the checkpoint connector"
            )
        _ = self.offsets_topic  # Raises ValueError for settings that cannot be used.
        return self

    @property
    def edge(self) -> FlowEdge:
        """Return the flow as an edge of the graph of flows."""
        return FlowEdge(
            self.source, self.target, self.runs == "always", list_items(self.mirror_maker.get("topics", ""))
        )

    @property
    def offsets_topic(self) -> OffsetsTopicSettings:
        """Return where MirrorMaker 2 stores offsets, for a flow without a Connect worker that is asked for them."""
        return offsets_topic_settings(self.source, self.mirror_maker)

    @property
    def workers(self) -> tuple[str, ...]:
        """Return the Airflow connections of the flow's Connect workers; () in dedicated mode."""
        return tuple(dict.fromkeys(filter(None, (self.connect, self.connectors.checkpoint.connect))))

    @property
    def worker(self) -> str:
        """Return the Airflow connection of the flow's Connect worker; raise BadInput in dedicated mode."""
        if self.connect is None:
            raise BadInput(
                f"MirrorMaker 2 of {self.source}->{self.target} runs in dedicated mode, without a REST API",
                "this needs the REST API of a Connect worker; the flow's stop hook cannot do it",
                "run its connectors in a Connect worker, and name the worker under `connect` in the topology",
            )
        return self.connect


class GroupPolicy(Model):
    """The position on the target of groups for which no translation gives a position.

    Attributes:
        pattern: Java regular expression that matches the whole names of the groups.
        policy: `earliest`: the log start; `boundary`: the boundary; `fail`: no position is written.
    """

    pattern: str
    policy: Policy

    @field_validator("pattern")
    @classmethod
    def _usable(cls, pattern: str) -> str:
        if problem := pattern_problem(pattern, "group") or (None if pattern.strip() else "the pattern is empty"):
            raise ValueError(problem)
        return pattern


class Named(Model):
    """A system of which the topology names only the Airflow connection.

    Attributes:
        connection: name of the Airflow connection.
    """

    connection: Connection


class JournalSettings(Named):
    """The journal's database.

    Attributes:
        connection: Airflow connection of the database.
        public_keys: keys by which approvals, closings and anchors of the journal are verified; several while a key is
            replaced by another. Without a key nothing is signed.
    """

    public_keys: tuple[PublicKey, ...] = ()


class FenceHookSettings(Named):
    """The fence hook, which fences a cluster by other means than ACLs, such as its network, storage or roles.

    Attributes:
        connection: Airflow connection of the hook.
        spares_mirror_maker: whether MirrorMaker 2 and Switchback go on working on a cluster that the hook fences. Then
            a planned failover asks the hook, too; otherwise the hook is asked for lost sources only.
    """

    spares_mirror_maker: bool = False


def name_pair(one: str, other: str) -> str:
    """Return the name of a pair of clusters in leases and anchors: both aliases, sorted, joined by `+`."""
    return "+".join(sorted((one, other)))


class Topology(Model):
    """The whole topology file; `kafka_dr.config.settings.load_topology` reads it.

    Attributes:
        clusters: alias -> cluster. Aliases are those of MirrorMaker 2.
        naming: how topics of one cluster are named on another, the same for all flows.
        flows: MirrorMaker 2's flows, one for each direction.
        routing: how clients find the cluster to which they connect.
        journal: the journal's database, the same for all procedures.
        airflow_api: Airflow connection of Airflow's own API, which says who approved; the account approves nothing.
        spark: where and how Spark's jobs run.
        evidence: folder of evidence and of the files between steps, which every machine where steps run must see; a
            relative path begins at the folder of the topology file.
        recorder: the flight recorder's archive; without it an unplanned failover calls no loss certain.
        groups: policies for groups without a translated position; the first matching pattern counts.
        deadlines: waits of all procedures, in seconds; a run may change them by its params.
        limits: how far the params of a run may go.
        approvers: who may answer the gates.
        applications: whose own logins on the target are tried before clients are moved there.
        drain: the application's hook that stops and starts its clients.
        source_probe: the application's hook that states whether the application reaches a source that seems lost.
        fence_hook: a hook of the site that fences a cluster by other means than ACLs.
        notifications: who is told of what; a run is not bound to it.
        metrics: where Prometheus finds metrics; a run is not bound to it.
        evidence_kept_days: how long the site keeps evidence and reports, as the reports state it; a run is not bound to
            it, and Switchback deletes no evidence. None: not stated.
        store: where files in the evidence folder are put as well, so that tasks, pages and executors on every machine
            read them; without it all machines must mount one evidence folder.
        exports: what exports of records hold.
        drill: what drills on the real clusters use; without it a drill only observes.
        cool_down_seconds: after a procedure, how long no other procedure may take the same pair of clusters.
        reconcile_seconds: longest time after which an owner (operator, GitOps, Terraform) puts something back; who has
            left the markers alone for two of these periods puts nothing back.
        kafka_tools: no longer used; accepted, so that an upgrade refuses no topology that worked.
    """

    clusters: dict[Alias, Cluster] = Field(min_length=2)
    naming: NamingSpec
    flows: tuple[Flow, ...] = Field(min_length=1)
    routing: RoutingSettings
    journal: JournalSettings
    airflow_api: Named
    spark: SparkSettings
    evidence: FilePath
    evidence_kept_days: Annotated[int, Field(strict=True, ge=1, le=36_500)] | None = None
    applications: tuple[ApplicationSettings, ...] = ()
    drain: Named | None = None
    source_probe: Named | None = None
    fence_hook: FenceHookSettings | None = None
    kafka_tools: Folder | None = None
    recorder: Recorder | None = None
    store: StoreSettings | None = None
    exports: RecordExports = RecordExports()
    groups: tuple[GroupPolicy, ...] = ()
    deadlines: Deadlines = Deadlines()
    limits: ParamLimits = ParamLimits()
    approvers: Approvers = Approvers()
    notifications: tuple[NotificationRoute, ...] = ()
    metrics: MetricsSettings | None = None
    drill: DrillSettings | None = None
    reconcile_seconds: Seconds = 120.0
    cool_down_seconds: Annotated[float, Field(strict=True, ge=0, le=LONGEST_DEADLINE, allow_inf_nan=False)] = 900.0

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases of all clusters, sorted."""
        return tuple(sorted(self.clusters))

    @cached_property
    def names(self) -> Naming:
        """Return the rules by which topics of one cluster are named on another, by the policy under `naming`."""
        return naming_of(self.naming, self.aliases)

    @cached_property
    def graph(self) -> FlowGraph:
        """Return the flows as a graph of clusters."""
        return FlowGraph(self.naming.policy, tuple(flow.edge for flow in self.flows))

    def cluster(self, alias: str) -> Cluster:
        """Return the cluster of an alias; raise BadInput for an unknown alias."""
        if alias not in self.clusters:
            raise BadInput(
                f"{alias!a} is not a cluster of the topology", next_step=f"use one of: {', '.join(self.aliases)}"
            )
        return self.clusters[alias]

    def find_flow(self, source: str, target: str) -> Flow | None:
        """Return the flow from source to target; None if the topology has no such flow."""
        return next((flow for flow in self.flows if (flow.source, flow.target) == (source, target)), None)

    def flow(self, source: str, target: str) -> Flow:
        """Return the flow from source to target; raise BadInput if the topology has no such flow."""
        flow = self.find_flow(source, target)
        if flow is None:
            flow_names = ", ".join(f"{flow.source}->{flow.target}" for flow in self.flows)
            raise BadInput(
                f"no flow replicates from {source!a} to {target!a}",
                f"flows: {flow_names}",
                "swap source and target, or add the flow to the topology",
            )
        return flow

    def objectives_of(self, source: str, target: str) -> dict[str, Any] | None:
        """Return the objectives of the flow from source to target as plain data; None if none are stated."""
        flow = self.find_flow(source, target)
        return flow.objectives.stated if flow else None

    def pair_key(self, one: str, other: str) -> str:
        """Return the key of a pair of clusters in the journal's leases, as of `name_pair`.

        Raises:
            BadInput: an alias is not in the topology, or the two aliases are equal.
        """
        self.cluster(one), self.cluster(other)
        if one == other:
            raise BadInput(f"source and target are the same cluster {one!a}", next_step="name two different clusters")
        return name_pair(one, other)

    def policy_of(self, group: str) -> Policy:
        """Return the policy of the first of `groups` whose pattern matches the group's whole name; else `earliest`."""
        matching = (policy for pattern, policy in self._group_policies if pattern.matches(group))
        return next(matching, "earliest")

    @cached_property
    def _group_policies(self) -> tuple[tuple[PatternList, Policy], ...]:
        return tuple((pattern_list(entry.pattern, "group"), entry.policy) for entry in self.groups)
