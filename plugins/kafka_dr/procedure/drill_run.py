"""A canary drill's private installation: topology, journal, connections and scope under which its passes run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka_dr.config.drill_topology import JOURNAL_FILE, PRIVATE_FOLDER, drill_settings, drill_topology
from kafka_dr.config.topology import Topology
from kafka_dr.domain.drill.names import DrillNames, drill_naming
from kafka_dr.domain.drill.scope import DrillScope, scope_of
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.drill_connections import DrillConnections
from kafka_dr.procedure.entries import DrillToClean, DrillToPrepare, facts_in, facts_of
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.procedure.systems import Systems
from kafka_dr.vocabulary import Entry, Step

#: Short names of a drill's topics and groups. The members of `ACTIVE_GROUP` consume during the passes; the other groups
#: are idle, at the beginning, in the middle and at the end of what was written before the first pass.
TOPICS, ACTIVE_GROUP = ("orders", "payments"), "active"
IDLE_GROUPS = {"idle-at-start": 0.0, "idle-in-the-middle": 0.5, "idle-at-end": 1.0}
GROUPS = (ACTIVE_GROUP, *IDLE_GROUPS)
#: DAGs whose source a pass cannot reach.
_WITHOUT_SOURCE = frozenset({"unplanned_failover"})


@dataclass(frozen=True)
class PrivateInstallation:
    """What the passes of one canary drill run under, beside production.

    Attributes:
        drill_id: the id of the drill's procedure.
        production: the topology.
        source, target: of the drilled flow.
    """

    drill_id: str
    production: Topology
    source: str
    target: str

    @cached_property
    def names(self) -> DrillNames:
        """Names of all that the drill makes."""
        return DrillNames(self.drill_id)

    @property
    def folder(self) -> Path:
        """The drill's private folder: its journal, its routing record, the evidence of its passes."""
        return Path(self.production.evidence) / self.drill_id / PRIVATE_FOLDER

    @cached_property
    def topology(self) -> Topology:
        """The topology of the passes; BadInput if production's topology names no workers for drills."""
        return drill_topology(self.production, self.source, self.target, self.names, self.folder)

    @cached_property
    def scope(self) -> DrillScope:
        """What the drill may change."""
        pair = (self.source, self.target)
        naming = drill_naming(self.production.naming, self.production.aliases)
        settings = drill_settings(self.production, *pair)
        exempt = [self.production.cluster(alias).principals for alias in pair]
        principals = [
            *settings.principals,
            *(name for one in exempt for name in (*one.mirror_maker, *one.orchestrator, *one.exempt)),
        ]
        return scope_of(self.names, naming, pair, TOPICS, GROUPS, str(self.folder), principals)

    def connections(self, connections: Any, cut_off: str | None = None) -> DrillConnections:
        """Return the connections of a pass; `cut_off`: alias of a cluster that the pass shall not reach."""
        names: list[str] = []
        if cut_off is not None:
            cluster = self.topology.cluster(cut_off)
            names = [name for name in (cluster.connection, cluster.probe_connection) if name]
        return DrillConnections(connections, self.scope, self.folder / JOURNAL_FILE, names)

    def systems_of(self, procedure: Run) -> Systems:
        """Return the clients of all outside systems within the drill's scope, for the drill's own run."""
        connections = self.connections(procedure.systems.connections)
        systems: Systems = connections.systems(procedure.request, self.topology)
        return systems

    def topics_on(self, alias: str) -> list[str]:
        """Return the names that the topics of the drill's clients have on a cluster, mirrored ones included."""
        naming, own = self.topology.names, [self.names.topic(name) for name in TOPICS]
        others = [other for other in (self.source, self.target) if other != alias]
        return sorted({*own, *(naming.remote(other, topic) for other in others for topic in own)})


def installation_of(procedure: Run) -> PrivateInstallation:
    """Return the private installation of a drill from the drill's own run."""
    request = procedure.request
    return PrivateInstallation(procedure.id, procedure.topology, request.source, request.target)


def pass_of_drill(
    drill_id: str, identity: Identity, params: Mapping[str, Any], topology: Topology, connections: Any, check: Any
) -> Run:
    """Return a run of a drill's pass, which acts in the drill's private installation alone.

    Args:
        drill_id: the id of the drill's procedure.
        identity: of the pass.
        params: the pass's params.
        topology: production's.
        connections: production's.
        check: makes a Request of a topology and params.

    Raises:
        BadInput: no such drill has prepared its passes, its time is over, or its clean-up has begun.
    """
    journal = Journal(connections.journal_url(topology.journal.connection))
    opened = opened_by(journal, drill_id)
    why_over = _why_over(journal, drill_id)
    if opened is None or why_over:
        raise BadInput(
            f"{drill_id!a} is no drill that runs",
            why_over or "the journal has no entry of open_procedure",
            "Leave the param drill out: failover_drill alone sets it, for the passes of a canary drill. What a drill"
            " has made is removed by clean_drill or schedule_drills: to rehearse again, start a new failover_drill.",
        )
    private = PrivateInstallation(drill_id, topology, opened.source, opened.target)
    request = check(private.topology, identity.dag_id, params)
    cut_off = request.source if identity.dag_id in _WITHOUT_SOURCE else None
    run = Run.connected(identity, request, private.topology, private.connections(connections, cut_off))
    run.yields_to = (journal, topology.pair_key(opened.source, opened.target))
    return run


def _why_over(journal: Journal, drill_id: str) -> str:
    """Return why no step of a pass of this drill may begin; empty if the drill runs."""
    if journal.last(drill_id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is not None:
        return "it is closed"
    cleanings = facts_of(journal.entries(step=Step.CLEAN_DRILL), DrillToClean)
    if any(drill_id in (entry.procedure_id, fact.drill_id) for entry, fact in cleanings):
        return "it has begun to clean up, or schedule_drills has cleaned up what it had made"
    prepared = facts_in(journal.entries(drill_id, Step.PREPARE_DRILL), DrillToPrepare)
    if not prepared:
        return "the journal has no entry of prepare_drill that names what the drill makes"
    ends_at = datetime.fromisoformat(prepared[-1].ends_at)
    if ends_at <= journal.now():
        return f"its `drill.time_to_live_seconds` were over at {ends_at.isoformat(timespec='seconds')}"
    return ""
