"""Reads what the first page shows of every flow: journal, readiness documents and topology; never a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kafka_dr.actions.readiness.document import document_path
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.evidence.live_status import ProcedureStatus
from kafka_dr.domain.fencing.armed_fence import ARMED, LatestMove, last_moves
from kafka_dr.domain.fencing.guarded_move import contested_text
from kafka_dr.domain.notices.notice import Notice
from kafka_dr.domain.notices.service_notices import find_silences
from kafka_dr.domain.overview.clients import (
    ClientPlace,
    hidden_place,
    place_after,
    place_while_held,
    unmoved_place,
    unread_place,
)
from kafka_dr.domain.overview.readiness_view import ReadinessView, view_of, view_without
from kafka_dr.domain.overview.setting_up import READINESS_DAG, Installation, SetUpTask, tasks_of
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry, Lease
from kafka_dr.procedure.entries import SourceFenced, entries_about, newest_fact
from kafka_dr.procedure.run import opened_by
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher.notices import monitored_services
from kafka_dr.web.sources import document_now, journal_of, topology_now
from kafka_dr.web.status_reader import StatusReader

_NEVER = datetime.min.replace(tzinfo=UTC)
_NO_RIGHT = (
    "You may not read the runs of the DAG readiness_check: ask an administrator of Airflow for the right to read them."
)
_NO_JOURNAL = "Repair the journal: without it no procedure can begin, and it is not known where clients are."
_UNREADABLE = (
    "The readiness document cannot be read: the user of Airflow's API server must be able to read the evidence folder;"
    " a document of another version is replaced by the next run of readiness_check."
)


@dataclass(frozen=True)
class LastProcedure:
    """The procedure that held a pair of clusters last, and has ended."""

    id: str
    dag_id: str
    run_id: str
    outcome: str
    ended: datetime


@dataclass(frozen=True)
class FlowOnPage:
    """One flow on the first page.

    Attributes:
        last: the procedure that held the pair last; None if none did, or the reader may not read it.
    """

    source: str
    target: str
    place: ClientPlace
    readiness: ReadinessView
    last: LastProcedure | None = None


@dataclass(frozen=True)
class _Pair:
    """What the journal says of one pair of clusters."""

    lease: Lease | None
    holder: ProcedureStatus | None
    move: LatestMove | None = None
    hidden: bool = False
    lines: Sequence[JournalEntry] = ()
    contested: str = ""


@dataclass(frozen=True)
class Overview:
    """What the first page shows.

    Attributes:
        flows: () if the person may not read anything.
        running: procedures that need somebody's eyes.
        to_set_up: what is still to be set up.
        statuses: reads whole procedures; None if the journal cannot be read.
        problem: why the journal cannot be read, and what to do; "" if it can.
    """

    flows: Sequence[FlowOnPage] = ()
    running: Sequence[ProcedureStatus] = ()
    to_set_up: Sequence[SetUpTask] = ()
    statuses: StatusReader | None = None
    problem: str = ""


def read_overview(may_read: Callable[[str], bool], paused: Mapping[str, bool | None], clock: datetime) -> Overview:
    """Return what a person may see of all flows; without a journal the flows and their readiness alone.

    Args:
        may_read: returns whether the person may read the runs of a DAG.
        paused: DAG -> whether Airflow has paused it; None if Airflow does not know it.
        clock: this machine's time, by which ages are counted while the journal cannot be read.

    Raises:
        BadInput: the topology cannot be read.
    """
    topology, problem = topology_now(), ""
    try:
        journal = journal_of(topology)
        return _overview(topology, journal, may_read, paused, journal.now())
    except SwitchbackError as error:
        problem = str(error)
    return replace(_overview(topology, None, may_read, paused, clock), problem=problem)


def _overview(
    topology: Topology,
    journal: Journal | None,
    may_read: Callable[[str], bool],
    paused: Mapping[str, bool | None],
    now: datetime,
) -> Overview:
    statuses = None if journal is None else StatusReader(topology, journal, may_read)
    reader = OverviewReader(topology, journal, statuses, may_read)
    if not reader.shows_anything():
        return Overview()
    return Overview(reader.flows(now), reader.running(now), reader.to_set_up(paused, now), statuses)


class OverviewReader:
    """Reads the state of all flows.

    Args:
        statuses: reads whole procedures.
        may_read: returns whether the person may read the runs of a DAG.
    """

    def __init__(
        self,
        topology: Topology,
        journal: Journal | None,
        statuses: StatusReader | None,
        may_read: Callable[[str], bool],
    ) -> None:
        self._topology, self._journal, self._statuses, self._may_read = topology, journal, statuses, may_read
        self._pairs: dict[str, _Pair] = {}

    def shows_anything(self) -> bool:
        """Whether the person may read the runs of any of Switchback's DAGs."""
        return any(self._may_read(dag) for dag in (READINESS_DAG, *PROCEDURES))

    def flows(self, now: datetime) -> list[FlowOnPage]:
        """Return every flow of the topology, in its order."""
        return [self._flow(flow, now) for flow in self._topology.flows]

    def running(self, now: datetime) -> list[ProcedureStatus]:
        """Return the procedures that hold a pair of clusters, and ended ones whose move is contested."""
        pairs = [self._pair(flow, now) for flow in self._topology.flows]
        found = {pair.holder.id: pair.holder for pair in pairs if pair.holder}
        return list(found.values())

    def to_set_up(self, paused: Mapping[str, bool | None], now: datetime) -> list[SetUpTask]:
        """Return what is to be set up next.

        Args:
            paused: DAG -> whether Airflow has paused it; None if Airflow does not know it.
        """
        topology = self._topology
        drills = tuple(topology.drill.connect) if topology.drill else ()
        unchecked = [f"{f.source}->{f.target}" for f in topology.flows if not _has_document(topology, f)]
        seen = {dag: state for dag, state in paused.items() if self._may_read(dag)}
        return tasks_of(
            Installation(
                seen,
                unchecked if self._may_read(READINESS_DAG) else (),
                self._silences(now),
                recorder=topology.recorder is not None,
                notified=bool(topology.notifications),
                approvers=bool(topology.approvers.users or topology.approvers.roles),
                drills=drills,
                clusters=len(topology.clusters),
                undecided=[f"{f.source}->{f.target}" for f in topology.flows if f.offset_option is None],
            )
        )

    def _silences(self, now: datetime) -> list[Notice]:
        if self._journal is None:
            return []
        return find_silences(monitored_services(self._journal, self._topology), _NEVER, now)

    def _flow(self, flow: Flow, now: datetime) -> FlowOnPage:
        pair = self._pair(flow, now) if self._journal else None
        place = unread_place(flow.source, flow.target) if pair is None else self._place(flow, pair, now)
        last = None if pair is None else self._last(pair)
        return FlowOnPage(flow.source, flow.target, place, self._readiness(flow, now, place.changed), last)

    def _place(self, flow: Flow, pair: _Pair, now: datetime) -> ClientPlace:
        if pair.hidden and pair.lease is not None:
            return hidden_place(flow.source, flow.target, pair.lease.released_at or pair.lease.taken_at)
        held = place_while_held(pair.holder) if pair.holder else None
        if held is not None:
            return held
        if pair.move is not None:
            return place_after(pair.move, pair.lines, pair.contested)
        return unmoved_place(flow.source, flow.target, self._flow_in_use(flow, now))

    def _flow_in_use(self, flow: Flow, now: datetime) -> str | None:
        """Return the source of the flow that is in use between the clusters of `flow`; None if nothing says so.

        A flow is in use if the opposite flow rests, by a document that is not stale, or is not in the topology.
        """
        opposite = self._topology.find_flow(flow.target, flow.source)
        if opposite is None:
            return flow.source
        resting = [one.source for one in (flow, opposite) if self._readiness(one, now).look == "rest"]
        return {flow.source: flow.target, flow.target: flow.source}[resting[0]] if len(resting) == 1 else None

    def _readiness(self, flow: Flow, now: datetime, changed: datetime | None = None) -> ReadinessView:
        if not self._may_read(READINESS_DAG):
            return view_without(_NO_RIGHT)
        document = document_now(
            document_path(self._topology.evidence, flow.source, flow.target), Connections().files(self._topology)
        )
        if document is None and not _has_document(self._topology, flow):
            return view_without("No check of this flow has ended yet.")
        try:
            void = _NO_JOURNAL if self._journal is None else ""
            return view_without(_UNREADABLE) if document is None else view_of(document, now, changed, void)
        except (LookupError, TypeError, ValueError, AttributeError):
            return view_without(_UNREADABLE)

    # -- the journal -----------------------------------------------------------------------------------------------

    def _pair(self, flow: Flow, now: datetime) -> _Pair:
        if self._journal is None or self._statuses is None:
            return _Pair(None, None)
        key = self._topology.pair_key(flow.source, flow.target)
        if key not in self._pairs:
            self._pairs[key] = self._read_pair(key, self._journal, self._statuses, now)
        return self._pairs[key]

    def _read_pair(self, key: str, journal: Journal, statuses: StatusReader, now: datetime) -> _Pair:
        lease = journal.lease(key)
        if lease is None:
            return _Pair(None, None)
        holding = lease.released_at is None
        holder = statuses.procedure(lease.holder, now) if holding else None
        if holding and holder is None:
            return _Pair(lease, None, hidden=True)
        move, lines = self._last_move(journal, key)
        if move is None:
            return _Pair(lease, holder)
        opened = opened_by(journal, move.procedure_id)
        if opened is None or not self._may_read(opened.dag_id):
            return _Pair(lease, holder, hidden=True)
        contested = _contested(journal, move) if move.procedure_id == lease.holder else ""
        if contested and holder is None:
            holder = statuses.procedure(lease.holder, now)
        return _Pair(lease, holder, move, lines=lines, contested=contested)

    def _last_move(self, journal: Journal, key: str) -> tuple[LatestMove | None, list[JournalEntry]]:
        """Return the last move of a pair's clients that was begun and not undone, and the entries that describe it."""
        for procedure_id in journal.holders(key):
            begun = list(_moving_entries(journal, procedure_id))
            for move in last_moves(begun).values():
                return move, [*begun, *_fence_entries(journal, procedure_id)]
        return None, []

    def _last(self, pair: _Pair) -> LastProcedure | None:
        lease = pair.lease
        if self._journal is None or lease is None or lease.released_at is None:
            return None
        opened = opened_by(self._journal, lease.holder)
        if opened is None or not self._may_read(opened.dag_id):
            return None
        return LastProcedure(lease.holder, opened.dag_id, opened.run_id, lease.outcome or "unknown", lease.released_at)


