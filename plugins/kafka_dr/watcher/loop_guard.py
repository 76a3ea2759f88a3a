"""Guard against two flows that copy in a circle: stop the flow along which clients moved last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_dr.actions.replication.stop import stop_flow
from kafka_dr.config.settings import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.fencing.armed_fence import MOVING, LatestMove, last_moves
from kafka_dr.errors import LeaseLost
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import LoopStopped
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.watcher.authority import STEP, ArmedFenceAuthority
from kafka_dr.watcher.duties import ASK_SECONDS, STOP_SECONDS, not_stopped


class MoveAuthority(ArmedFenceAuthority):
    """The watcher's authority over a pair of flows: the pair's last client move, until clients move again.

    Args:
        move: the last client move by the journal at construction; None if the journal has none.
    """

    def __init__(
        self, journal: Journal, topology: Topology, pair: str, procedure_id: str, move: LatestMove | None
    ) -> None:
        super().__init__(journal, topology, pair, procedure_id)
        self._move = move

    def hold(self) -> None:
        """Raise LeaseLost once clients were moved again: then another flow must be stopped."""
        if last_move(self._journal, self._pair.split("+")) != self._move:
            raise LeaseLost(
                "Clients were moved meanwhile",
                "another procedure opened its target, or this one was taken back",
                "Nothing: the next look goes by that.",
            )

    def may_undo(self) -> bool:
        """Answer False: the stopped flow copied in a circle."""
        return False


def last_move(journal: Journal, clusters: Iterable[str]) -> LatestMove | None:
    """The last client move between two clusters in the journal; None without one."""
    return last_moves(moving_entries(journal)).get(frozenset(clusters))


def moved_run(journal: Journal, flow: Flow, topology: Topology, connections: Any) -> tuple[Run, LatestMove | None]:
    """A run to act as against circling flows, with the pair's last client move; without a move along `flow`."""
    move = last_move(journal, (flow.source, flow.target))
    opened = opened_by(journal, move.procedure_id) if move else None
    identity = Identity(opened.dag_id, opened.run_id) if opened else Identity(STEP, "flows")
    source, target = (move.source, move.target) if move else (flow.source, flow.target)
    request = Request(source=source, target=target, reason="no two flows may copy in a circle")
    pair = topology.pair_key(source, target)
    authority = MoveAuthority(journal, topology, pair, identity.procedure_id, move)
    return Run(identity, request, journal, connections.systems(request, topology), authority), move


def moving_entries(journal: Journal) -> list[JournalEntry]:
    """Entries of all procedures that say how clients were moved, in journal order."""
    return sorted((entry for step in MOVING for entry in journal.entries(step=step)), key=lambda entry: entry.sequence)


def circling_flows(topology: Any) -> list[Flow]:
    """One flow of each pair that would copy in a circle with its reverse; none under default naming, which protects."""
    if topology.naming.policy == "default":
        return []
    return [
        flow
        for flow in topology.flows
        if flow.source < flow.target and topology.find_flow(flow.target, flow.source) is not None
    ]


def stop_if_both_run(procedure: Run, move: LatestMove | None) -> str:
    """Check a pair of flows once, and stop the procedure's flow if both run.

    Returns:
        A line that says the result; empty if at most one flow runs.

    Raises:
        SwitchbackError: both run, and the flow could not be stopped yet; the next check tries again.
    """
    flow, reverse = procedure.flow, procedure.reverse_flow
    # The first flow is checked again after the second: a procedure may just have stopped `flow` to start `reverse`.
    if reverse is None or not all(may_copy(procedure, checked) for checked in (flow, reverse, flow)):
        return ""
    loop = (
        f"{flow.source}->{flow.target} and {reverse.source}->{reverse.target} both run: they copy records in a circle"
    )
    if move is None:
        return f"{loop}. The journal knows of no failover: stop the flow that does not come from where clients are"
    procedure.authority.hold()
    seen_at = procedure.now()
    states = stop_flow(procedure, STEP, flow, ASK_SECONDS, STOP_SECONDS)
    figures = {"stopped": states, "flow": f"{flow.source}->{flow.target}", "seen_at": seen_at}
    record_fact(procedure.authority, STEP, LoopStopped(both_flows_run=figures))
    return " ".join(
        [
            f"{loop}. Clients were moved to {flow.target} by {procedure.id}: {flow.source}->{flow.target} was stopped",
            *not_stopped(states),
        ]
    )


def may_copy(procedure: Run, flow: Flow) -> bool:
    """Whether a flow's processes or source connector may copy records now."""
    hook = procedure.systems.stop_hook(flow)
    if hook is not None:
        return hook.running(f"{flow.source}->{flow.target}", timeout=ASK_SECONDS) > 0
    worker, name = procedure.systems.connect_worker(flow), flow.connectors.source
    if name not in worker.connectors(timeout=ASK_SECONDS):
        return False
    status = worker.status(name, timeout=ASK_SECONDS)
    return not (status.stopped or status.state == "PAUSED")
