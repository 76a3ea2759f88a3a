"""A connector that the topology does not name refuses a failover if it touches what the flow moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka_dr.domain.readiness.observation import ConnectorView, FlowView, Observation
from kafka_dr.domain.readiness.readiness import find_blockers

from tests.plugins.kafka_dr.domain.readiness.test_readiness import BACK, config, flow, gates, seen


def with_unnamed(flow: FlowView, kind: str, state: str = "RUNNING", **changes: str) -> FlowView:
    """The flow, and a connector of it that the topology does not name."""
    own = {"connector.class": f"org.apache.kafka.connect.mirror.{kind}"}
    tasks = {0: state} if state == "RUNNING" else {}
    unnamed = ConnectorView("other", state, tasks, config(flow.source, flow.target, **changes) | own)
    return replace(flow, unnamed=(unnamed,))


@pytest.mark.parametrize(
    ("found", "work"),
    [
        (seen(flow=with_unnamed(flow(), "MirrorSourceConnector", topics="pays, ord.*")), "RUNNING, and copies orders"),
        (seen(flow=with_unnamed(flow(), "MirrorSourceConnector", "PAUSED")), "PAUSED, and copies orders"),
        (seen(reverse=with_unnamed(flow(*BACK, "STOPPED"), "MirrorSourceConnector")), "RUNNING, and copies orders"),
        (
            seen(flow=with_unnamed(flow(), "MirrorCheckpointConnector", sync__group__offsets__enabled="true")),
            "RUNNING, and writes positions of billing",
        ),
    ],
)
def test_it_is_named_with_what_it_does(found: Observation, work: str) -> None:
    """With the topics and groups that it has in common with the flow; of the opposite flow, too."""
    assert [(blocker.gate, blocker.seen) for blocker in find_blockers(found)] == [
        ("connectors_named", f"other is {work}")
    ]


@pytest.mark.parametrize(
    "harmless",
    [
        with_unnamed(flow(), "MirrorSourceConnector", "STOPPED"),
        with_unnamed(flow(), "MirrorSourceConnector", topics="pays"),
        with_unnamed(flow(), "MirrorCheckpointConnector"),
        with_unnamed(flow(), "MirrorCheckpointConnector", sync__group__offsets__enabled="true", groups="other"),
    ],
)
def test_it_is_left_alone_if_it_touches_nothing_of_the_flow(harmless: FlowView) -> None:
    """It stands, mirrors other topics, or writes no positions of the flow's groups."""
    assert gates(seen(flow=harmless)) == set()
