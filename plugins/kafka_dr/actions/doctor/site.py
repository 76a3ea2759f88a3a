"""What one examination knows: topology, connections, and what its checks have seen so far."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Topology
from kafka_dr.domain.doctor.clocks import ClockReading
from kafka_dr.domain.doctor.identity import OtherLogin, SeenWorker
from kafka_dr.procedure.systems import Systems

Kind = Literal["kafka", "http", "api", "journal", "spark", "files", "dns", "token", "notice"]
#: Airflow's executors that run every task on the machine of the scheduler.
ON_ONE_MACHINE = ("LocalExecutor", "SequentialExecutor")


class NamedConnection(NamedTuple):
    """An Airflow connection that the topology names.

    Attributes:
        kind: how it is read.
        role: what it is for, such as `cluster` or `probe`.
        alias: of the cluster to which it belongs; "" if it belongs to none.
    """

    name: str
    kind: Kind
    role: str
    alias: str = ""


def named_connections(topology: Topology) -> list[NamedConnection]:
    """Return all connections that the topology names, each once for each kind."""
    return list({(one.name, one.kind): one for one in reversed(list(_all_named(topology)))}.values())[::-1]


def _all_named(topology: Topology) -> Iterator[NamedConnection]:
    for alias, cluster in topology.clusters.items():
        yield NamedConnection(cluster.connection, "kafka", "cluster", alias)
        if cluster.probe_connection:
            yield NamedConnection(cluster.probe_connection, "kafka", "probe", alias)
    for application in topology.applications:
        for alias, name in application.connections.items():
            yield NamedConnection(name, "kafka", "application", alias)
    for flow in topology.flows:
        yield from (NamedConnection(name, "http", "connect", flow.target) for name in flow.workers)
        if flow.stop_hook:
            yield NamedConnection(flow.stop_hook, "http", "hook", flow.target)
    yield from _of_drills(topology)
    yield from _of_hooks(topology)
    yield NamedConnection(topology.airflow_api.connection, "api", "airflow")
    yield NamedConnection(topology.journal.connection, "journal", "journal")
    yield NamedConnection(topology.spark.connection, "spark", "spark")
    for files in (topology.store, topology.recorder):
        if files and files.connection:
            yield NamedConnection(files.connection, "files", "files")
    if topology.metrics and topology.metrics.connection:
        yield NamedConnection(topology.metrics.connection, "token", "metrics")
    yield from (NamedConnection(route.connection, "notice", "notice") for route in topology.notifications)


def _of_drills(topology: Topology) -> Iterator[NamedConnection]:
    if topology.drill:
        yield from (NamedConnection(name, "http", "connect", alias) for alias, name in topology.drill.connect.items())
        yield from (NamedConnection(name, "kafka", "drill", alias) for alias, name in topology.drill.clients.items())


def _of_hooks(topology: Topology) -> Iterator[NamedConnection]:
    # An application's own hooks answer while it runs: only their names are looked at.
    for hook in (topology.drain, topology.source_probe):
        if hook:
            yield NamedConnection(hook.connection, "http", "application hook")
    if topology.fence_hook:
        yield NamedConnection(topology.fence_hook.connection, "http", "hook")
    if topology.routing.kind != "file":
        kind: Kind = "http" if topology.routing.kind == "http" else "dns"
        yield NamedConnection(topology.routing.connection, kind, "hook")


@dataclass
class Site:
    """One examination of one machine.

    Attributes:
        executor: Airflow's setting, which may name several.
        ids: alias -> id of the cluster to which its connection leads, as far as seen.
        other_logins: other connections to the clusters that answered, such as the probe's.
        workers: Connect clusters that answered, by connection.
        clocks: whose clock -> reading.
        earlier_ids: alias -> id of the cluster, as the newest run in the journal has recorded it.
    """

    topology: Topology
    connections: Any
    executor: str
    ids: dict[str, str] = field(default_factory=dict)
    other_logins: list[OtherLogin] = field(default_factory=list)
    workers: dict[str, SeenWorker] = field(default_factory=dict)
    clocks: dict[str, ClockReading] = field(default_factory=dict)
    earlier_ids: dict[str, str] = field(default_factory=dict)
    host: str = field(default_factory=socket.gethostname)

    @cached_property
    def named(self) -> list[NamedConnection]:
        """All connections that the topology names."""
        return named_connections(self.topology)

    def of_kind(self, kind: Kind, *roles: str) -> list[NamedConnection]:
        """Return the connections of a kind, with one of these roles if any is given."""
        return [one for one in self.named if one.kind == kind and (not roles or one.role in roles)]

    @property
    def on_one_machine(self) -> bool:
        """Whether Airflow runs every task on one machine."""
        names = (name.split(".")[-1].split(":")[-1].strip() for name in self.executor.split(","))
        return all(name in ON_ONE_MACHINE for name in names)

    @cached_property
    def systems(self) -> Systems:
        """Clients of all outside systems; the request only names a flow, and no step acts by it."""
        flow = self.topology.flows[0]
        systems: Systems = self.connections.systems(self.request(flow.source, flow.target), self.topology)
        return systems

    def request(self, source: str, target: str) -> Request:
        """Return params of a run that never acts."""
        return Request(source=source, target=target, reason="doctor", deadlines=self.topology.deadlines)

    def note_clock(self, whose: str, time: datetime | None, sent: float, received: float, resolution: float) -> None:
        """Keep a reading of another machine's clock.

        Args:
            time: as the other machine stated it; None if it stated none.
            sent, received: when this machine asked and had the answer, in seconds since 1970 by its own clock.
            resolution: of the stated time, in seconds.
        """
        if time is not None:
            ahead = time.timestamp() + resolution / 2 - (sent + received) / 2
            self.clocks[whose] = ClockReading(ahead, (received - sent + resolution) / 2)


def cluster_connections(topology: Topology) -> Mapping[str, str]:
    """Return the Airflow connection of each cluster, by alias."""
    return {alias: cluster.connection for alias, cluster in topology.clusters.items()}
