"""How much a failback deletes and copies, as far as it can be known."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.actions.failback.copy_sizes import copy_sizes
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable, KafkaUnavailable

from tests.support.failback_bench import BACK, ORDERS, WayBack

BORN = TopicPartition("born", 0)


def way_of(bench: Any, **choices: Any) -> WayBack:
    """Clients have written ten records since both logs ended at 10, and three to a topic that was born."""
    way = WayBack(bench, **choices)
    way.standby.partitions["born"] = {0: 1}
    way.standby.log_ends |= {ORDERS: 20, BORN: 3}
    way.standby.log_starts[ORDERS] = 4
    return way


def test_in_append_what_follows_is_copied(bench: Any) -> None:
    """From where both logs were alike, or from where the flow back is by now; of what was born all."""
    way = way_of(bench)
    assert copy_sizes(way.procedure, way.failover) == {"records_to_copy": 13}
    way.worker.kept[BACK] = {ORDERS: 15, BORN: None}
    assert copy_sizes(way.procedure, way.failover) == {"records_to_copy": 7}
    way.worker.kept[BACK] = {}
    assert copy_sizes(way.procedure, way.failover, gone=["orders"]) == {"records_to_copy": 19}, (
        "what an earlier run has deleted is copied whole"
    )


def test_where_the_flows_worker_does_not_answer_nobody_knows(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no reason not to look for stranded records."""
    way = way_of(bench)
    monkeypatch.setattr(
        way.worker, "offsets", lambda *_, **__: (one for one in ()).throw(ConnectUnavailable("down", "refused", "look"))
    )
    assert copy_sizes(way.procedure, way.failover) == {"records_to_copy": None}
    monkeypatch.setattr(
        way.worker, "config", lambda *_, **__: (one for one in ()).throw(ConnectUnavailable("down", "refused", "look"))
    )
    assert copy_sizes(way.procedure, way.failover) == {"records_to_copy": None}


def test_where_the_flows_worker_does_not_answer_nobody_knows_bytes_either(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which topics it fills its connector says."""
    way = way_of(bench, mode="recreate")
    monkeypatch.setattr(
        way.worker, "config", lambda *_, **__: (one for one in ()).throw(ConnectUnavailable("down", "refused", "look"))
    )
    told = copy_sizes(way.procedure, way.failover)
    assert told["records_to_copy"] is told["bytes_to_copy"] is None and "refused" in told["bytes_unknown"]


def test_in_recreate_all_is_copied_and_bytes_are_told(bench: Any) -> None:
    """By the brokers of both clusters; where one does not tell, its reason is kept."""
    way = way_of(bench, mode="recreate")
    way.primary.sizes, way.standby.sizes = {ORDERS: 500, TopicPartition("other", 0): 7}, {ORDERS: 900, BORN: 30}
    found = copy_sizes(way.procedure, way.failover)
    assert found == {"records_to_copy": 19, "bytes_there": 500, "bytes_to_copy": 930, "bytes_unknown": None}
    way.standby.sizes = KafkaUnavailable("reading log directories failed", "not authorized", "look")
    told = copy_sizes(way.procedure, way.failover)
    assert told["bytes_there"] is told["bytes_to_copy"] is None and "not authorized" in told["bytes_unknown"]
