"""Where a source's records are on the target, whichever way they went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.actions.failback.resync_scope import topics_back
from kafka_dr.actions.loss.last_known_state import selected_topics
from kafka_dr.actions.readiness.observe import flow_view
from kafka_dr.actions.scope.flow_scope import copies_of_target, existing_originals, mirrored_now, remote_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.readiness import find_blockers

from tests.plugins.kafka_dr.domain.readiness.test_readiness import config, seen

CONVERTERS = ("key.converter", "value.converter", "header.converter")

TOPICS = [
    "orders",
    "standby.orders",
    "standby.heartbeats",
    "standby.checkpoints.internal",
    "elsewhere.orders",
    "primary.odd",
]


@pytest.mark.parametrize(("policy", "copies"), [("identity", {}), ("default", {"standby.orders": "orders"})])
def test_copies_of_the_targets_topics_are_known_by_their_names(
    make_bench: Callable[..., Any], policy: str, copies: dict[str, str]
) -> None:
    """Only those that came from the target, and no internal ones; under identity naming names say nothing."""
    procedure = make_bench(naming={"policy": policy}).procedure()
    assert copies_of_target(procedure, TOPICS) == copies


def test_a_copys_records_are_in_the_topic_that_it_came_from(make_bench: Callable[..., Any]) -> None:
    """Everything else is in its copy."""
    procedure = make_bench(naming={"policy": "default"}).procedure()
    own, back = TopicPartition("orders", 1), TopicPartition("standby.orders", 2)
    found = remote_partitions(procedure, (tp for tp in (own, back)))
    assert found == {own: TopicPartition("primary.orders", 1), back: TopicPartition("orders", 2)}


@pytest.mark.parametrize("stated", [True, False])
def test_converters_of_the_worker_are_those_that_the_topology_states(
    make_bench: Callable[..., Any], stated: bool
) -> None:
    """A connector that sets none takes the worker's, which no REST call shows; unstated they are not known."""
    converters = {key: config("primary", "standby")[key] for key in CONVERTERS}
    flow = {
        "source": "primary",
        "target": "standby",
        "connect": "connect_standby",
        "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
        "mirror_maker": converters if stated else {},
    }
    bench = make_bench(flows=[flow])
    own = config("primary", "standby")
    bench.workers["standby"].settings = {key: value for key, value in own.items() if key not in converters}
    procedure = bench.procedure()
    found = [b.reason for b in find_blockers(seen(flow=flow_view(procedure, procedure.flow)))]
    assert found == ([] if stated else [f"{key} may rewrite records" for key in CONVERTERS])


@pytest.mark.parametrize(("version", "topics"), [("3.9.2", ["orders"]), ("4.0.0", ["app-internal", "orders"])])
def test_what_is_mirrored_depends_on_the_workers_version(bench: Any, version: str, topics: list[str]) -> None:
    """The filter's defaults changed with 4.0: planned, lost and returned clusters ask the worker which ones it has."""
    for alias in ("primary", "standby"):
        bench.clusters[alias].partitions["app-internal"] = {0: 1}
    bench.workers["standby"].version, procedure = version, bench.procedure()
    bench.workers["standby"].settings = {"topics": ".*"}
    assert sorted(topics_back(procedure)) == topics
    assert sorted(mirrored_now(procedure)) == topics
    assert sorted(selected_topics(procedure, bench.clusters["standby"].topics())) == topics
    bench.workers["standby"].away = True
    assert "app-internal" in mirrored_now(procedure), "an unknown version is taken for 4.0: nothing is left out"


def test_what_the_target_has_no_more_is_left_out() -> None:
    """A copy whose original was deleted leads nowhere."""
    assert existing_originals({"standby.orders": "orders", "standby.gone": "gone"}, ["orders"]) == {
        "standby.orders": "orders"
    }
