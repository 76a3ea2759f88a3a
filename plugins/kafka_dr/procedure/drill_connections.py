"""Airflow connections of a drill's run, whose clients change nothing outside the drill."""

from __future__ import annotations

from typing import Any

from kafka_dr.config.topology import Topology
from kafka_dr.domain.drill.scope import DrillScope


class DrillConnections:
    """The connections of one run in a drill: all clients that are made of them keep the drill's scope.

    Args:
        connections: reads Airflow's connections.
        scope: what the drill may change.
    """

    def __init__(self, connections: Any, scope: DrillScope) -> None:
        self._connections, self._scope = connections, scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connections, name)

    def systems(self, request: Any, topology: Topology) -> Any:
        """Return the clients of all outside systems, which change only what is in the drill's scope."""
        systems = self._connections.systems(request, topology)
        systems.connections, systems.scope = self, self._scope
        return systems
