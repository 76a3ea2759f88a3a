"""The graph of flows: patterns, and circles and merged topics that no configuration may have."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph

ALIASES = ("central", "east", "region-eu", "west")


def graph_of(naming: str, *flows: str, always: bool = False) -> FlowGraph:
    """A graph of flows, each given as `source->target`."""
    return FlowGraph(naming, tuple(FlowEdge(*flow.split("->"), always) for flow in flows))


@pytest.mark.parametrize(
    ("flows", "always", "patterns"),
    [
        (["primary->dr"], False, [("active-passive", "dr, primary")]),
        (["primary->dr", "dr->primary"], False, [("active-passive", "dr, primary")]),
        (["east->west", "west->east"], True, [("active-active", "east, west")]),
        (
            ["central->region-us", "central->region-eu"],
            False,
            [
                ("active-passive", "central, region-eu"),
                ("active-passive", "central, region-us"),
                ("fan-out", "central to region-us, region-eu"),
            ],
        ),
        (
            ["region-us->central", "central->region-us", "region-eu->central", "central->region-eu"],
            False,
            [
                ("active-passive", "central, region-eu"),
                ("active-passive", "central, region-us"),
                ("aggregation", "region-us, region-eu to central"),
            ],
        ),
    ],
)
def test_patterns_are_named(flows: list[str], always: bool, patterns: list[tuple[str, str]]) -> None:
    """Of two flows that run in turn only the one that is listed first counts."""
    assert list(graph_of("default", *flows, always=always).patterns()) == patterns


@pytest.mark.parametrize(
    ("flows", "always", "circles"),
    [
        (["a->b", "b->a"], False, []),
        (["a->b", "b->a"], True, [("a", "b", "a")]),
        (["a->b", "b->c", "c->a"], False, [("a", "b", "c", "a")]),
        (["a->b", "b->a", "b->c", "c->b", "c->a", "a->c"], False, [("a", "b", "c", "a"), ("a", "c", "b", "a")]),
        (["hub->a", "hub->b", "a->hub"], False, []),
    ],
)
@pytest.mark.parametrize("naming", ["identity", "template"])
def test_circles_of_flows_that_run_at_once_are_found(
    naming: str, flows: list[str], always: bool, circles: list[tuple[str, ...]]
) -> None:
    """Two flows that run in turn are no circle, and under default naming no flows are."""
    assert sorted(graph_of(naming, *flows, always=always).loops()) == circles
    assert not graph_of("default", *flows, always=always).loops()


EDGES = st.lists(st.sampled_from(list(permutations(ALIASES, 2))), unique=True, min_size=1)


@given(edges=EDGES, always=st.booleans(), start=st.sampled_from(ALIASES))
def test_a_graph_without_circles_copies_no_record_twice_round(
    edges: list[tuple[str, str]], always: bool, start: str
) -> None:
    """Records that are carried along flows that may run at once come to their own cluster again only in a circle."""
    graph = FlowGraph("identity", tuple(FlowEdge(*edge, always) for edge in edges))
    ways, returned = [(start,)], False
    while ways:
        way = ways.pop()
        for edge in graph.out_of(way[-1]):
            in_turn = not always and len(way) > 1 and edge.target == way[-2]
            if edge.target == start and not in_turn:
                returned = True
            elif edge.target not in way and not in_turn:
                ways.append((*way, edge.target))
    assert returned == any(start in circle for circle in graph.loops())


def test_circles_of_many_clusters_are_found_at_once() -> None:
    """Every cluster has a flow to every other one."""
    mesh = FlowGraph("identity", tuple(FlowEdge(str(a), str(b)) for a in range(40) for b in range(40) if a != b))
    assert all(len(circle) == 4 for circle in mesh.loops())


def test_two_regions_under_identity_naming_write_to_the_same_topics() -> None:
    """Unless each flow states topics of its own; a flow that waits for its turn does not count."""
    flows = ["us->central", "central->us", "eu->central", "central->eu"]
    assert [tuple(map(str, pair)) for pair in graph_of("identity", *flows).merges()] == [("us->central", "eu->central")]
    assert not list(graph_of("default", *flows).merges())
    assert not list(graph_of("identity", "central->us", "us->central", "central->eu", "eu->central").merges())
    apart = FlowEdge("us", "central", topics=("us-.*",)), FlowEdge("eu", "central", topics=("eu-.*",))
    assert not list(FlowGraph("identity", apart).merges())
    alike = FlowEdge("us", "central", topics=("us-.*", "events")), FlowEdge("eu", "central", topics=("events",))
    assert list(FlowGraph("identity", alike).merges()) == [alike]


def test_opposite_flows_state_the_same() -> None:
    """One flow that always runs leaves no turn to the other."""
    turn, always = FlowEdge("a", "b"), FlowEdge("b", "a", always=True)
    graph = FlowGraph("default", (turn, always))
    assert list(graph.unequal_opposites()) == [(turn, always)]
    assert not graph.both_run("a", "b") and not list(graph_of("default", "a->b", "b->a").unequal_opposites())
