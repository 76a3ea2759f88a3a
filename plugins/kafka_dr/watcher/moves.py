"""The last move of clients between two clusters, and the watcher's right to act for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.settings import Request
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.fencing.armed_fence import MOVING, LatestMove, last_moves
from kafka_dr.errors import LeaseLost
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.binding import bound_to
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.watcher.authority import STEP, ArmedFenceAuthority

#: How long the watcher waits, in seconds, until what it did is read back: an alert must not wait for it.
SETTLE_SECONDS = 4.0
#: How long, in seconds, a connector that was asked to stop may still run: its source may not answer.
STOPPING_SECONDS = 120.0


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
    """Return a run under which the watcher can act on the flows between the clusters of `flow`.

    Returns:
        The run and the last client move. The run's source and target are those of the move. If clients never moved, the
        run's source and target are those of `flow`, and the move is None.
    """
    move = last_move(journal, (flow.source, flow.target))
    opened = opened_by(journal, move.procedure_id) if move else None
    identity = Identity(opened.dag_id, opened.run_id) if opened else Identity(STEP, "flows")
    source, target = (move.source, move.target) if move else (flow.source, flow.target)
    request = Request(
        source=source,
        target=target,
        reason="clients were moved",
        deadlines=Deadlines(fence_seconds=SETTLE_SECONDS, stop_seconds=STOPPING_SECONDS),
    )
    pair = topology.pair_key(source, target)
    authority = MoveAuthority(journal, topology, pair, identity.procedure_id, move)
    return Run(identity, request, journal, bound_to(opened, connections).systems(request, topology), authority), move


def moving_entries(journal: Journal) -> list[JournalEntry]:
    """Return the journal entries of all procedures that state how clients were moved, in the journal's order."""
    return journal.entries_of_steps(MOVING)


def guarded_flows(topology: Topology) -> list[Flow]:
    """Return one flow between each two clusters that have a flow between them."""
    by_pair: dict[frozenset[str], Flow] = {}
    for flow in topology.flows:
        by_pair.setdefault(frozenset((flow.source, flow.target)), flow)
    return list(by_pair.values())
