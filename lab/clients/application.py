"""What the demo application consists of, and where its clients connect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ClientPlan:
    """What one client does.

    Args:
        name: unique; part of its records' ids and of its log's name.
        topics: local topic names it writes or reads.
        group: consumer group; None makes it a producer.
        rate: records per second of a producer.
    """

    name: str
    topics: tuple[str, ...]
    group: str | None = None
    rate: float = 50.0


@dataclass(frozen=True)
class Application:
    """Everything the supervisor needs.

    Args:
        clients: what runs.
        properties: librdkafka keys by alias and principal.
        routing: path of the routing record.
        drain_url: where the drain hook is served.
        prefixes: what mirrored topics' names begin with, on each alias (empty under identity naming).
        folder: where clients write what they did.
    """

    clients: tuple[ClientPlan, ...]
    properties: Mapping[str, Mapping[str, Mapping[str, str]]] = field(repr=False)
    routing: Path
    drain_url: str
    prefixes: Mapping[str, tuple[str, ...]]
    folder: Path

    @classmethod
    def on(cls, status: Mapping[str, Any], clients: Sequence[ClientPlan], folder: Path) -> Application:
        """Make the application of a running lab."""
        aliases = list(status["clusters"])
        identity = status["policy"] == "identity"
        prefixes = {
            alias: () if identity else tuple(f"{other}." for other in aliases if other != alias) for alias in aliases
        }
        properties = {alias: status["clusters"][alias]["client_properties"] for alias in aliases}
        return cls(tuple(clients), properties, Path(status["routing"]), status["drain_url"], prefixes, folder)


@dataclass(frozen=True)
class Route:
    """Where clients connect, as the routing record tells it."""

    cluster: str
    bootstrap_servers: str
    version: int

    @classmethod
    def read(cls, path: Path) -> Route:
        """Read the routing record."""
        record = json.loads(path.read_text(encoding="utf-8"))
        return cls(record["cluster"], record["bootstrap_servers"], int(record["version"]))
