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
        properties = {alias: cluster["client_properties"] for alias, cluster in status["clusters"].items()}
        prefixes = prefixes_of(status["policy"], list(properties))
        return cls(tuple(clients), properties, Path(status["routing"]), status["drain_url"], prefixes, folder)


def prefixes_of(policy: str, aliases: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return what mirrored topics' names begin with, on each alias."""
    return {
        alias: () if policy == "identity" else tuple(f"{other}." for other in aliases if other != alias)
        for alias in aliases
    }


@dataclass(frozen=True)
class DemoRoute:
    """Where clients connect, as the routing record tells it."""

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
            KeyError, TypeError, ValueError: it is none.
        """
        return cls(str(record["cluster"]), str(record["bootstrap_servers"]), int(record["version"]))


def write_whole(path: Path, document: object) -> None:
    """Replace a file by a JSON document, so that nobody reads half of it."""
    aside = path.with_name(f".{path.name}.writing")
    aside.write_text(json.dumps(document), encoding="utf-8")
    aside.replace(path)
