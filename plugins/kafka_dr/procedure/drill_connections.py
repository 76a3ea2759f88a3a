"""Airflow connections of a drill's run, whose clients change nothing outside the drill."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from kafka_dr.config.topology import Topology
from kafka_dr.domain.drill.scope import DrillScope

#: A port at which no broker listens.
_NOWHERE = "127.0.0.1:9"


class DrillConnections:
    """The connections of one run in a drill: all clients that are made of them keep the drill's scope.

    Args:
        connections: reads Airflow's connections.
        scope: what the drill may change.
        journal: file of the drill's own journal.
        cut_off: connections of the cluster that the run shall not reach, as if it were lost.
    """

    def __init__(self, connections: Any, scope: DrillScope, journal: Path, cut_off: Collection[str] = ()) -> None:
        self._connections, self._scope, self._journal, self._cut_off = connections, scope, journal, frozenset(cut_off)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connections, name)

    def systems(self, request: Any, topology: Topology) -> Any:
        """Return the clients of all outside systems, which change only what is in the drill's scope."""
        systems = self._connections.systems(request, topology)
        systems.connections, systems.scope = self, self._scope
        return systems

    def kafka(self, connection_id: str) -> dict[str, Any]:
        """Return librdkafka's configuration; for a cluster that is cut off, with an address that leads nowhere."""
        config: dict[str, Any] = self._connections.kafka(connection_id)
        return config | {"bootstrap.servers": _NOWHERE} if connection_id in self._cut_off else config

    def journal_url(self, connection_id: str) -> str:
        """Return the SQLAlchemy URL of the drill's own journal, whatever the topology names."""
        return f"sqlite:///{self._journal}"
