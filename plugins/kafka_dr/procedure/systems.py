"""The systems outside that a run may touch. Clients connect on first use; nothing here decides."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Self

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.hooks.airflow_api import AirflowApi
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import key_and_value
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.site.drain import ApplicationDrain
from kafka_dr.hooks.site.fence import FenceHook
from kafka_dr.hooks.site.routing import ClientRouting, FileRouting, HttpRouting
from kafka_dr.hooks.site.source_probe import SourceProbe
from kafka_dr.hooks.site.stop import StopHook


class Systems:
    """Clients of everything outside, for one request.

    Attributes:
        request: names source and target.
        topology: names the connection of each system.
        connections: resolves the names.
    """

    def __init__(self, request: Request, topology: Topology, connections: Any) -> None:
        self.request, self.topology, self.connections = request, topology, connections
        self._clusters: dict[str, KafkaCluster] = {}
        self._acls: dict[str, ClusterAcls] = {}

    @cached_property
    def api(self) -> AirflowApi:
        """Airflow's API, asked with the product's own account."""
        return AirflowApi(*self.connections.login(self.topology.airflow_api.connection))

    @property
    def source(self) -> KafkaCluster:
        """The cluster where clients are now."""
        return self._cluster(self.request.source)

    @property
    def target(self) -> KafkaCluster:
        """The cluster where clients go."""
        return self._cluster(self.request.target)

    def cluster(self, alias: str) -> KafkaCluster:
        """A client of one cluster that shares nothing with others: neither connections nor what they know."""
        return KafkaCluster(alias, self.connections.kafka(self.topology.cluster(alias).connection))

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> RecordReader:
        """A reader of one cluster's records."""
        return RecordReader(self.connections.kafka(self.topology.cluster(alias).connection), alias, isolation)

    def writer(self, alias: str) -> RecordWriter:
        """A writer to the product's own topics on one cluster."""
        return RecordWriter(self.connections.kafka(self.topology.cluster(alias).connection), alias)

    def probe(self, alias: str) -> RecordWriter | None:
        """A writer with the probe's principal, which a fence must refuse; None where none is configured."""
        connection = self.topology.cluster(alias).probe_connection
        return RecordWriter(self.connections.kafka(connection), alias) if connection else None

    @property
    def source_acls(self) -> ClusterAcls:
        """The ACL entries of the source."""
        return self._acls_of(self.request.source)

    @property
    def target_acls(self) -> ClusterAcls:
        """The ACL entries of the target."""
        return self._acls_of(self.request.target)

    def acls(self, cluster: KafkaCluster) -> ClusterAcls:
        """The ACL entries of a cluster, by its client."""
        return ClusterAcls(cluster.admin, cluster.alias)

    def connect_worker(self, flow: Flow) -> MirrorMaker:
        """The Connect worker that hosts a flow; refused where MirrorMaker 2 runs in dedicated mode."""
        return MirrorMaker(*self._login(flow.worker), self.request.deadlines.connect_request_seconds)

    def dedicated(self, flow: Flow, hook: StopHook) -> DedicatedMirrorMaker:
        """What can be known of a flow in dedicated mode, and the hook that stops it."""
        settings = {"source.consumer.isolation.level": flow.isolation, **flow.mirror_maker}
        return DedicatedMirrorMaker(
            flow.source,
            flow.target,
            (flow.connectors.source, flow.connectors.checkpoint),
            settings,
            hook,
            lambda topic: self.reader(flow.target).read_all(topic, take=key_and_value),
        )

    def stop_hook(self, flow: Flow) -> StopHook | None:
        """What stops a flow's MirrorMaker 2 in dedicated mode; None where a Connect worker runs it."""
        return None if flow.stop_hook is None else StopHook(*self._login(flow.stop_hook))

    @cached_property
    def drain(self) -> ApplicationDrain | None:
        """The application's drain hook, if it has one."""
        hook = self.topology.drain
        return None if hook is None else ApplicationDrain(*self._login(hook.connection))

    @cached_property
    def source_probe(self) -> SourceProbe | None:
        """The application's own view of the source, if it offers one."""
        hook = self.topology.source_probe
        return None if hook is None else SourceProbe(*self._login(hook.connection))

    @cached_property
    def fence_hook(self) -> FenceHook | None:
        """What fences a cluster by other means than its ACLs, if there is such a thing."""
        hook = self.topology.fence_hook
        return None if hook is None else FenceHook(*self._login(hook.connection))

    @cached_property
    def routing(self) -> ClientRouting:
        """Where clients look up their cluster."""
        routing = self.topology.routing
        if routing.kind == "file":
            return FileRouting(Path(routing.path))
        return HttpRouting(*self._login(routing.connection))

    def anew(self, request: Request | None = None) -> Self:
        """Clients of their own, for the same request or another one."""
        anew: Self = self.connections.systems(request or self.request, self.topology)
        return anew

    def reversed(self) -> Self:
        """The same clients with source and target swapped."""
        swapped = {"source": self.request.target, "target": self.request.source}
        turned = self.anew(self.request.model_copy(update=swapped))
        turned.share_clients(self)
        return turned

    def share_clients(self, other: Systems) -> None:
        """Use the clusters' clients of other systems from now on."""
        vars(self).update({name: vars(other)[name] for name in ("_clusters", "_acls")})

    def close(self) -> None:
        """Let go of the clients that were used."""
        self._clusters.clear()
        self._acls.clear()

    def _cluster(self, alias: str) -> KafkaCluster:
        if alias not in self._clusters:
            self._clusters[alias] = self.cluster(alias)
        return self._clusters[alias]

    def _acls_of(self, alias: str) -> ClusterAcls:
        if alias not in self._acls:
            self._acls[alias] = self.acls(self._cluster(alias))
        return self._acls[alias]

    def _login(self, connection_id: str) -> tuple[str, tuple[str, str] | None]:
        url, user, password = self.connections.login(connection_id)
        return url, (user, password) if user else None
