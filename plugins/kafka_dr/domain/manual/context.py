"""The data from which manual commands are built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import cast
from urllib.parse import quote as in_url

from kafka_dr.domain.kafka_model.acl import AclChange
from kafka_dr.domain.manual.files import Seeds
from kafka_dr.procedures import PROCEDURES

#: File with the login to the target that commands name.
TARGET_SETTINGS = "target.properties"


@dataclass(frozen=True)
class ToolAccess:
    """What Kafka's tools need to reach a cluster: bootstrap servers, and the login file's name (`settings`)."""

    alias: str
    servers: str
    settings: str

    def tool(self, name: str) -> str:
        """Return the beginning of a command: a tool's name, the cluster's servers and the file with the login."""
        return f"{name} --bootstrap-server {quote(self.servers)} --command-config {quote(self.settings)}"


@dataclass(frozen=True)
class ConnectorCommands:
    """Makes curl commands for a flow's connectors in Connect.

    Attributes:
        url, login: address of the Connect worker with the source connectors, and whether it requires a login.
        alias: the alias of the flow's source.
        sources, checkpoint: names of the source connectors, and of the checkpoint connector.
        checkpoint_worker: address and login of the checkpoint connector's worker; None: the same worker.
    """

    url: str
    login: bool
    alias: str
    sources: tuple[str, ...]
    checkpoint: str
    checkpoint_worker: tuple[str, bool] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All connectors, source connectors first."""
        return (*self.sources, self.checkpoint)

    def ask(self, method: str, connector: str, rest: str, more: str = "") -> str:
        """Return the curl command of a REST request on a connector.

        Args:
            method: HTTP method, such as `PUT`.
            rest: end of the path after the connector's name, such as `/stop`.
            more: options for curl, with a space before them.
        """
        url, needs_login = (self.url, self.login)
        if connector == self.checkpoint and self.checkpoint_worker:
            url, needs_login = self.checkpoint_worker
        login = ' -u "$CONNECT_USER"' if needs_login else ""
        return f"curl -fsS{login} -X {method}{more} {quote(f'{url}/connectors/{in_url(connector, safe=str())}{rest}')}"

    def until(self, connector: str, state: str) -> str:
        """Return the command that waits, without a limit, until a connector has a state."""
        expected = '"connector":{"state":"' + state + '"'
        return f"until {self.ask('GET', connector, '/status')} | grep -q {quote(expected)}; do sleep 1; done"


@dataclass(frozen=True)
class ManualContext:
    """All data from which the commands are built.

    Attributes:
        flow, reverse: the flow source->target, and the reverse flow (None without one). Either is None, too, if the
            source was declared lost and MirrorMaker 2 of this direction runs in dedicated mode.
        done, begun_steps: steps that have an outcome in the journal; steps that have an intent.
        fence: change of the source's ACL entries that the plan names.
        opening: change of the target's ACL entries that the plan names.
        fence_made, opening_made: what of these two changes was made or begun; a rollback reverts both.
        stopped: connectors that a rollback resumes.
        positions: per position to commit: group, topic, partition and offset on the target; None if positions are not
            translated, or are unknown for the reason in the notes of commit_groups.
        local_topics: topics on the target that clients will write to and that do not exist yet, with the number of
            partitions.
        seeds: last replicated offset to seed in the reverse flow, by source connector and partition, None for its log
            start; None as a whole before the boundary is known.
        routing: the `cp` or `curl` command that redirects clients; empty if no shell command redirects clients.
        drain: URL of the application's drain hook; empty without a drain hook.
        mark: the command that records a manual action in the journal.
        loops: whether records would be copied in a circle if both directions ran.
        notes: remarks for people, by step.
        fence_hook: URL of the hook that is to lift its fence of the source in a rollback; empty without one.
        planned_hook: URL of the fence hook that planned runs ask, because it spares MirrorMaker 2; empty without one.
        hook_fences_target: whether, by the journal, this hook has fenced the target since clients left it.
        writer_denials: entries on the source that an earlier opening added against MirrorMaker 2, to be removed.
    """

    procedure_id: str
    dag_id: str
    source: ToolAccess
    target: ToolAccess
    flow: ConnectorCommands | None
    reverse: ConnectorCommands | None
    done: frozenset[str]
    begun_steps: frozenset[str]
    fence: AclChange
    opening: AclChange
    fence_made: AclChange
    opening_made: AclChange
    stopped: tuple[str, ...]
    positions: tuple[tuple[str, str, int, int], ...] | None
    seeds: Seeds | None
    routing: str
    drain: str
    mark: str
    local_topics: tuple[tuple[str, int], ...] = ()
    start_reverse: bool = False
    loops: bool = True
    notes: Mapping[str, str] = field(default_factory=dict)
    fence_hook: str = ""
    planned_hook: str = ""
    hook_fences_target: bool = False
    writer_denials: AclChange = field(default_factory=AclChange)

    @property
    def given_up(self) -> bool:
        """Whether the source was declared lost.

        Commands then need the source only to remove ACL entries that the run added on the source.
        """
        return not PROCEDURES[self.dag_id].needs_source

    @property
    def forward(self) -> ConnectorCommands:
        """The flow source->target; only for procedures that need the source, in which `flow` is never None."""
        return cast("ConnectorCommands", self.flow)


@dataclass(frozen=True)
class ManualStep:
    """One step for a person: texts on what to know or do (`says`), and shell commands (none if the step is done)."""

    step: str
    says: tuple[str, ...]
    commands: tuple[str, ...] = ()
    done: bool = False
