"""Checks of all flows of a topology file together: circles, merged topics, and whether opposite flows agree.

Each check yields a problem, (place in the file, text), for every fault, from the file's data as read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafka_dr.config.file.strict_yaml import Place
from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph
from kafka_dr.domain.mirror_maker.patterns import list_items


def opposite_flows_agree(data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield a problem for each flow that runs in turn with an opposite flow that always runs."""
    places, graph = _graph_of(data)
    for edge, other in graph.unequal_opposites():
        yield (
            ("flows", places[edge], "runs"),
            f"{other} is stated to run always, and {edge} only in turn with it; state the same for both flows",
        )


def no_circles(data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield a problem for each circle of flows that would copy records endlessly."""
    places, graph = _graph_of(data)
    for circle in graph.loops():
        last = graph.find(circle[-2], circle[-1])
        if last is None:
            continue
        copies = (
            "the same records into the same topics"
            if graph.naming == "identity"
            else "renamed copies of copies, because nothing proves that the custom policy recognises them"
        )
        advice = "let the two flows run in turn (`runs: in_turn`)" if len(circle) == 3 else "remove one of these flows"
        yield (
            ("flows", places[last]),
            f"{'->'.join(circle)} is a circle: its flows copy {copies}, endlessly; {advice}, or use default naming",
        )


def no_merged_topics(data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield a problem for each pair of flows that write records of two clusters into the same topics of a third."""
    places, graph = _graph_of(data)
    for one, other in graph.merges():
        yield (
            ("flows", places[other]),
            (
                f"{one} and {other} write records of two clusters into the same topics of {other.target} under"
                " identity naming: two clusters would take writes for one application's topics, and no position could"
                " be translated; use default naming, or state different `topics` under `mirror_maker` of both flows. Of"
                " two opposite flows that run in turn, list the one first that usually runs"
            ),
        )


def _graph_of(data: Mapping[str, Any]) -> tuple[dict[FlowEdge, int], FlowGraph]:
    """Return each flow's index in the file, and the graph; without flows that other checks report."""
    places: dict[FlowEdge, int] = {}
    flows = data.get("flows")
    for index, flow in enumerate(flows if isinstance(flows, list) else ()):
        if (edge := _edge(flow)) is not None and all(
            (edge.source, edge.target) != (e.source, e.target) for e in places
        ):
            places[edge] = index
    naming = data.get("naming")
    return places, FlowGraph(str(naming.get("policy")) if isinstance(naming, Mapping) else "", tuple(places))


def _edge(flow: Any) -> FlowEdge | None:
    if not isinstance(flow, Mapping):
        return None
    source, target, settings = flow.get("source"), flow.get("target"), flow.get("mirror_maker")
    if not (isinstance(source, str) and isinstance(target, str)) or source == target:
        return None
    topics = settings.get("topics") if isinstance(settings, Mapping) else None
    return FlowEdge(source, target, flow.get("runs") == "always", list_items(topics) if isinstance(topics, str) else ())
