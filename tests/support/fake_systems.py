"""Systems whose clients are a bench's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.procedure.systems import Systems

if TYPE_CHECKING:
    from tests.support.bench import Bench


class FakeSystems(Systems):
    """Asks a bench for every client, each time it needs one."""

    def __init__(self, bench: Bench, request: Request, topology: Topology, connections: Any) -> None:
        super().__init__(request, topology, connections)
        self._bench = bench

    @property
    def api(self) -> Any:
        """Airflow's API."""
        return self._bench.api

    def cluster(self, alias: str) -> Any:
        """A cluster, by its connection."""
        self.connections.kafka(self.topology.cluster(alias).connection)
        return self._bench.cluster(alias)

    def acls(self, cluster: Any) -> Any:
        """Its ACL entries."""
        return self._bench.acls(cluster)

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> Any:
        """A reader of a cluster's records."""
        return self._bench.reader(alias, isolation)

    def writer(self, alias: str) -> Any:
        """A writer to a cluster."""
        return self._bench.writer(alias)

    def probe(self, alias: str) -> Any:
        """The same writer, where the topology names a probe."""
        return self.writer(alias) if self.topology.cluster(alias).probe_connection else None

    def connect_worker(self, flow: Flow) -> Any:
        """The worker of a flow; refused where the flow has none."""
        return self._bench.workers[flow.worker.removeprefix("connect_")]

    def stop_hook(self, flow: Flow) -> Any:
        """The hook that stops a flow, where the topology names one."""
        return self._bench.hook if flow.stop_hook else None

    @property
    def source_probe(self) -> Any:
        """The application's view of the source, where the topology names one."""
        return self._bench.source_probe if self.topology.source_probe else None

    @property
    def fence_hook(self) -> Any:
        """The hook that fences, where the topology names one."""
        return self._bench.hook if self.topology.fence_hook else None
