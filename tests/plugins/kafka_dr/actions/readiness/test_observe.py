"""What an observation says of positions, and when it reads clients."""

from __future__ import annotations

from threading import Event
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.readiness import observe
from kafka_dr.actions.readiness.observe import caught_up_positions, observe_pair
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.observation import Sample
from kafka_dr.errors import KafkaUnavailable

from tests.support.bench import Bench


def test_only_positions_near_the_end_have_to_be_followed_by_checkpoints() -> None:
    """At the end of an idle log, or within a minute's growth of a busy one; others are translated by older syncs."""
    busy, idle = TopicPartition("busy", 0), TopicPartition("idle", 0)
    first, last = Sample({busy: 900, idle: 50}, {}, 10.0), Sample({busy: 1_000, idle: 50}, {}, 12.0)
    rows = [("follows", "busy", 0, 900), ("follows", "idle", 0, 50), ("lags", "idle", 0, 49)]
    rows += [("reads old records", "busy", 0, -2_001), ("reads newer ones", "busy", 0, -2_000), ("other", "gone", 0, 9)]
    positions = pd.DataFrame(rows, columns=["group", "topic", "partition", "position"])
    found = caught_up_positions(positions, first, last)
    assert found == {"follows 2": 950, "reads newer ones 1": -2_000}
    assert caught_up_positions(positions, last, last) == {"follows 1": 50}
    assert caught_up_positions(positions.iloc[:0], first, last) == {}


def test_clients_are_read_between_the_samples(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session timeouts may take seconds to find: an observation lasts no longer for them."""
    source, listed = bench.clusters["primary"].every_broker, Event()
    list_groups = source.groups
    source.groups = lambda brokers: listed.set() or list_groups(brokers)
    listed_meanwhile: list[bool] = []
    monkeypatch.setattr(observe.time, "sleep", lambda _seconds: listed_meanwhile.append(listed.wait(20)))
    observed = observe_pair(bench.opened(), {})
    assert listed_meanwhile[0] and observed.clients.moved == observed.groups


def test_a_broker_that_lists_no_groups_ends_the_observation(bench: Bench) -> None:
    """Clients would be left out without a word."""

    def refuse(_brokers: Any) -> dict[str, Any]:
        raise KafkaUnavailable("a broker does not list its groups", "no answer", "look at the broker")

    bench.clusters["primary"].every_broker.groups = refuse
    with pytest.raises(KafkaUnavailable, match="does not list its groups"):
        observe_pair(bench.opened(), {}, apart=0)