def _contested(journal: Journal, move: LatestMove) -> str:
    """Return that a move is contested, in sentences; "" if it is not."""
    # After the end of a procedure the watcher writes under its own name.
    later = entries_about(journal.entries(Step.WATCH_OLD_SOURCE, kind=Entry.NOTE), move.procedure_id)
    own = journal.entries(move.procedure_id, Step.WATCH_OLD_SOURCE, Entry.NOTE)
    return contested_text([*own, *later], move.target) or ""


def _moving_entries(journal: Journal, procedure_id: str) -> Iterator[JournalEntry]:
    """Yield the entries that say whether a procedure moved clients; of open_target one alone, as they may be large."""
    newest = journal.last(procedure_id, Step.OPEN_TARGET, Entry.OUTCOME)
    newest = newest or journal.last(procedure_id, Step.OPEN_TARGET, Entry.INTENT)
    if newest is not None:
        yield from journal.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OPENED)
        yield newest
        yield from journal.entries(procedure_id, Step.RETURN_TO_SOURCE, Entry.INTENT)


def _fence_entries(journal: Journal, procedure_id: str) -> Iterator[JournalEntry]:
    """Yield the outcomes that say whether the cluster that clients left is fenced, and when clients were sent away."""
    for step in (Step.FENCE_PRODUCERS, Step.FENCE_SOURCE, Step.REDIRECT_CLIENTS):
        if (entry := journal.last(procedure_id, step, Entry.OUTCOME)) is not None:
            yield entry
            fence = newest_fact([entry], SourceFenced)
            if fence is not None and fence.fenced == ARMED:
                yield from journal.entries(procedure_id, Step.WATCH_OLD_SOURCE)
                yield from journal.entries(Step.WATCH_OLD_SOURCE)


def _has_document(topology: Topology, flow: Flow) -> bool:
    """Whether a flow has a readiness document, readable or not."""
    try:
        return document_path(topology.evidence, flow.source, flow.target).exists()
    except OSError:
        return True
