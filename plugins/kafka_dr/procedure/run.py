"""One run of a procedure: its identity, its request, and the objects through which its steps act."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.hooks.archive import local_folder
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.private_files import refuse_open
from kafka_dr.procedure.anchors import JournalAnchors
from kafka_dr.procedure.approvals import Approvals, DrillApprovals
from kafka_dr.procedure.artifacts import Artifacts
from kafka_dr.procedure.authority import Authority, LeaseAuthority, WithoutUndo
from kafka_dr.procedure.binding import bound_to
from kafka_dr.procedure.common_plan import PartApprovals
from kafka_dr.procedure.entries import ProcedureOpened, newest_fact
from kafka_dr.procedure.progress import Progress
from kafka_dr.procedure.signatures import JournalSignatures
from kafka_dr.procedure.stored_files import StoredFiles
from kafka_dr.procedure.systems import Systems
from kafka_dr.procedures import FAILBACK, FAILOVER_DRILL, PROCEDURES, lease_name
from kafka_dr.vocabulary import Entry, Step


@dataclass(frozen=True)
class Identity:
    """A run's DAG id and run id."""

    dag_id: str
    run_id: str

    @property
    def procedure_id(self) -> str:
        """Id of the run in journal and evidence: `DAG_ID-RUN_ID`, with `_` for characters unsafe in a folder name."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.dag_id}-{self.run_id}")


def opened_by(journal: Journal, procedure_id: str) -> ProcedureOpened | None:
    """Return what open_procedure wrote when a procedure took its lease; None if the procedure never took a lease."""
    return newest_fact(journal.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OPENED), ProcedureOpened)


class Run:
    """One run of a procedure, with all that its steps use.

    Attributes:
        id: the procedure's id, in journal and evidence.
        journal: holds entries and leases.
        systems: clients of all outside systems.
        progress: how far the run is, by the journal.
        artifacts: the run's files beside the evidence.
        approvals: answers to the run's gates.
        yields_to: of a drill and its passes, production's journal and the pair of clusters: they stop as soon as a
            procedure holds it.
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
        self.yields_to: tuple[Journal, str] | None = None
        # In a full drill people move the real clients: then the procedure that holds the pair is the drill's subject.
        if identity.dag_id == FAILOVER_DRILL.dag_id and request.choices.get("kind") != "full":
            self.yields_to = journal, self.topology.pair_key(request.source, request.target)
        folder = Path(self.topology.evidence)
        self.artifacts = Artifacts(folder / self.id, StoredFiles(folder, systems.store), self._goes_on_without_store)
        self.progress = Progress(journal, self.id, request, self.artifacts)
        self.approvals = self._approvals(request.deadlines.approval_valid_seconds)

    @classmethod
    def connected(cls, identity: Identity, request: Request, topology: Topology, connections: Any) -> Run:
        """Return a run that reaches journal and outside systems by the connections that the topology names.

        A run that was opened keeps the params of its opening: a DAG run that was deleted and made again under its id
        may have others, which nobody approved.
        """
        journal = Journal(connections.journal_url(topology.journal.connection))
        opened = opened_by(journal, identity.procedure_id)
        if opened is not None:
            request = Request(**opened.request)
        return cls(identity, request, journal, bound_to(opened, connections).systems(request, topology))

    @classmethod
    def reopened(cls, opened: ProcedureOpened, journal: Journal, topology: Topology, connections: Any) -> Run:
        """Return a run, params included, from what open_procedure wrote in the journal about the run."""
        request, identity = Request(**opened.request), Identity(opened.dag_id, opened.run_id)
        return cls(identity, request, journal, connections.systems(request, topology))

    def _approvals(self, valid_seconds: float) -> Approvals:
        common = self.request.choices.get("common_plan")
        if common is not None and self.systems.scope is None:
            return PartApprovals(self, common, valid_seconds)
        kind = Approvals if self.systems.scope is None else DrillApprovals
        return kind(self.identity.dag_id, self.identity.run_id, self.systems, self.progress, valid_seconds)

    def _goes_on_without_store(self) -> bool:
        """Whether clients are fenced, or the source is lost: then they do not wait for a store that is away."""
        definition = PROCEDURES.get(self.identity.dag_id)
        lost = definition is not None and not definition.needs_source
        return lost or self.progress.fence_deadline() is not None

    @cached_property
    def lease(self) -> LeaseAuthority:
        """The right to act by the lease of the pair of clusters, under this process's epoch."""
        return LeaseAuthority(self.journal, self.pair, self.id)

    @property
    def authority(self) -> Authority:
        """The right of this process to act: the lease, unless the constructor was given another authority."""
        return self._authority or self.lease

    @cached_property
    def anchors(self) -> JournalAnchors:
        """The journal's anchors outside its database."""
        return JournalAnchors(self)

    @cached_property
    def signatures(self) -> JournalSignatures:
        """Signs with the journal's key, if the topology names one."""
        return JournalSignatures(self.topology.journal.public_keys)

    @property
    def pair(self) -> str:
        """Name of the lease on the pair of clusters, the same in both directions."""
        return lease_name(self.identity.dag_id, self.topology.pair_key(self.request.source, self.request.target))

    @property
    def in_drill(self) -> bool:
        """Whether the run is a pass of a drill, which changes only what the drill made."""
        return self.systems.scope is not None

    def refuse_if_preempted(self) -> None:
        """Raise Refusal if this run is a drill's, and a procedure holds the pair of clusters."""
        if self.yields_to is not None:
            self._refuse_held(*self.yields_to)

    def refuse_if_held(self) -> None:
        """Raise Refusal if a procedure holds the pair of clusters; for a drill of any kind that has not begun."""
        self._refuse_held(self.journal, self.topology.pair_key(self.request.source, self.request.target))

    def _refuse_held(self, journal: Journal, pair: str) -> None:
        lease = journal.lease(pair)
        if lease is not None and lease.released_at is None:
            raise Refusal(
                "A procedure takes precedence over this drill",
                f"{lease.holder} holds the pair of clusters {pair}",
                "The drill ends, and what it has made is removed after that procedure has ended. Start a new one then.",
            )

    @cached_property
    def flow(self) -> Flow:
        """The flow that replicates from source to target."""
        return self.topology.flow(self.request.source, self.request.target)

    @cached_property
    def reverse_flow(self) -> Flow | None:
        """The flow from target to source; None if the topology has no such flow."""
        return self.topology.find_flow(self.request.target, self.request.source)

    @property
    def takes_writes_on_both(self) -> bool:
        """Whether both flows of the pair always run: then clients write their own topics on both clusters."""
        return self.topology.graph.both_run(self.request.source, self.request.target)

    @property
    def source_stays_open(self) -> bool:
        """Whether, in a failback, clients stay on the source and write there that did not come from the target.

        So it is where both flows always run and, unless naming is identity, where flows of other clusters come to the
        source (aggregation). Only the groups that the last failover moved go back then, and no write is fenced on the
        source, because clients that stay write to topics of the same names.
        """
        if self.identity.dag_id != FAILBACK.dag_id:
            return False
        graph, request = self.topology.graph, self.request
        aggregates = any(edge.source != request.target for edge in graph.usual(graph.into(request.source)))
        return self.takes_writes_on_both or (aggregates and self.topology.naming.policy != "identity")

    @property
    def flow_runs_on(self) -> bool:
        """Whether the flow source->target runs on in this run: in a failback where both flows always run."""
        return self.source_stays_open and self.takes_writes_on_both

    @property
    def naming(self) -> Naming:
        """The rules by which MirrorMaker 2 names topics on the target."""
        return self.topology.names

    def exempt(self, alias: str) -> frozenset[str]:
        """Return the principals that no fence of the cluster denies, by the lists in the topology.

        The lists are `mirror_maker`, `orchestrator` and `exempt` of the cluster.
        """
        principals = self.topology.cluster(alias).principals
        return frozenset([*principals.mirror_maker, *principals.orchestrator, *principals.exempt])

    def mirror_maker(self, flow: Flow) -> FlowConnectors:
        """Return the client of a flow's connectors, in the Connect workers that run them.

        Without a Connect worker, as in dedicated mode: by the flow's hook, its offsets topic and the topology.

        Raises:
            BadInput: the flow has no Connect worker, and the source was declared lost.
        """
        systems = self.systems
        return systems.connectors_in_connect(flow) if self.progress.without_source else systems.flow_connectors(flow)

    @cached_property
    def reversed(self) -> Run:
        """This run with source and target swapped, so that functions for the source can act on the target.

        Both objects share clients, lease and journal entries.
        """
        systems = self.systems.reversed()
        swapped = Run(self.identity, systems.request, self.journal, systems, WithoutUndo(self.authority))
        swapped.lease, swapped.reversed = self.lease, self
        return swapped

    def other(self, procedure_id: str) -> Run | None:
        """Return another procedure, with its params from the journal; None if that procedure never took a lease."""
        opened = opened_by(self.journal, procedure_id)
        if opened is None:
            return None
        return Run.reopened(opened, self.journal, self.topology, self.systems.connections)

    def require_other(self, procedure_id: str) -> Run:
        """Return another procedure that a journal entry names, with its params.

        Raises:
            Contradiction: the journal does not say with which params that procedure was started.
        """
        other = self.other(procedure_id)
        if other is None:
            raise Contradiction(
                f"The journal does not record the params with which {procedure_id} was started",
                f"the journal has no entry `opened` of {procedure_id}; open_procedure writes that entry",
                "Compare the journal's database with a backup and restore missing entries, then start a new run.",
            )
        return other

    def refuse_open_files(self) -> None:
        """Refuse if other users may read or change the evidence, a journal on SQLite or an archive in a folder.

        Raises:
            NotReady: names each such folder and file.
        """
        recorder = self.topology.recorder
        archive = local_folder(recorder.archive) if recorder else None
        refuse_open([Path(self.topology.evidence), *([archive] if archive else []), *self.journal.files])

    def now(self) -> str:
        """Return the journal's time, ISO 8601 UTC."""
        return self.journal.now().isoformat()

    def close(self) -> None:
        """Wait a moment for the journal's anchors; drop the clients of outside systems, which the next use creates."""
        if "anchors" in vars(self):
            self.anchors.await_written()
        self.systems.close()
