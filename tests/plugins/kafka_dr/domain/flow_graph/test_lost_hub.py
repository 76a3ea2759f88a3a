"""A lost cluster whose clients go to several clusters: what becomes of its flows, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph
from kafka_dr.domain.flow_graph.lost_hub import fates_after_loss, lost_cluster_section, two_writers
from kafka_dr.domain.flow_graph.move import GraphMove, fates_of
from kafka_dr.domain.flow_graph.section import flows_markdown

from tests.plugins.kafka_dr.domain.flow_graph.test_graph import EDGES, graph_of
from tests.plugins.kafka_dr.domain.flow_graph.test_move import HUB, naming

FAN_OUT = graph_of("default", "hub->us", "us->hub", "hub->eu", "eu->hub", "hub->asia", "us->lab")


def fates(graph: FlowGraph, lost: str, *targets: str) -> dict[str, str]:
    """Flow -> what becomes of it."""
    return {str(one.edge): one.fate.value for one in fates_after_loss(graph, lost, targets)}


def test_flows_of_a_lost_fan_out_hub() -> None:
    """Flows to and from both new clusters turn; a region that takes no clients loses its flow; others stay."""
    assert fates(FAN_OUT, "hub", "us", "eu") == {
        "hub->us": "stops",
        "us->hub": "turns",
        "hub->eu": "stops",
        "eu->hub": "turns",
        "hub->asia": "stops",
        "us->lab": "stays",
    }
    why = {str(one.edge): one.why for one in fates_after_loss(FAN_OUT, "hub", ("us", "eu"))}
    assert "eu takes the place of hub" in why["hub->eu"] and "what the moved clients write" in why["us->lab"]


@given(edges=EDGES)
def test_one_target_is_an_ordinary_move(edges: list[tuple[str, str]]) -> None:
    """The fates are those of the unplanned failover to that cluster."""
    graph = FlowGraph("default", tuple(FlowEdge(*edge) for edge in edges))
    source, target = edges[0]
    assert fates_after_loss(graph, source, (target,)) == fates_of(graph, GraphMove(source, target, lost=True))


@given(edges=EDGES, data=st.data())
def test_order_of_targets_does_not_matter(edges: list[tuple[str, str]], data: st.DataObject) -> None:
    """Each flow's fate is the same whichever target is named first."""
    graph = FlowGraph("default", tuple(FlowEdge(*edge) for edge in edges))
    lost = edges[0][0]
    targets = sorted({edge.target for edge in graph.out_of(lost)})
    shuffled = data.draw(st.permutations(targets))
    assert fates(graph, lost, *targets) == fates(graph, lost, *shuffled)


def test_readers_of_a_lost_centre_find_each_region_on_that_region() -> None:
    """With all regions as targets no name is lost; each row is of the cluster where readers go."""
    section = lost_cluster_section(HUB, naming("default", "hub", "us", "eu"), "hub", ("us", "eu"))
    assert section["unreadable"] == ["TOPIC"], "the centre's own records were copied to no region"
    before = {(row["cluster"], row["name"]): row["before"] for row in section["readers"]}
    assert before["us", "TOPIC"] == "us.TOPIC" and before["eu", "TOPIC"] == "eu.TOPIC"
    one = lost_cluster_section(HUB, naming("default", "hub", "us", "eu"), "hub", ("us",))
    assert one["unreadable"] == ["TOPIC", "eu.TOPIC"]
    assert "| hub->eu | stops |" in "\n".join(flows_markdown(section, "hub"))


@pytest.mark.parametrize(
    ("graph", "refused"),
    [
        (graph_of("default", "hub->us", "hub->eu"), False),
        (graph_of("identity", "hub->us", "hub->eu"), True),
        (graph_of("template", "hub->us", "hub->eu"), True),
        (FlowGraph("identity", (FlowEdge("hub", "us", topics=("a",)), FlowEdge("hub", "eu", topics=("b",)))), False),
        (FlowGraph("identity", (FlowEdge("hub", "us", topics=("a",)), FlowEdge("hub", "eu", topics=("a", "b")))), True),
        (FlowGraph("identity", (FlowEdge("hub", "us", topics=("a",)), FlowEdge("hub", "eu"))), True),
    ],
)
def test_two_clusters_must_not_take_writes_for_one_topic(graph: FlowGraph, refused: bool) -> None:
    """Under default naming each has topics of its own; otherwise both flows must state topics without a common one."""
    assert bool(list(two_writers(graph, "hub", ("us", "eu")))) is refused
    assert not list(two_writers(graph, "hub", ("us",)))
