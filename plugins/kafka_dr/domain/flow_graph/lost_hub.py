"""The flows of a lost cluster whose clients go to several clusters: what becomes of them, and what must not.

Each *pair* is the lost cluster and one cluster where clients go. Circles of flows are not looked for here: a topology
with a circle is refused when it is loaded, and no move adds a flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from kafka_dr.domain.flow_graph.graph import FlowGraph
from kafka_dr.domain.flow_graph.move import FlowFate, GraphMove, fates_of
from kafka_dr.domain.flow_graph.readers import read_after, unreadable_after
from kafka_dr.domain.flow_graph.section import ANY_TOPIC
from kafka_dr.domain.mirror_maker.naming import Naming


def fates_after_loss(graph: FlowGraph, lost: str, targets: Sequence[str]) -> tuple[FlowFate, ...]:
    """Return what becomes of each flow of the graph when the clients of a lost cluster go to several clusters.

    Args:
        targets: the clusters where clients go, at least one.
    """
    by_target = [fates_of(graph, GraphMove(lost, target, lost=True)) for target in targets]
    return tuple(
        next((fate for target, fate in zip(targets, fates, strict=True) if target in _ends(fate)), fates[0])
        for fates in zip(*by_target, strict=True)
    )


def _ends(fate: FlowFate) -> tuple[str, str]:
    return fate.edge.source, fate.edge.target


def lost_cluster_section(graph: FlowGraph, naming: Naming, lost: str, targets: Sequence[str]) -> dict[str, Any]:
    """Return what the loss does to all flows, and what readers find afterwards, with the keys of `flows_section`.

    `unreadable` has the names on the lost cluster that no target has a copy of.

    Args:
        graph: of two flows that run in turn, the one that ran before the loss is listed first.
    """
    moves = {target: GraphMove(lost, target, lost=True) for target in targets}
    rows = {target: read_after(graph, naming, move, ANY_TOPIC) for target, move in moves.items()}
    unreadable = [unreadable_after(graph, naming, move, ANY_TOPIC) for move in moves.values()]
    others = [row for row in rows[targets[0]] if row.cluster not in targets]
    return {
        "patterns": [list(pattern) for pattern in graph.patterns()],
        "flows": [
            {"flow": str(one.edge), "fate": one.fate.value, "why": one.why}
            for one in fates_after_loss(graph, lost, targets)
        ],
        "readers": [asdict(row) for target in targets for row in rows[target] if row.cluster == target]
        + [asdict(row) for row in others],
        "unreadable": [name for name in unreadable[0] if all(name in names for names in unreadable)],
    }


def two_writers(graph: FlowGraph, lost: str, targets: Sequence[str]) -> Iterator[str]:
    """Yield, as a sentence each, which two clusters would take clients' writes for the same topics after the loss.

    Under default naming none: each cluster has topics of its own, and the prefix tells them from copies.
    """
    for one, other in combinations(targets, 2):
        flows = graph.find(lost, one), graph.find(lost, other)
        topics = [set(flow.topics) for flow in flows if flow is not None and flow.topics]
        if graph.loops_possible and (len(topics) < 2 or topics[0] & topics[1]):
            yield (
                f"{one} and {other} would both take writes for topics that {lost}->{one} and {lost}->{other} mirror"
                f" under {graph.naming} naming, and both would copy them to {lost} when it is back"
            )
