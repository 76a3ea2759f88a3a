"""Custom replication policy classes: all connectors of both flows have the one that the topology names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka_dr.domain.readiness.observation import FlowView, Observation
from kafka_dr.domain.readiness.readiness import find_blockers

from tests.plugins.kafka_dr.domain.readiness.test_readiness import flow, gates, seen

OWN = {"replication__policy__class": "a.B"}


def with_class(view: FlowView, name: str) -> FlowView:
    """The same flow, whose connectors all have this replication policy class."""
    views = [replace(c, config={**c.config, "replication.policy.class": name}) for c in view.connectors]
    return replace(view, source_connectors=tuple(views[:-1]), checkpoint_connector=views[-1])


@pytest.mark.parametrize(("naming", "stated"), [("identity", "a.B"), ("template", "a.B"), ("template", None)])
def test_a_custom_policy_of_all_connectors_agrees(naming: str, stated: str | None) -> None:
    """As the topology names it; a template may leave the name of the class out."""
    views = [with_class(view, "a.B") for view in (flow(), flow("standby", "primary", "id-primary", "STOPPED"))]
    assert find_blockers(seen(flow=views[0], reverse=views[1], naming_policy=naming, policy_class=stated)) == []


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(seen(policy_class="a.B", flow=flow(**OWN)), id="on the source connectors only"),
        pytest.param(seen(policy_class="a.B"), id="in the topology only"),
        pytest.param(seen(flow=flow(**OWN)), id="on connectors only"),
        pytest.param(seen(naming_policy="template"), id="a template without a custom class"),
        pytest.param(seen(policy_class="a.C", flow=with_class(flow(), "a.B"), reverse=None), id="another class"),
    ],
)
def test_a_custom_policy_that_differs_is_refused(observation: Observation) -> None:
    """Each connector with the class that it has."""
    assert gates(observation) == {"naming_agrees"}


def test_a_second_deployment_with_default_names_is_refused() -> None:
    """It would write positions for names that the target does not have."""
    view = flow()
    assert view.checkpoint_connector is not None
    config = {name: value for name, value in view.checkpoint_connector.config.items() if "policy" not in name}
    apart = replace(view, checkpoint_connector=replace(view.checkpoint_connector, config=config))
    (blocker,) = find_blockers(seen(flow=apart))
    assert blocker.gate == "naming_agrees" and blocker.reason.startswith("primary.checkpoint and the topology state")
    assert "DefaultReplicationPolicy" in blocker.seen
