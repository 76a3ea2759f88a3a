"""Systems whose clients are a bench's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, OpenTransaction, Producer
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.procedure.systems import Systems
from kafka_dr.vocabulary import MARKER_CONNECTOR

if TYPE_CHECKING:
    from tests.support.bench import Bench


class FakeMarker:
    """The marker connector of a bench's worker."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def find_change(self) -> str:
        """Return what differs."""
        self._worker.answer()
        state = self._worker.states.get(MARKER_CONNECTOR, "deleted")
        return "" if state == "STOPPED" else state

    def restore(self) -> str:
        """Create or stop it."""
        self._worker.states[MARKER_CONNECTOR] = "STOPPED"
        return ""


class FakeTransactions:
    """The transactions of a bench's cluster: what its coordinators list; none is open on a partition."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def known(self) -> list[KnownTransaction]:
        """Return the transactional ids."""
        return list(self._cluster.every_broker.transactional_ids(()))

    def producers_on(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[Producer]]:
        """Return the producers of each partition."""
        return dict(self._cluster.every_broker.producers(dict.fromkeys(partitions, 1)))

    def open_on(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Return no transaction."""
        return []

    def starts_and_timeouts(self, transactional_ids: Iterable[str]) -> dict[str, tuple[None, None]]:
        """Return nothing of each id."""
        return dict.fromkeys(transactional_ids, (None, None))

    def check(self) -> None:
        """Find transactions abortable."""
        self.known()


class FakeLogDirectories:
    """The sizes of a bench's logs: those that the cluster states."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the sizes of the topics' partitions."""
        if isinstance(self._cluster.sizes, KafkaUnavailable):
            raise self._cluster.sizes
        wanted = set(topics)
        return {tp: size for tp, size in self._cluster.sizes.items() if tp.topic in wanted}


class FakeSystems(Systems):
    """Gets every client from a bench, at each use again."""

    def __init__(self, bench: Bench, request: Request, topology: Topology, connections: Any) -> None:
        super().__init__(request, topology, connections)
        self._bench = bench

    @property
    def api(self) -> Any:
        """Return Airflow's API."""
        return self._bench.api

    def cluster(self, alias: str) -> Any:
        """Return a cluster, by its connection."""
        self.connections.kafka(self.topology.cluster(alias).connection)
        return self._bench.cluster(alias)

    def acls(self, cluster: Any) -> Any:
        """Return the cluster's ACL entries."""
        return self._bench.acls(cluster)

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> Any:
        """Return a reader of a cluster's records."""
        return self._bench.reader(alias, isolation)

    def writer(self, alias: str) -> Any:
        """Return a writer to a cluster."""
        return self._bench.writer(alias)

    def transactions(self, alias: str) -> Any:
        """Return the transactions of a cluster."""
        return FakeTransactions(self._bench.clusters[alias])

    def log_directories(self, alias: str) -> Any:
        """Return the sizes of a cluster's logs."""
        return FakeLogDirectories(self._bench.clusters[alias])

    def anchor_topic(self, alias: str) -> Any:
        """Return the topic with the journal's anchors on a cluster, by its connection."""
        self.connections.kafka(self.topology.cluster(alias).connection)
        return self._bench.clusters[alias].anchors

    def probe(self, alias: str) -> Any:
        """Return the same writer, if the topology names a probe connection; else None."""
        return self.writer(alias) if self.topology.cluster(alias).probe_connection else None

    def connect_worker(self, connection: str) -> Any:
        """Return a Connect worker, by its connection."""
        return self._bench.workers[connection.removeprefix("connect_")]

    def marker_connector(self, connection: str) -> Any:
        """Return the marker connector of a Connect worker."""
        return FakeMarker(self.connect_worker(connection))

    def stop_hook(self, flow: Flow) -> Any:
        """Return the hook that stops a flow, if the topology names one; else None."""
        return self._bench.hook if flow.stop_hook else None

    @property
    def source_probe(self) -> Any:
        """Return the application's view of the source, if the topology names one; else None."""
        return self._bench.source_probe if self.topology.source_probe else None

    @property
    def fence_hook(self) -> Any:
        """Return the fence hook, if the topology names one; else None."""
        return self._bench.hook if self.topology.fence_hook else None
