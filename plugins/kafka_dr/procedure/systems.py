"""Clients of the outside systems that a run uses; a client connects on first use."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from kafka_dr.config.params import Request
from kafka_dr.config.routing import DnsRoutingSettings
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.hooks.airflow_api import AirflowApi
from kafka_dr.hooks.application_client import ApplicationClient, principal_of
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.anchor_topic import AnchorTopic
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter
from kafka_dr.hooks.brokers.topics import READ_COMMITTED
from kafka_dr.hooks.brokers.writer_process import ReplayProcess
from kafka_dr.hooks.connect.canary_connector import CanaryConnector
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.connect.drill_connectors import DrillConnectors
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.hooks.connect.marker_connector import MarkerConnector
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.connect.offsets_topic import OffsetsTopic
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint
from kafka_dr.hooks.file_store import FileStore
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.site.dns_routing import DnsRouting
from kafka_dr.hooks.site.drain import ApplicationDrain
from kafka_dr.hooks.site.fence import FenceHook
from kafka_dr.hooks.site.routing import ClientRouting, FileRouting, HttpRouting
from kafka_dr.hooks.site.source_probe import SourceProbe
from kafka_dr.hooks.site.stop import StopHook

if TYPE_CHECKING:
    from kafka_dr.hooks.brokers.log_directories import LogDirectories
    from kafka_dr.hooks.brokers.transactions import ClusterTransactions


class Systems:
    """Returns clients of all outside systems, for the source and target that one request names.

    Attributes:
        request: names source and target.
        topology: names the connection of each system.
        connections: resolves the names of connections.
        scope: in a drill, what the clients may change; they refuse every other change before a request is sent.
    """

    def __init__(self, request: Request, topology: Topology, connections: Any, scope: DrillScope | None = None) -> None:
        self.request, self.topology, self.connections, self.scope = request, topology, connections, scope
        self._clusters: dict[str, KafkaCluster] = {}
        self._acls: dict[str, ClusterAcls] = {}

    @property
    def own_names(self) -> OwnNames:
        """Names of what Switchback itself makes on the clusters: production's, or those of the run's drill."""
        return OwnNames() if self.scope is None else self.scope.own

    @cached_property
    def api(self) -> AirflowApi:
        """Client of Airflow's API, logged in with Switchback's own account."""
        name = self.topology.airflow_api.connection
        url, user, password = self.connections.api_login(name)
        return AirflowApi(url, user, password, self.connections.tls(name))

    @cached_property
    def store(self) -> FileStore | None:
        """Client of the store of evidence and artifacts; None if the topology names none."""
        return store_of(self.topology, self.connections)

    @property
    def source(self) -> KafkaCluster:
        """Client of the source: the cluster where applications are now."""
        return self._cluster(self.request.source)

    @property
    def target(self) -> KafkaCluster:
        """Client of the target: the cluster where applications go."""
        return self._cluster(self.request.target)

    def cluster(self, alias: str) -> KafkaCluster:
        """Return a new client of one cluster, which shares neither connections nor caches with other clients."""
        return KafkaCluster(alias, self.connections.kafka(self.topology.cluster(alias).connection), self.scope)

    def cluster_as(self, alias: str, settings: dict[str, Any]) -> KafkaCluster:
        """Return a new client of one cluster that logs in with these settings of librdkafka."""
        return KafkaCluster(alias, settings, self.scope)

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> RecordReader:
        """Return a new reader of one cluster's records."""
        return RecordReader(self.connections.kafka(self.topology.cluster(alias).connection), alias, isolation)

    def writer(self, alias: str) -> RecordWriter:
        """Return a new writer of single records to one cluster, for Switchback's own topics and offsets topics."""
        return RecordWriter(self.connections.kafka(self.topology.cluster(alias).connection), alias, self.scope)

    def replay_writer(self, alias: str, transactional_id: str, batch_bytes: int) -> ReplayProcess:
        """Return the child process that writes transactions to one cluster; the process is not started yet."""
        settings = self.connections.kafka(self.topology.cluster(alias).connection)
        return ReplayProcess(settings, alias, transactional_id, batch_bytes, scope=self.scope)

    def transactions(self, alias: str) -> ClusterTransactions:
        """Return a new client that lists and aborts the transactions of one cluster."""
        from kafka_dr.hooks.brokers.transactions import (  # noqa: PLC0415 (8 MB, which most steps are spared)
            ClusterTransactions,
        )

        settings = self.connections.kafka(self.topology.cluster(alias).connection)
        return ClusterTransactions(settings, alias, self.scope)

    def log_directories(self, alias: str) -> LogDirectories:
        """Return a new client that reads how large the logs of one cluster are."""
        from kafka_dr.hooks.brokers.log_directories import LogDirectories  # noqa: PLC0415 (as above)

        return LogDirectories(self.connections.kafka(self.topology.cluster(alias).connection), alias)

    def anchor_topic(self, alias: str) -> AnchorTopic:
        """Return a client of the topic with the journal's anchors on one cluster."""
        self._refuse_in_drill("writing the journal's anchors", "the topic with the anchors of the journal")
        return AnchorTopic(self.connections.kafka(self.topology.cluster(alias).connection), alias)

    def probe(self, alias: str) -> RecordWriter | None:
        """Return a writer with the probe's principal, whose writes a fence must refuse; None without a probe."""
        connection = self.topology.cluster(alias).probe_connection
        return RecordWriter(self.connections.kafka(connection), alias, self.scope) if connection else None

    def application(self, alias: str, connection: str) -> ApplicationClient:
        """Return a client of one cluster with the application's login that an Airflow connection has."""
        self._refuse_in_drill("trying the login of an application", f"the connection {connection}")
        settings = self.connections.kafka(connection)
        return ApplicationClient(
            principal_of(settings),
            KafkaCluster(alias, settings, self.scope),
            RecordWriter(settings, alias, self.scope),
            RecordReader(settings, alias),
        )

    @property
    def source_acls(self) -> ClusterAcls:
        """Client for the ACL entries of the source."""
        return self.acls_of(self.request.source)

    @property
    def target_acls(self) -> ClusterAcls:
        """Client for the ACL entries of the target."""
        return self.acls_of(self.request.target)

    def acls(self, cluster: KafkaCluster) -> ClusterAcls:
        """Return a new client for the ACL entries of the cluster to which `cluster` connects."""
        return ClusterAcls(cluster)

    def connect_worker(self, connection: str) -> MirrorMaker:
        """Return the client of the Connect worker that an Airflow connection names."""
        seconds = self.request.deadlines.connect_request_seconds
        return MirrorMaker(*self._login(connection), seconds, self.scope)

    def flow_connectors(self, flow: Flow) -> FlowConnectors:
        """Return the client of a flow's connectors: by its Connect worker, or without one by its hook.

        Without a worker, as in dedicated mode, settings come from the topology, and offsets from the offsets topic.
        """
        return self._by_hook(flow) if flow.connect is None else self.connectors_in_connect(flow)

    def connectors_in_connect(self, flow: Flow) -> FlowConnectors:
        """Return the client of a flow's connectors by its Connect worker; BadInput if it has none."""
        other = flow.connectors.checkpoint.connect
        return FlowConnectors(
            flow,
            self.topology.names,
            self.connect_worker(flow.worker),
            self.connect_worker(other) if other not in (None, flow.worker) else None,
        )

    def _by_hook(self, flow: Flow) -> FlowConnectors:
        processes = DedicatedMirrorMaker(
            flow.source,
            flow.target,
            flow.connectors.names,
            {"source.consumer.isolation.level": flow.isolation, **flow.mirror_maker},
            cast("StopHook", self.stop_hook(flow)),
            self.offsets_topic(flow),
            flow.offsets_topic.group,
            self._cluster(flow.target).count_members,
        )
        # Methods that need a REST API are missing; their callers ask for `flow.connect` first.
        return FlowConnectors(flow, self.topology.names, cast("MirrorMaker", processes))

    def offsets_topic(self, flow: Flow) -> OffsetsTopic:
        """Return the client of the topic in which a flow's workers or processes store offsets, on the flow's target."""
        alias = flow.target
        return OffsetsTopic(
            flow.offsets_topic,
            self._cluster(alias),
            lambda: self.reader(alias, READ_COMMITTED),
            lambda: self.writer(alias),
        )

    def marker_connector(self, connection: str) -> MarkerConnector:
        """Return the client of the marker connector in the Connect worker that an Airflow connection names."""
        return MarkerConnector(*self._login(connection), self.scope)

    def canary_connector(self, connection: str) -> CanaryConnector:
        """Return the client of the canary's connector in the Connect worker that an Airflow connection names."""
        return CanaryConnector(*self._login(connection), self.scope, self.own_names.exempt_connector)

    def drill_connectors(self, connection: str) -> DrillConnectors:
        """Return the client that reads all connectors of a Connect worker, and changes those of a drill."""
        return DrillConnectors(ConnectEndpoint(*self._login(connection), self.scope))

    def stop_hook(self, flow: Flow) -> StopHook | None:
        """Return the hook that stops MirrorMaker 2 in dedicated mode; None if a Connect worker hosts the flow."""
        return None if flow.stop_hook is None else StopHook(*self._hook_login(flow.stop_hook))

    @cached_property
    def drain(self) -> ApplicationDrain | None:
        """Client of the application's drain hook; None if the topology names no drain hook."""
        hook = self.topology.drain
        return None if hook is None else ApplicationDrain(*self._hook_login(hook.connection))

    @cached_property
    def source_probe(self) -> SourceProbe | None:
        """Client of the source probe, which asks the application whether it reaches the source.

        None if the topology names no source probe.
        """
        hook = self.topology.source_probe
        return None if hook is None else SourceProbe(*self._login(hook.connection))

    @cached_property
    def fence_hook(self) -> FenceHook | None:
        """Client of the fence hook, which fences a cluster without ACLs; None if the topology names no fence hook."""
        hook = self.topology.fence_hook
        return None if hook is None else FenceHook(*self._hook_login(hook.connection))

    @property
    def planned_fence_hook(self) -> FenceHook | None:
        """Client of the fence hook if its fence spares MirrorMaker 2, so that a planned failover can ask it."""
        hook = self.topology.fence_hook
        return self.fence_hook if hook is not None and hook.spares_mirror_maker else None

    @cached_property
    def routing(self) -> ClientRouting:
        """Client of the routing record, in which applications read to which cluster they connect."""
        routing = self.topology.routing
        if routing.kind == "file":
            return FileRouting(Path(routing.path), self.scope)
        if routing.kind == "dns":
            return self.dns_routing(routing)
        return HttpRouting(*self._hook_login(routing.connection))

    def dns_routing(self, settings: DnsRoutingSettings) -> DnsRouting:
        """Return a client of the shared DNS name that leads applications to their cluster."""
        self._refuse_in_drill("changing a DNS name", f"the name {settings.name}")
        return DnsRouting(self.connections.dns(settings.connection), settings)

    def with_own_clients(self, request: Request | None = None) -> Self:
        """Return a new Systems that shares no client with this Systems; `request` replaces the request if given."""
        systems: Self = self.connections.systems(request or self.request, self.topology)
        systems.scope = self.scope
        return systems

    def reversed(self) -> Self:
        """Return a Systems with source and target swapped, which uses the same clients of clusters and ACLs."""
        roles = {"source": self.request.target, "target": self.request.source}
        swapped = self.with_own_clients(self.request.model_copy(update=roles))
        swapped.share_clients(self)
        return swapped

    def share_clients(self, other: Systems) -> None:
        """Use the clients of clusters and ACLs of another Systems from now on."""
        vars(self).update({name: vars(other)[name] for name in ("_clusters", "_acls")})

    def close(self) -> None:
        """Drop the clients of clusters and ACL entries; the next use creates new clients."""
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()
        self._acls.clear()

    def _cluster(self, alias: str) -> KafkaCluster:
        if alias not in self._clusters:
            self._clusters[alias] = self.cluster(alias)
        return self._clusters[alias]

    def acls_of(self, alias: str) -> ClusterAcls:
        """Return the client for the ACL entries of the cluster with this alias."""
        if alias not in self._acls:
            self._acls[alias] = self.acls(self._cluster(alias))
        return self._acls[alias]

    def _hook_login(self, connection_id: str) -> tuple[str, tuple[str, str] | None, HttpTls]:
        """Return the login of a hook that changes the site; OutsideDrill in a drill, whose names no hook knows."""
        self._refuse_in_drill("asking a hook of the site", f"the hook behind the connection {connection_id}")
        return self._login(connection_id)

    def _refuse_in_drill(self, call: str, what: str) -> None:
        if self.scope is not None:
            self.scope.refuse(what, call)

    def _login(self, connection_id: str) -> tuple[str, tuple[str, str] | None, HttpTls]:
        url, user, password = self.connections.login(connection_id)
        return url, (user, password) if user else None, self.connections.tls(connection_id)


def store_of(topology: Topology, connections: Any) -> FileStore | None:
    """Return the client of the store that a topology names; None if it names none."""
    settings = topology.store
    if settings is None:
        return None
    name = settings.connection
    return FileStore(settings.uri, (lambda: connections.archive_options(name)) if name else dict)
