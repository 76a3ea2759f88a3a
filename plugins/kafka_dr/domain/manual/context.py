"""The data from which manual commands are built."""

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
    """A cluster for Kafka's tools: bootstrap servers, and the file with the login."""

    alias: str
    servers: str
    settings: str

    def tool(self, name: str) -> str:
        """The start of a command of one of Kafka's tools on this cluster."""
        return f"{name} --bootstrap-server {quote(self.servers)} --command-config {quote(self.settings)}"


@dataclass(frozen=True)
class ConnectorCommands:
    """Commands for a flow's connectors in its Connect worker; `login`: whether the worker requires a login."""

    url: str
    login: bool
    alias: str
    source: str
    checkpoint: str

    def ask(self, method: str, connector: str, rest: str, more: str = "") -> str:
        """The curl command of one REST request on a connector."""
        login = ' -u "$CONNECT_USER"' if self.login else ""
        return (
            f"curl -fsS{login} -X {method}{more}"
            f" {quote(f'{self.url}/connectors/{in_url(connector, safe=str())}{rest}')}"
        )

    def until(self, connector: str, state: str) -> str:
        """The command that waits until a connector is in a state."""
        expected = '"connector":{"state":"' + state + '"'
        return f"until {self.ask('GET', connector, '/status')} | grep -q {quote(expected)}; do sleep 1; done"


@dataclass(frozen=True)
class ManualContext:
    """All data from which the commands are built.

    Attributes:
        flow: None if MirrorMaker 2 runs in dedicated mode.
        done, begun: steps with an outcome, with an intent.
        fence, opening: entries that the plan adds on the source and removes on the target.
        added, removed: entries that were added on the source and removed on the target, and that a rollback reverts.
        stopped: connectors that a rollback resumes.
        positions: group, topic, partition and offset on the target; None if positions are not translated yet, or are
            unknown by the reason in the notes of commit_groups.
        local_topics: topics that clients will write to and that do not exist yet, with their partition counts.
        seeds: last replicated offsets to seed in the reverse flow, None for the log start; None before the boundary is
            known.
        routing: the `cp` or `curl` command that redirects clients; empty if no shell command can.
        drain: URL of the application's drain hook; empty without a drain hook.
        mark: the command that records a manual action in the journal.
        loops: whether both directions running would copy records in a circle.
        notes: remarks by step.
        fence_hook: URL of the hook that was asked to fence the source; empty if no hook was asked.
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
        """Whether the source was declared lost: only a rollback of entries added on the source may need the source."""
        return not PROCEDURES[self.dag_id].needs_source

    @property
    def forward(self) -> ConnectorCommands:
        """The flow, for procedures that need the source; only without a source `flow` may be None."""
        return cast("ConnectorCommands", self.flow)


@dataclass(frozen=True)
class ManualStep:
    """One step as text for people, and commands."""

    step: str
    says: tuple[str, ...]
    commands: tuple[str, ...] = ()
    done: bool = False
