"""The demo application's configuration, and where its clients connect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ClientPlan:
    """Configuration of one client.

    Args:
        name: unique; part of the client's record ids and of its log's name.
        topics: local names of the topics that the client writes or reads.
        group: consumer group; None for a producer.
        rate: records per second of a producer.
    """

    name: str
    topics: tuple[str, ...]
    group: str | None = None
    rate: float = 50.0


@dataclass(frozen=True)
class Application:
    """Configuration of the supervisor.

    Args:
        clients: the clients to run.
        properties: librdkafka keys by alias and principal.
        routing: path of the routing record.
        drain_url: address of the drain hook.
        prefixes: prefixes of mirrored topics by alias (empty under identity naming).
        folder: folder of the clients' event logs.
    """

    clients: tuple[ClientPlan, ...]
    properties: Mapping[str, Mapping[str, Mapping[str, str]]] = field(repr=False)
    routing: Path
    drain_url: str
    prefixes: Mapping[str, tuple[str, ...]]
    folder: Path

    @classmethod
    def on(cls, status: Mapping[str, Any], clients: Sequence[ClientPlan], folder: Path) -> Application:
        """Return the configuration for a running lab."""
        properties = {alias: cluster["client_properties"] for alias, cluster in status["clusters"].items()}
        prefixes = prefixes_of(status["policy"], list(properties))
        return cls(tuple(clients), properties, Path(status["routing"]), status["drain_url"], prefixes, folder)


def prefixes_of(policy: str, aliases: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the prefixes of mirrored topics by alias; empty tuples under identity naming."""
    return {
        alias: () if policy == "identity" else tuple(f"{other}." for other in aliases if other != alias)
        for alias in aliases
    }


@dataclass(frozen=True)
class DemoRoute:
    """Where clients connect, from the routing record."""

    cluster: str
    bootstrap_servers: str
    version: int

    @classmethod
    def read(cls, path: Path) -> DemoRoute:
        """Read the routing record."""
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> DemoRoute:
        """Take the fields of a routing record.

        Raises:
            KeyError, TypeError, ValueError: the document is no routing record.
        """
        return cls(str(record["cluster"]), str(record["bootstrap_servers"]), int(record["version"]))


def write_whole(path: Path, document: object) -> None:
    """Write a JSON document; a temporary file is renamed, so that no reader sees an incomplete file."""
    aside = path.with_name(f".{path.name}.writing")
    aside.write_text(json.dumps(document), encoding="utf-8")
    aside.replace(path)
