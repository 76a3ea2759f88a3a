"""Configuration of the demo application, and the routing record that names the cluster for its clients."""

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
        name: unique name, part of the client's record ids and of its log's name.
        topics: topics that the client writes or reads, without a prefix of mirrored topics.
        group: the consumer's group; None for a producer.
        rate: records per second that a producer writes.
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
        properties: librdkafka settings, by cluster alias and principal.
        routing: path of the routing record.
        drain_url: URL at which the drain hook is served.
        prefixes: by cluster alias, prefixes of mirrored topics on this cluster; empty under identity naming.
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
        """Return the configuration for clients of a running lab.

        Args:
            status: the lab's status document.
            clients: the clients to run.
            folder: folder of the clients' event logs.
        """
        properties = {alias: cluster["client_properties"] for alias, cluster in status["clusters"].items()}
        prefixes = prefixes_of(status["policy"], list(properties))
        return cls(tuple(clients), properties, Path(status["routing"]), status["drain_url"], prefixes, folder)


def prefixes_of(policy: str, aliases: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return, by cluster alias, the prefixes of topics mirrored to this cluster; empty tuples under identity naming."""
    return {
        alias: () if policy == "identity" else tuple(f"{other}." for other in aliases if other != alias)
        for alias in aliases
    }


@dataclass(frozen=True)
class DemoRoute:
    """Content of the routing record: alias and address of the cluster to which clients connect, and a version."""

    cluster: str
    bootstrap_servers: str
    version: int

    @classmethod
    def read(cls, path: Path) -> DemoRoute:
        """Return the content of the routing record's file.

        Raises:
            OSError, KeyError, TypeError, ValueError: the file is absent, or is not a routing record.
        """
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> DemoRoute:
        """Return the content of a routing record's JSON document.

        Raises:
            KeyError, TypeError, ValueError: the document is not a routing record.
        """
        return cls(str(record["cluster"]), str(record["bootstrap_servers"]), int(record["version"]))


def write_whole(path: Path, document: object) -> None:
    """Write a JSON document to a temporary file and rename this file, so that no reader gets half a file."""
    aside = path.with_name(f".{path.name}.writing")
    aside.write_text(json.dumps(document), encoding="utf-8")
    aside.replace(path)
