"""Names under which a cluster has the records of all clusters, and what a move of clients changes for readers.

A *global view* is all records of a topic, wherever clients wrote them: under default naming the cluster's own `orders`,
and `west.orders` with the records that were written on cluster `west`. Each flow is taken to mirror the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_dr.domain.flow_graph.graph import FlowGraph
from kafka_dr.domain.flow_graph.move import GraphMove
from kafka_dr.domain.mirror_maker.naming import Naming


@dataclass(frozen=True)
class TopicName:
    """A name under which a cluster has records of one topic.

    Attributes:
        name: the topic's name on the cluster.
        way: the clusters that the records passed: first where clients wrote them, last the cluster that has the name.
    """

    name: str
    way: tuple[str, ...]

    @property
    def written_on(self) -> str:
        """The cluster where clients wrote the records."""
        return self.way[0]


def names_on(graph: FlowGraph, naming: Naming, cluster: str, topic: str) -> tuple[TopicName, ...]:
    """Return the names under which a cluster has the records of a topic: its own topic first, then by hops.

    Under a naming without prefixes this is one name.
    """
    ways = sorted(_ways_to(graph, (cluster,)), key=lambda way: (len(way), way))
    names: dict[str, TopicName] = {}
    for way in ways:
        name = topic
        for hop in way[:-1]:
            name = naming.remote(hop, name)
        names.setdefault(name, TopicName(name, way))
    return tuple(names.values())


def _ways_to(graph: FlowGraph, way: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the ways, each without a circle, that end with the clusters of `way`; first `way` itself."""
    yield way
    for edge in graph.usual(graph.into(way[0])):
        if edge.source not in way:
            yield from _ways_to(graph, (edge.source, *way))


@dataclass(frozen=True)
class ReadAfterMove:
    """What a reader on one cluster finds under one name after a move of clients.

    Attributes:
        before: the name on the source with the same records, for clients that move; None: they did not read it there.
        change: what is different from now on, as a sentence; empty if nothing is.
    """

    cluster: str
    name: str
    before: str | None
    change: str


def read_after(graph: FlowGraph, naming: Naming, move: GraphMove, topic: str) -> tuple[ReadAfterMove, ...]:
    """Return what readers of a topic's global view find on each cluster but the source; the target's names first."""
    others = sorted({end for edge in graph.edges for end in (edge.source, edge.target)} - {move.source, move.target})
    before = {_same_records(move, one.way): one.name for one in names_on(graph, naming, move.source, topic)}
    rows = [
        ReadAfterMove(cluster, one.name, before.get(one.way) if cluster == move.target else None, _change(move, one))
        for cluster in (move.target, *others)
        for one in names_on(graph, naming, cluster, topic)
    ]
    return tuple(rows)


def unreadable_after(graph: FlowGraph, naming: Naming, move: GraphMove, topic: str) -> tuple[str, ...]:
    """Return the names on the source whose records the target has under no name, so that moved readers lose them."""
    there = {one.way for one in names_on(graph, naming, move.target, topic)}
    return tuple(
        one.name for one in names_on(graph, naming, move.source, topic) if _same_records(move, one.way) not in there
    )


def _same_records(move: GraphMove, way: tuple[str, ...]) -> tuple[str, ...]:
    """Return the way on which the target gets the records that came to the source by `way`.

    The target's own records are there before any hop; all others pass the same clusters, or come from the source.
    """
    if way[0] == move.target:
        return (move.target,)
    return (*way, move.target) if way == (move.source,) else (*way[:-1], move.target)


def _change(move: GraphMove, one: TopicName) -> str:
    if one.written_on == move.target and move.stay:
        return f"gets what the clients write that have returned to {move.target}"
    if one.written_on == move.source and move.stay:
        return f"also has what the returned clients wrote on {move.source} meanwhile"
    if one.written_on == move.target:
        return f"also has what the clients write that moved from {move.source}"
    if one.written_on == move.source:
        return f"gets no new record until clients have returned to {move.source}"
    if move.lost and move.source in one.way:
        return f"gets no new record until {move.source} is back"
    return ""
