"""The topology of a drill's passes keeps production's clusters, and nothing else that a pass could act on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.config.drill_topology import drill_settings, drill_topology
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.errors import BadInput

from tests.support.bench import Bench
from tests.support.drills.drill_bench import DRILL, drill_bench
from tests.support.drills.scopes import NAMES

HOOK = {"connection": "hook"}
FOLDER = Path("/evidence/drill/private")
#: Fields in which a pass does not differ from production: they name systems that a drill shares, or limits.
SHARED = {
    "journal",
    "airflow_api",
    "spark",
    "kafka_tools",
    "deadlines",
    "limits",
    "approvers",
    "metrics",
    "evidence_kept_days",
    "reconcile_seconds",
}


@pytest.fixture
def production(make_bench: Callable[..., Bench]) -> Callable[..., Topology]:
    """Makes a topology of production with every hook, a recorder, notices and policies."""

    def make(settings: dict[str, Any] | None = None, **changes: Any) -> Topology:
        topology = {
            "drain": HOOK,
            "source_probe": HOOK,
            "fence_hook": {**HOOK, "spares_mirror_maker": True},
            "recorder": {"archive": "file:///archive"},
            "store": {"uri": "file:///store"},
            "exports": {"values": "omit"},
            "notifications": [{"kind": "webhook", "connection": "webhook"}],
            "groups": [{"pattern": "billing.*", "policy": "fail"}],
            "applications": [{"name": "orders", "connections": {"standby": "orders"}, "prefix": "orders-"}],
            "cool_down_seconds": 900.0,
            **changes,
        }
        return load_topology(drill_bench(make_bench, settings, **topology).topology)

    return make


def made(production: Topology, source: str = "primary", target: str = "standby") -> Topology:
    """Return the topology of the passes of a drill."""
    return drill_topology(production, source, target, NAMES, FOLDER)


def test_the_clusters_are_productions(production: Callable[..., Topology]) -> None:
    """Same aliases, connections and principals; the probe of a pass writes as the drill's own principal."""
    ours = production()
    drill = made(ours)
    assert drill.aliases == ours.aliases
    for alias in ours.aliases:
        kept = ours.cluster(alias).model_copy(update={"probe_connection": f"kafka_{alias}_drill"})
        assert drill.cluster(alias) == kept


def test_no_hook_no_recorder_and_no_notice(production: Callable[..., Topology]) -> None:
    """Each of them would reach beyond the drill. Nor does a pass read policies of production's groups, or cool down."""
    ours = production()
    assert all((ours.drain, ours.source_probe, ours.fence_hook, ours.recorder, ours.notifications, ours.groups))
    drill = made(ours)
    assert (drill.drain, drill.source_probe, drill.fence_hook, drill.recorder) == (None,) * 4
    assert (drill.notifications, drill.groups, drill.cool_down_seconds) == ((), (), 0.0)
    assert ours.applications and drill.applications == ()


def test_a_pass_is_no_place_for_another_drill(production: Callable[..., Topology]) -> None:
    """Its topology names no workers for drills."""
    with pytest.raises(BadInput):
        drill_settings(made(production()), "primary", "standby")


def test_both_flows_are_the_drills(production: Callable[..., Topology]) -> None:
    """Connectors by the drill's names, in the worker for drills beside the cluster that each flow writes to."""
    drill = made(production())
    assert [(flow.source, flow.target, flow.worker) for flow in drill.flows] == [
        ("primary", "standby", "connect_drill_standby"),
        ("standby", "primary", "connect_drill_primary"),
    ]
    for flow in drill.flows:
        assert flow.connectors.source == (NAMES.source_connector(flow.source, flow.target),)
        assert flow.connectors.checkpoint.name == NAMES.checkpoint_connector(flow.source, flow.target)
        assert flow.stop_hook is None and set(flow.workers) == {flow.worker}


def test_production_may_have_no_flow_back(production: Callable[..., Topology]) -> None:
    """The drill has one nevertheless, in its own workers: a failback is rehearsed over it."""
    whole = production()
    drill = made(whole.model_copy(update={"flows": whole.flows[:1]}))
    assert drill.find_flow("standby", "primary") is not None


def test_routing_and_evidence_lie_in_the_drills_folder(production: Callable[..., Topology]) -> None:
    """Whatever routing production has."""
    drill = made(production(routing={"kind": "http", "connection": "routing"}))
    assert drill.routing.kind == "file" and Path(drill.routing.path).parent == FOLDER
    assert Path(drill.evidence) == FOLDER


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_topics_are_named_by_productions_policy_with_the_separator_of_drills(
    production: Callable[..., Topology], policy: str
) -> None:
    """Also if the names of production's topics were asked for before: production's naming is computed once."""
    ours, topic = production(naming={"policy": policy}), NAMES.topic("orders")
    before = (ours.names.remote("primary", "orders"), ours.names.checkpoints_topic("primary"))
    drill = made(ours)
    mirrored = topic if policy == "identity" else f"primary.switchback-drill.{topic}"
    assert drill.names.remote("primary", topic) == mirrored
    assert drill.names.checkpoints_topic("primary") == (
        "primary.switchback-drill.checkpoints.switchback-drill.internal"
    )
    assert drill.names.offset_syncs_topic("standby") == (
        "mm2-offset-syncs.switchback-drill.standby.switchback-drill.internal"
    )
    assert (ours.names.remote("primary", "orders"), ours.names.checkpoints_topic("primary")) == before


def test_productions_separator_and_its_switch_do_not_count(production: Callable[..., Topology]) -> None:
    """Without the separator between their parts the drill's internal topics would be production's."""
    naming = {"policy": "default", "separator": "_", "internal_topic_separator": False}
    drill = made(production(naming=naming))
    assert drill.names.checkpoints_topic("standby") == (
        "standby.switchback-drill.checkpoints.switchback-drill.internal"
    )


def test_what_a_pass_shares_with_production_is_known(production: Callable[..., Topology]) -> None:
    """A field that the topology gets later must be named here, or be the drill's own."""
    ours = production()
    drill = made(ours)
    own = {"clusters", "naming", "flows", "routing", "evidence", "drain", "source_probe", "fence_hook", "recorder"}
    own |= {"store", "exports", "applications", "groups", "notifications", "drill", "cool_down_seconds"}
    assert set(Topology.model_fields) == SHARED | own
    assert {name for name in Topology.model_fields if getattr(drill, name) == getattr(ours, name)} == SHARED


def without_workers(alias: str) -> dict[str, Any]:
    """Return settings whose workers and clients lack a cluster."""
    return {
        field: {name: DRILL[field][name] for name in DRILL[field] if name != alias} for field in ("connect", "clients")
    }


@pytest.mark.parametrize("alias", ["primary", "standby"])
def test_a_cluster_without_a_worker_for_drills_refuses(production: Callable[..., Topology], alias: str) -> None:
    """The message names the cluster, and says what to do."""
    ours = production(without_workers(alias))
    for ask in (lambda: made(ours), lambda: drill_settings(ours, "standby", "primary")):
        with pytest.raises(BadInput, match="A canary drill needs Connect workers of its own") as caught:
            ask()
        assert caught.value.seen.endswith(f": {alias}") and "kind observe" in caught.value.next_step


def test_a_topology_without_drills_refuses(production: Callable[..., Topology]) -> None:
    """Both clusters are named."""
    with pytest.raises(BadInput, match="A canary drill needs Connect workers of its own") as caught:
        made(production().model_copy(update={"drill": None}))
    assert "primary, standby" in caught.value.seen
