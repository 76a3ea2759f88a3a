"""The flows of a topology as a graph of clusters: its patterns, and circles in which records are copied.

Two *opposite* flows join the same two clusters. They run in turn, or both always. Only MirrorMaker 2's default naming
stops a circle: a topic that came from a flow's target, at whatever hop, is not copied there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

#: The naming policy under which flows cannot copy records in a circle.
NAMING_WITHOUT_LOOPS = "default"
Pattern = Literal["active-active", "active-passive", "fan-out", "aggregation"]


@dataclass(frozen=True, order=True)
class FlowEdge:
    """One flow of the topology.

    Attributes:
        always: whether the flow also runs while the opposite flow runs.
        topics: the flow's topic filter as the topology states it, item by item; () if it states none.
    """

    source: str
    target: str
    always: bool = False
    topics: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return `source->target`."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True)
class FlowGraph:
    """All flows of a topology, at most one for each direction, and its naming policy."""

    naming: str
    edges: tuple[FlowEdge, ...]

    @property
    def loops_possible(self) -> bool:
        """Whether flows that run at once can copy records in a circle under the naming policy."""
        return self.naming != NAMING_WITHOUT_LOOPS

    def find(self, source: str, target: str) -> FlowEdge | None:
        """Return the flow from source to target; None if there is none."""
        return next((edge for edge in self.edges if (edge.source, edge.target) == (source, target)), None)

    def opposite(self, edge: FlowEdge) -> FlowEdge | None:
        """Return the flow in the opposite direction; None if there is none."""
        return self.find(edge.target, edge.source)

    def both_run(self, one: str, other: str) -> bool:
        """Whether both flows between two clusters always run, so that both clusters take writes (active-active)."""
        pair = self.find(one, other), self.find(other, one)
        return all(edge is not None and edge.always for edge in pair)

    def into(self, cluster: str) -> tuple[FlowEdge, ...]:
        """Return the flows that write to a cluster."""
        return tuple(edge for edge in self.edges if edge.target == cluster)

    def out_of(self, cluster: str) -> tuple[FlowEdge, ...]:
        """Return the flows that read a cluster."""
        return tuple(edge for edge in self.edges if edge.source == cluster)

    def patterns(self) -> tuple[tuple[Pattern, str], ...]:
        """Return each pattern of the graph with its clusters as text, such as ("active-active", "east, west")."""
        pairs = sorted({(min(e.source, e.target), max(e.source, e.target)) for e in self.edges})
        clusters = sorted({end for pair in pairs for end in pair})
        found: list[tuple[Pattern, str]] = [
            ("active-active" if self.both_run(*pair) else "active-passive", ", ".join(pair)) for pair in pairs
        ]
        for hub in clusters:
            targets = [edge.target for edge in self.usual(self.out_of(hub))]
            sources = [edge.source for edge in self.usual(self.into(hub))]
            found += [("fan-out", f"{hub} to {', '.join(targets)}")] * (len(targets) > 1)
            found += [("aggregation", f"{', '.join(sources)} to {hub}")] * (len(sources) > 1)
        return tuple(found)

    def usual(self, edges: Iterable[FlowEdge]) -> tuple[FlowEdge, ...]:
        """Return those of the flows that run in normal times: of two that run in turn, the one that is listed first."""
        order = {edge: number for number, edge in enumerate(self.edges)}
        return tuple(
            edge
            for edge in edges
            if edge.always or (other := self.opposite(edge)) is None or order[edge] < order[other]
        )

    def led_by(self, source: str, target: str) -> FlowGraph:
        """Return the graph with this flow first: of the two flows between these clusters it is the usual one."""
        ends = (source, target)
        return replace(self, edges=tuple(sorted(self.edges, key=lambda edge: (edge.source, edge.target) != ends)))

    def unequal_opposites(self) -> Iterator[tuple[FlowEdge, FlowEdge]]:
        """Yield the opposite flows of which one runs always and the other in turn, as (in turn, always)."""
        for edge in self.edges:
            other = self.opposite(edge)
            if other is not None and other.always and not edge.always:
                yield edge, other

    def loops(self) -> tuple[tuple[str, ...], ...]:
        """Return circles of clusters whose flows can run at once and copy records endlessly; the first cluster is last.

        For each flow in a circle the shortest one is returned, each once. None under default naming, and two flows that
        run in turn are no circle.
        """
        circles = [self._circle_through(edge) for edge in sorted(self.edges)] if self.loops_possible else []
        return tuple(dict.fromkeys((*circle, circle[0]) for circle in circles if circle))

    def _circle_through(self, edge: FlowEdge) -> tuple[str, ...]:
        """Return the clusters of the shortest circle with this flow, the first by name first; () if there is none."""
        if self.both_run(edge.source, edge.target):
            return tuple(sorted((edge.source, edge.target)))
        ways: list[tuple[str, ...]] = [(edge.target,)]
        seen = {edge.target}
        for way in ways:
            steps = [onward.target for onward in self.out_of(way[-1]) if onward != self.opposite(edge)]
            if edge.source in steps:
                circle = (edge.source, *way)
                first = circle.index(min(circle))
                return circle[first:] + circle[:first]
            ways += [(*way, step) for step in dict.fromkeys(steps) if step not in seen]
            seen.update(steps)
        return ()

    def merges(self) -> Iterator[tuple[FlowEdge, FlowEdge]]:
        """Yield pairs of flows that write the records of two clusters to the same topics of a third one.

        None unless naming is identity. Only flows that run in normal times count, and no pair of which both state their
        topics, without a common item.
        """
        if self.naming != "identity":
            return
        for cluster in sorted({edge.target for edge in self.edges}):
            for one, other in combinations(self.usual(self.into(cluster)), 2):
                if not (one.topics and other.topics) or set(one.topics) & set(other.topics):
                    yield one, other
