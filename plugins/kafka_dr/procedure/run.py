"""One run of a procedure: who it is and what was asked for, and what it acts through."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.errors import Contradiction
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.site.stop import StopHook
from kafka_dr.procedure.approvals import Approvals
from kafka_dr.procedure.artifacts import Artifacts
from kafka_dr.procedure.authority import Authority, LeaseAuthority, WithoutUndo
from kafka_dr.procedure.entries import ProcedureOpened, newest_fact
from kafka_dr.procedure.progress import Progress
from kafka_dr.procedure.systems import Systems
from kafka_dr.vocabulary import Entry, Step


@dataclass(frozen=True)
class Identity:
    """Which run this is."""

    dag_id: str
    run_id: str

    @property
    def procedure_id(self) -> str:
        """Name of the run, fit for a folder."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.dag_id}-{self.run_id}")


def opened_by(journal: Journal, procedure_id: str) -> ProcedureOpened | None:
    """What a procedure was opened with; None if it never was."""
    return newest_fact(journal.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OPENED), ProcedureOpened)


class Run:
    """A run's identity and request.

    Attributes:
        id: the procedure's id, in journal and evidence.
        journal: holds its entries and leases.
        systems: clients of everything outside.
        progress: how far the run is, by the journal.
        artifacts: files beside the evidence.
        approvals: answers to the gates.
    """

    def __init__(
        self,
        identity: Identity,
        request: Request,
        journal: Journal,
        systems: Systems,
        authority: Authority | None = None,
    ) -> None:
        self.identity, self.request, self.journal, self.systems = identity, request, journal, systems
        self.id = identity.procedure_id
        self.topology: Topology = systems.topology
        self._authority = authority
        self.progress = Progress(journal, self.id, request)
        self.artifacts = Artifacts(Path(self.topology.evidence) / self.id)
        valid = request.deadlines.approval_valid_seconds
        self.approvals = Approvals(identity.dag_id, identity.run_id, systems, self.progress, valid)

    @classmethod
    def connected(cls, identity: Identity, request: Request, topology: Topology, connections: Any) -> Run:
        """A run whose journal and systems are reached by the topology's connections."""
        journal = Journal(connections.journal_url(topology.journal.connection))
        return cls(identity, request, journal, connections.systems(request, topology))

    @classmethod
    def reopened(cls, opened: ProcedureOpened, journal: Journal, topology: Topology, connections: Any) -> Run:
        """A run of the journal, with the params that it was opened with."""
        request, identity = Request(**opened.request), Identity(opened.dag_id, opened.run_id)
        return cls(identity, request, journal, connections.systems(request, topology))

    @cached_property
    def lease(self) -> LeaseAuthority:
        """The lease of the pair, under this process's epoch."""
        return LeaseAuthority(self.journal, self.pair, self.id)

    @property
    def authority(self) -> Authority:
        """What lets this process act: the lease, unless something else was given."""
        return self._authority or self.lease

    @property
    def pair(self) -> str:
        """Order-free name of the pair of clusters: what the lease is for."""
        return self.topology.pair_key(self.request.source, self.request.target)

    @cached_property
    def flow(self) -> Flow:
        """The flow that replicates from source to target."""
        return self.topology.flow(self.request.source, self.request.target)

    @cached_property
    def reverse_flow(self) -> Flow | None:
        """The flow the other way, if the topology has one."""
        return self.topology.find_flow(self.request.target, self.request.source)

    @property
    def naming(self) -> Naming:
        """How MirrorMaker 2 names topics on the target."""
        return self.topology.names

    def exempt(self, alias: str) -> frozenset[str]:
        """Principals of a cluster that no fence touches."""
        principals = self.topology.cluster(alias).principals
        return frozenset([*principals.mirror_maker, *principals.orchestrator, *principals.exempt])

    def mirror_maker(self, flow: Flow) -> MirrorMaker | DedicatedMirrorMaker:
        """The Connect worker that hosts a flow.

        In dedicated mode what can be known without one, for the flow that a planned procedure stops; any other is
        refused: it could not be seeded or resumed, and without the source nobody asks for what was only stated.
        """
        hook: StopHook | None = self.systems.stop_hook(flow)
        if hook is not None and flow == self.flow and not self.progress.without_source:
            return self.systems.dedicated(flow, hook)
        return self.systems.connect_worker(flow)

    @cached_property
    def reversed(self) -> Run:
        """This very run as seen from the other cluster: what is written for the source can be done to the target.

        It has the clients, the lease and the entries of this one.
        """
        systems = self.systems.reversed()
        turned = Run(self.identity, systems.request, self.journal, systems, WithoutUndo(self.authority))
        turned.lease, turned.reversed = self.lease, self
        return turned

    def other(self, procedure_id: str) -> Run | None:
        """Load another procedure of the journal with its params; None if the journal does not know the name."""
        opened = opened_by(self.journal, procedure_id)
        if opened is None:
            return None
        return Run.reopened(opened, self.journal, self.topology, self.systems.connections)

    def require_other(self, procedure_id: str) -> Run:
        """As `other`, of a procedure that entries of the journal name; a contradiction if it was never opened."""
        found = self.other(procedure_id)
        if found is None:
            raise Contradiction(
                f"The journal names {procedure_id}, and does not say what it was started with",
                "no entry of its opening",
                "Look at the journal's database; start a new run.",
            )
        return found

    def now(self) -> str:
        """The time as ISO 8601 UTC."""
        return datetime.now(UTC).isoformat()

    def close(self) -> None:
        """Let go of the clients that were used."""
        self.systems.close()
