"""Producer and consumer of a drill, on a mock broker that hears of no name outside the drill's scope."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_dr.errors import BadInput, OutsideDrill
from kafka_dr.hooks.drill.client import DrillConsumer, DrillProducer

from tests.support.drills.scopes import FOREIGN, ORDERS, READERS, scope


@pytest.fixture(scope="module")
def broker() -> Iterator[Producer]:
    """A mock broker, by the client that runs it; it makes each topic that somebody asks for."""
    yield Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "1", "log_level": 0})


@pytest.fixture
def config(broker: Producer) -> dict[str, str]:
    """A connection to the mock broker."""
    brokers = broker.list_topics(timeout=10).brokers.values()
    return {"bootstrap.servers": ",".join(f"{one.host}:{one.port}" for one in brokers)}


def topics_of(broker: Producer) -> set[str]:
    """Return the topics of the mock broker."""
    return set(broker.list_topics(timeout=10).topics)


def test_records_are_acknowledged_one_by_one(config: dict[str, str], broker: Producer) -> None:
    """By these answers the drill knows which records a cluster has."""
    told: list[tuple[Any, Any]] = []
    producer = DrillProducer(config, "primary", scope())
    for number in range(5):
        assert producer.write(ORDERS, b"x", str(number), lambda error, message: told.append((error, message.key())))
    producer.wait(10)
    assert sorted(told) == [(None, str(number).encode()) for number in range(5)]


def test_a_topic_outside_the_drill_is_refused(config: dict[str, str], broker: Producer) -> None:
    """The broker never hears of it: a mock broker would have made the topic. So is a group's name for a topic."""
    told: list[Any] = []
    before, producer = topics_of(broker), DrillProducer(config, "primary", scope())
    for name in (*FOREIGN, READERS):
        with pytest.raises(OutsideDrill):
            producer.write(name, b"x", "1", lambda *answer: told.append(answer))
    producer.wait(1)
    assert topics_of(broker) == before and told == []


def test_a_group_outside_the_drill_is_refused(config: dict[str, str]) -> None:
    """Also before there is a client."""
    for name in (*FOREIGN, ORDERS):
        for settings in (config, {}):
            with pytest.raises(OutsideDrill):
                DrillConsumer(settings, "primary", scope(), name, [ORDERS])


def test_what_was_written_is_read(config: dict[str, str], broker: Producer) -> None:
    """From the beginning; a topic of the drill that is not there yet is no obstacle."""
    producer = DrillProducer(config, "primary", scope())
    for number in range(20):
        producer.write(ORDERS, b"x", str(number), lambda *_: None)
    producer.wait(10)
    absent = min(scope().topics - {ORDERS})
    consumer, read, ends_at = (
        DrillConsumer(config, "primary", scope(), READERS, [ORDERS, absent]),
        0,
        time.monotonic() + 30,
    )
    while read < 20 and time.monotonic() < ends_at:
        read += consumer.read(0.5)
    consumer.close()
    assert read >= 20


def test_a_cluster_that_is_away_acknowledges_nothing() -> None:
    """Nothing counts as written; a write and a wait end nevertheless."""
    told: list[Any] = []
    producer = DrillProducer({"bootstrap.servers": "127.0.0.1:9"}, "primary", scope())
    producer.write(ORDERS, b"x", "1", lambda error, _: told.append(error))
    producer.wait(0.2)
    assert None not in told


@pytest.mark.parametrize("key", ["plugin.library.paths", "acks", "group.id"])
def test_settings_of_a_connection_are_checked(config: dict[str, str], key: str) -> None:
    """A connection of a drill may set no more than any other one."""
    with pytest.raises(BadInput, match=key):
        DrillProducer({**config, key: "x"}, "primary", scope())
    with pytest.raises(BadInput, match=key):
        DrillConsumer({**config, key: "x"}, "primary", scope(), READERS, [ORDERS])
