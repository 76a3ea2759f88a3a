"""Guard against two flows that copy in a circle: the flow in whose direction clients moved last is stopped."""

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
    """The watcher's right to stop one of two flows between two clusters; it lasts until clients move again.

    Args:
        move: the clusters' last client move, by the journal when this object was made; None if clients never moved.
    """

    def __init__(
        self, journal: Journal, topology: Topology, pair: str, procedure_id: str, move: LatestMove | None
    ) -> None:
        super().__init__(journal, topology, pair, procedure_id)
        self._move = move

    def hold(self) -> None:
        """Raise LeaseLost if clients were moved again, because the other flow would then have to be stopped."""
        if last_move(self._journal, self._pair.split("+")) != self._move:
            raise LeaseLost(
                "Clients were moved while both flows were checked",
                f"clusters {self._pair}: another procedure has begun open_target, or the last procedure has returned to"
                " its source",
                "Nothing to do: the watcher checks both flows again. If both run, the watcher then stops the flow in"
                " whose direction clients moved last.",
            )

    def may_undo(self) -> bool:
        """Return False, because a flow that copied in a circle must stay stopped."""
        return False


def last_move(journal: Journal, clusters: Iterable[str]) -> LatestMove | None:
    """Return the last client move between two clusters, by the journal; None if clients never moved."""
    return last_moves(moving_entries(journal)).get(frozenset(clusters))


def moved_run(journal: Journal, flow: Flow, topology: Topology, connections: Any) -> tuple[Run, LatestMove | None]:
    """Return a run under which the watcher can stop one of the two flows between the clusters of `flow`.

    Returns:
        The run and the last client move. The run's source and target are those of the move. If clients never moved, the
        run's source and target are those of `flow`, and the move is None.
    """
    move = last_move(journal, (flow.source, flow.target))
    opened = opened_by(journal, move.procedure_id) if move else None
    identity = Identity(opened.dag_id, opened.run_id) if opened else Identity(STEP, "flows")
    source, target = (move.source, move.target) if move else (flow.source, flow.target)
    request = Request(source=source, target=target, reason="no two flows may copy in a circle")
    pair = topology.pair_key(source, target)
    authority = MoveAuthority(journal, topology, pair, identity.procedure_id, move)
    return Run(identity, request, journal, connections.systems(request, topology), authority), move


def moving_entries(journal: Journal) -> list[JournalEntry]:
    """Return the journal entries of all procedures that state how clients were moved, in the journal's order."""
    return journal.entries_of_steps(MOVING)


def circling_flows(topology: Any) -> list[Flow]:
    """Return the flows whose reverse flow would copy the records back in a circle, one of each two such flows.

    Under default naming [] is returned, because topic prefixes prevent circles.
    """
    if topology.naming.policy == "default":
        return []
    return [
        flow
        for flow in topology.flows
        if flow.source < flow.target and topology.find_flow(flow.target, flow.source) is not None
    ]


def stop_if_both_run(procedure: Run, move: LatestMove | None) -> str:
    """Check both flows between two clusters; if both run, stop the flow in whose direction clients moved last.

    If clients never moved, no flow is stopped.

    Args:
        procedure: a run between the clusters, with source and target of the last client move (`moved_run`).
        move: the last client move; None if clients never moved.

    Returns:
        A text that states what runs and what was done; "" if at most one flow runs.

    Raises:
        SwitchbackError: both flows run, and the flow could not be stopped yet; the watcher tries again later.
    """
    flow, reverse = procedure.flow, procedure.reverse_flow
    # The first flow is checked again after the second: a procedure may just have stopped `flow` to start `reverse`.
    if reverse is None or not all(may_copy(procedure, checked) for checked in (flow, reverse, flow)):
        return ""
    loop = (
        f"{flow.source}->{flow.target} and {reverse.source}->{reverse.target} both run: they copy records in a circle"
    )
    if move is None:
        return f"{loop}. The journal records no failover: stop the flow whose target is the cluster where clients are"
    procedure.authority.hold()
    seen_at = procedure.now()
    states = stop_flow(procedure, STEP, flow, ASK_SECONDS, STOP_SECONDS)
    figures = {"stopped": states, "flow": f"{flow.source}->{flow.target}", "seen_at": seen_at}
    record_fact(procedure.authority, STEP, LoopStopped(both_flows_run=figures))
    return " ".join(
        [
            (
                f"{loop}. Clients were moved to {flow.target} by {procedure.id}: {flow.source}->{flow.target} was asked"
                " to stop"
            ),
            *not_stopped(states),
        ]
    )


def may_copy(procedure: Run, flow: Flow) -> bool:
    """Whether a flow may copy records now, by the states of its source connectors.

    In dedicated mode: whether the stop hook counts a running process of the flow.
    """
    hook = procedure.systems.stop_hook(flow)
    if hook is not None:
        return hook.running(f"{flow.source}->{flow.target}", timeout=ASK_SECONDS) > 0
    left = procedure.systems.flow_connectors(flow).not_stopped(timeout=ASK_SECONDS)
    return any(status.state != "PAUSED" for status in left)
