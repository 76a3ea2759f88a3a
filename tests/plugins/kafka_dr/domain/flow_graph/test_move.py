"""What becomes of flows and readers when clients leave a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph
from kafka_dr.domain.flow_graph.move import GraphMove, fates_of
from kafka_dr.domain.flow_graph.readers import names_on, read_after, unreadable_after
from kafka_dr.domain.flow_graph.section import flows_markdown, flows_section
from kafka_dr.domain.mirror_maker.naming import Naming, NamingSpec, naming_of

from tests.plugins.kafka_dr.domain.flow_graph.test_graph import ALIASES, EDGES, graph_of

ACTIVE_ACTIVE = graph_of("default", "east->west", "west->east", always=True)
HUB = graph_of("default", "us->hub", "hub->us", "eu->hub", "hub->eu")


def naming(policy: str, *aliases: str) -> Naming:
    """The naming of some clusters."""
    return naming_of(NamingSpec(policy), aliases)  # type: ignore[arg-type]


def fates(graph: FlowGraph, source: str, target: str, lost: bool) -> dict[str, str]:
    """Flow -> what becomes of it."""
    return {str(one.edge): one.fate.value for one in fates_of(graph, GraphMove(source, target, lost))}


@pytest.mark.parametrize(
    ("graph", "move", "expected"),
    [
        (graph_of("identity", "a->b", "b->a"), ("a", "b", False), {"a->b": "stops", "b->a": "turns"}),
        (graph_of("identity", "a->b", "b->a"), ("a", "b", True), {"a->b": "stops", "b->a": "turns"}),
        (ACTIVE_ACTIVE, ("east", "west", False), {"east->west": "stops", "west->east": "stays"}),
        (ACTIVE_ACTIVE, ("east", "west", True), {"east->west": "stops", "west->east": "stops"}),
        (
            HUB,
            ("us", "hub", True),
            {"us->hub": "stops", "hub->us": "turns", "eu->hub": "stays", "hub->eu": "stays"},
        ),
        (
            HUB,
            ("hub", "us", True),
            {"us->hub": "turns", "hub->us": "stops", "eu->hub": "stops", "hub->eu": "stops"},
        ),
    ],
)
def test_what_becomes_of_each_flow(graph: FlowGraph, move: tuple[str, str, bool], expected: dict[str, str]) -> None:
    """The flow of the move stops; its opposite turns, unless it always runs; the loss of a cluster stops its others."""
    assert fates(graph, *move) == expected


@given(edges=EDGES, lost=st.booleans())
def test_only_flows_of_the_move_change_unless_the_source_is_lost(edges: list[tuple[str, str]], lost: bool) -> None:
    """Flows between other clusters stay, each flow has a reason, and the flow of the move always stops."""
    graph = FlowGraph("default", tuple(FlowEdge(*edge) for edge in edges))
    source, target = edges[0]
    for one in fates_of(graph, GraphMove(source, target, lost)):
        concerned = {one.edge.source, one.edge.target}
        assert one.why
        if concerned == {source, target}:
            assert one.fate.value == ("stops" if one.edge.source == source else "turns")
        else:
            assert one.fate.value == ("stops" if lost and source in concerned else "stays")


def test_names_of_a_global_view() -> None:
    """Of both sides of an active-active pair, of a central cluster, and of a region with a hyphen in its alias."""
    both = naming("default", "east", "west")
    assert [one.name for one in names_on(ACTIVE_ACTIVE, both, "east", "orders")] == ["orders", "west.orders"]
    regions = graph_of("default", "region-us->central", "region-eu->central", "region-apac->central")
    names = naming("default", "central", "region-us", "region-eu", "region-apac")
    assert [one.name for one in names_on(regions, names, "central", "events")] == [
        "events",
        "region-apac.events",
        "region-eu.events",
        "region-us.events",
    ]
    fan_out = graph_of("default", "central->region-us", "central->region-eu")
    assert [one.name for one in names_on(fan_out, names, "region-us", "global-x")] == ["global-x", "central.global-x"]


@given(edges=EDGES, cluster=st.sampled_from(ALIASES))
def test_every_name_leads_back_to_where_its_records_were_written(edges: list[tuple[str, str]], cluster: str) -> None:
    """No two ways share a name, and a name is the topic with the ways' aliases before it."""
    graph, names = FlowGraph("default", tuple(FlowEdge(*edge) for edge in edges)), naming("default", *ALIASES)
    for one in names_on(graph, names, cluster, "orders"):
        assert one.name == ".".join([*reversed(one.way[:-1]), "orders"])
        assert one.way[-1] == cluster and len(set(one.way)) == len(one.way)
        assert names.original(one.name) == "orders"


def test_readers_after_the_loss_of_one_side() -> None:
    """The own topic takes the moved clients' records; the lost side's copy ends; each has its name from before."""
    move = GraphMove("east", "west", lost=True)
    rows = read_after(ACTIVE_ACTIVE, naming("default", "east", "west"), move, "orders")
    assert [(row.cluster, row.name, row.before) for row in rows] == [
        ("west", "orders", "west.orders"),
        ("west", "east.orders", "orders"),
    ]
    assert "clients write that moved from east" in rows[0].change
    assert "no new record until clients have returned to east" in rows[1].change


def test_readers_of_a_lost_hub_have_each_region_only_there() -> None:
    """What the hub had of the other region comes to the new cluster by no flow, and the plan says so."""
    move, names = GraphMove("hub", "us", lost=True), naming("default", "hub", "us", "eu")
    hub = HUB.led_by("hub", "us")
    assert unreadable_after(hub, names, move, "events") == ("eu.events",)
    text = "\n".join(flows_markdown(flows_section(HUB, names, move), "hub"))
    assert "cannot read on" in text and "eu.TOPIC" in text and "| eu->hub | stops |" in text
    assert flows_markdown({}, "hub") == []


def test_under_identity_naming_each_cluster_has_one_name() -> None:
    """Where the records come from cannot be told by the name."""
    pair = graph_of("identity", "a->b", "b->a")
    assert [one.name for one in names_on(pair, naming("identity", "a", "b"), "b", "orders")] == ["orders"]
