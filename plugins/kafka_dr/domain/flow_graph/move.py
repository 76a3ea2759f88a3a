"""What becomes of each flow of a topology when clients leave one cluster for another, or when a cluster is lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph


class FlowChange(StrEnum):
    """What becomes of a flow: it runs on, it stops, or it runs from now on, because the direction has changed."""

    STAYS = "stays"
    STOPS = "stops"
    TURNS = "turns"


@dataclass(frozen=True)
class GraphMove:
    """One move of clients.

    Attributes:
        source: the cluster that clients leave.
        target: the cluster where they go.
        lost: whether the source is lost, so that no flow can read it or write to it.
        stay: whether clients that belong on the source stay there, and only those return that came from the target.
    """

    source: str
    target: str
    lost: bool
    stay: bool = False


@dataclass(frozen=True)
class FlowFate:
    """A flow, what becomes of it, and why, as a sentence."""

    edge: FlowEdge
    fate: FlowChange
    why: str


def fates_of(graph: FlowGraph, move: GraphMove) -> tuple[FlowFate, ...]:
    """Return what becomes of each flow of the graph, in the graph's order."""
    return tuple(FlowFate(edge, *_fate(graph, move, edge)) for edge in graph.edges)


def _fate(graph: FlowGraph, move: GraphMove, edge: FlowEdge) -> tuple[FlowChange, str]:
    source, target = move.source, move.target
    if (edge.source, edge.target) == (source, target) and move.stay:
        return FlowChange.STAYS, f"it goes on, and copies to {target} what the clients that stay on {source} write"
    if (edge.source, edge.target) == (source, target):
        return (
            FlowChange.STOPS,
            (
                f"{target} takes the place of {source}: the run stops this flow, and it stays stopped until clients"
                f" have returned to {source}"
            ),
        )
    if (edge.source, edge.target) == (target, source):
        return _opposite_fate(graph, move)
    if not move.lost or source not in (edge.source, edge.target):
        return FlowChange.STAYS, _why_it_stays(graph, move, edge)
    if edge.source == source:
        return FlowChange.STOPS, f"it has nothing to read while {source} is lost; when {source} is back, it goes on"
    return (
        FlowChange.STOPS,
        (
            f"it cannot write while {source} is lost; when {source} is back, it goes on at its own offsets, and what"
            f" the retention of {edge.source} has deleted by then is never copied"
        ),
    )


def _opposite_fate(graph: FlowGraph, move: GraphMove) -> tuple[FlowChange, str]:
    source, target = move.source, move.target
    if move.stay:
        return FlowChange.TURNS, f"it goes on at its own offsets, once clients have returned to {target}"
    if not graph.both_run(source, target):
        return (
            FlowChange.TURNS,
            f"it copies to {source} what clients write on {target} from the boundary on, once it is started"
            + (f" and {source} is back" if move.lost else ""),
        )
    if move.lost:
        return (
            FlowChange.STOPS,
            f"it cannot write while {source} is lost; when {source} is back, it goes on at its own offsets",
        )
    return FlowChange.STAYS, f"it goes on, and also copies to {source} what the moved clients write on {target}"


def _why_it_stays(graph: FlowGraph, move: GraphMove, edge: FlowEdge) -> str:
    if edge.source == move.target:
        return "it goes on, and also copies what the moved clients write"
    if edge.source == move.source:
        turned = graph.find(move.target, move.source) is not None and graph.loops_possible
        return "it goes on; new records reach it " + (
            f"only by way of {move.target}->{move.source}" if turned else "no longer, because clients write elsewhere"
        )
    return "the move does not concern it"
