"""Topologies of several clusters: what is accepted, and which graphs of flows are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.config.importing.mirror_maker_properties import topology_from_properties
from kafka_dr.config.settings import check_topology
from kafka_dr.errors import BadInput

Change = Callable[[dict[str, Any]], Any]


def data_of(policy: str, *flows: str, **of_flow: Any) -> dict[str, Any]:
    """The data of a topology file with these flows, each `source->target`, and their further settings."""
    ends = [flow.split("->") for flow in flows]
    return {
        "clusters": {
            alias: {"connection": f"kafka_{alias}"} for alias in sorted({end for pair in ends for end in pair})
        },
        "naming": {"policy": policy},
        "flows": [
            {
                "source": source,
                "target": target,
                "connect": f"connect_{target}",
                "connectors": {kind: f"{source}-to-{target}-{kind}" for kind in ("source", "checkpoint")},
                **of_flow,
            }
            for source, target in ends
        ],
        "routing": {"kind": "file", "path": "/state/routing.json"},
        "journal": {"connection": "j"},
        "airflow_api": {"connection": "a"},
        "spark": {"connection": "s"},
        "evidence": "/state/evidence",
    }


def problems_of(data: dict[str, Any]) -> list[str]:
    """What is said to be wrong; [] if the topology is accepted."""
    try:
        check_topology(data, "topology.yaml")
    except BadInput as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    "data",
    [
        data_of("identity", "primary->dr"),
        data_of("identity", "primary->dr", "dr->primary"),
        data_of("default", "east->west", "west->east", runs="always"),
        data_of("default", "central->region-us", "central->region-eu", "central->region-apac"),
        data_of("default", "region-us->central", "region-eu->central", "region-apac->central"),
        data_of("default", "a->b", "b->c", "c->a", runs="always"),
        data_of("identity", "hub->us", "us->hub", "hub->eu", "eu->hub"),
    ],
)
def test_usual_topologies_are_accepted(data: dict[str, Any]) -> None:
    """Active-passive, active-active, fan-out, aggregation, aliases with hyphens, a ring under default naming."""
    assert problems_of(data) == []


@pytest.mark.parametrize(
    ("data", "place", "text"),
    [
        (
            data_of("identity", "a->b", "b->a", runs="always"),
            "flows[1]: ",
            "a->b->a is a circle: its flows copy the same records into the same topics, endlessly",
        ),
        (data_of("identity", "a->b", "b->c", "c->a"), "flows[2]: ", "a->b->c->a is a circle"),
        (
            data_of("identity", "us->hub", "eu->hub"),
            "flows[1]: ",
            "us->hub and eu->hub write records of two clusters into the same topics of hub",
        ),
    ],
)
def test_forbidden_graphs_are_refused(data: dict[str, Any], place: str, text: str) -> None:
    """One problem, at one of the flows, that says what would happen and what to do."""
    (problem,) = problems_of(data)
    assert problem.startswith(place) and text in problem and "use default naming" in problem


def test_renamed_copies_of_a_custom_policy_may_go_round() -> None:
    """Only the default policy is known to recognise what it has copied before."""
    data = data_of("template", "a->b", "b->a", runs="always")
    data["naming"] |= {"template": "copy-<source>-<topic>"}
    (problem,) = problems_of(data)
    assert "renamed copies of copies" in problem and "runs: in_turn" in problem


def test_opposite_flows_must_agree() -> None:
    """A flow whose opposite always runs never has its turn."""
    data = data_of("default", "a->b", "b->a")
    data["flows"][1]["runs"] = "always"
    assert [problem.partition(":")[0] for problem in problems_of(data)] == ["flows[0].runs"]


def test_unusable_flows_are_left_to_the_other_checks() -> None:
    """A flow without ends, with one cluster, or twice is reported once, and hides no circle."""
    data = data_of("identity", "a->b", "b->a", runs="always")
    data["flows"] += [{"source": "a"}, data["flows"][0], 7]
    assert sum("circle" in problem for problem in problems_of(data)) == 1


@pytest.mark.parametrize(
    ("flows", "patterns"),
    [
        (("region-us->central", "region-eu->central"), "aggregation"),
        (("central->region-us", "central->region-eu"), "fan-out"),
    ],
)
def test_properties_with_hyphens_become_such_a_topology(flows: tuple[str, ...], patterns: str) -> None:
    """A file of MirrorMaker 2 with more than two clusters is converted, and the graph has the pattern."""
    clusters = ("central", "region-us", "region-eu")
    lines = [f"clusters = {', '.join(clusters)}", *(f"{alias}.bootstrap.servers = {alias}:9092" for alias in clusters)]
    lines += [line for flow in flows for line in (f"{flow}.enabled = true", f"{flow}.topics = events")]
    converted = topology_from_properties("\n".join(lines), worker="connect")
    topology = check_topology(converted.topology, "made")
    assert patterns in {pattern for pattern, _ in topology.graph.patterns()}
    assert topology.names.remote("region-us", "events") == "region-us.events"
    assert topology.names.upstream("region-us.events") == "events"
