"""What the commands are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import cast
from urllib.parse import quote as in_url

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedures import PROCEDURES


@dataclass(frozen=True)
class ToolAccess:
    """How the tools reach a cluster: servers, and the file with the login."""

    alias: str
    servers: str
    settings: str

    def tool(self, name: str) -> str:
        """One of Kafka's tools on this cluster."""
        return f"{name} --bootstrap-server {quote(self.servers)} --command-config {quote(self.settings)}"


@dataclass(frozen=True)
class ConnectorCommands:
    """A flow in its Connect worker; `login` when the worker asks for one."""

    url: str
    login: bool
    alias: str
    source: str
    checkpoint: str

    def ask(self, method: str, connector: str, rest: str, more: str = "") -> str:
        """One request about a connector."""
        login = ' -u "$CONNECT_USER"' if self.login else ""
        return (
            f"curl -fsS{login} -X {method}{more}"
            f" {quote(f'{self.url}/connectors/{in_url(connector, safe=str())}{rest}')}"
        )

    def until(self, connector: str, state: str) -> str:
        """Wait until a connector is in a state."""
        wanted = '"connector":{"state":"' + state + '"'
        return f"until {self.ask('GET', connector, '/status')} | grep -q {quote(wanted)}; do sleep 1; done"


@dataclass(frozen=True)
class ManualContext:
    """Everything the commands are made of.

    Attributes:
        flow: None where MirrorMaker 2 runs in dedicated mode.
        done, begun: steps with an outcome, with an intent.
        fence, opening: entries that the plan adds on the source and removes on the target.
        added, removed: entries that were added on the source and removed on the target, and that a return puts back.
        stopped: connectors that a return resumes.
        positions: group, topic, partition and offset on the target; None before they are translated, and where the
            notes of commit_groups say why they are not known.
        local_topics: topics that clients will write to and that are still to be made, with their partitions.
        seeds: last replicated offsets of the reverse flow, None for its beginning; None before the boundary is known.
        routing: where clients look, as `cp` or `curl` words; empty when that is nothing for a shell.
        drain: the application's drain hook; empty without one.
        mark: the command that notes in the journal what is done by hand.
        fence_hook: the hook that was asked to keep clients from the source; empty if none was.
    """

    procedure_id: str
    dag_id: str
    source: ToolAccess
    target: ToolAccess
    flow: ConnectorCommands | None
    reverse: ConnectorCommands | None
    done: frozenset[str]
    begun: frozenset[str]
    fence: tuple[AclEntry, ...]
    opening: tuple[AclEntry, ...]
    added: tuple[AclEntry, ...]
    removed: tuple[AclEntry, ...]
    stopped: tuple[str, ...]
    positions: tuple[tuple[str, str, int, int], ...] | None
    seeds: Mapping[TopicPartition, int | None] | None
    routing: str
    drain: str
    mark: str
    local_topics: tuple[tuple[str, int], ...] = ()
    start_reverse: bool = False
    loops: bool = True
    notes: Mapping[str, str] = field(default_factory=dict)
    fence_hook: str = ""

    @property
    def given_up(self) -> bool:
        """Whether nothing that is printed may need the source, but the way back where something was added on it."""
        return not PROCEDURES[self.dag_id].needs_source

    @property
    def forward(self) -> ConnectorCommands:
        """The flow, on all ways but that without a source, where alone it may be None."""
        return cast("ConnectorCommands", self.flow)


@dataclass(frozen=True)
class ManualStep:
    """One step: its words, and its commands."""

    step: str
    says: tuple[str, ...]
    commands: tuple[str, ...] = ()
    done: bool = False
