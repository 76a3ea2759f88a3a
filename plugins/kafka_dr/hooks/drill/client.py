"""Producer and consumer of a drill's own application; both refuse every name outside the drill's scope."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.hooks.brokers.client import client_config

#: Called with the error, None if a broker acknowledged the record, and the message.
Delivered = Callable[[Any, Any], None]
_PRODUCER: dict[str, Any] = {"acks": "all", "enable.idempotence": False, "message.timeout.ms": 10_000, "linger.ms": 5}
_CONSUMER: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 500,
    "session.timeout.ms": 6_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "allow.auto.create.topics": False,
}


class DrillProducer:
    """Writes records to a drill's topics.

    Args:
        config: librdkafka's configuration of the drill's client.
        alias: the cluster's name in the topology.
        scope: the drill's.
    """

    def __init__(self, config: Mapping[str, Any], alias: str, scope: DrillScope) -> None:
        self._scope, self._producer = scope, Producer(client_config(config, alias) | _PRODUCER)

    def write(self, topic: str, value: bytes, key: str, delivered: Delivered) -> bool:
        """Begin to write a record; return False if the client's queue is full or the client refuses the record."""
        self._scope.require_topic(topic, "writing a record")
        try:
            self._producer.produce(topic, value, key=key, on_delivery=delivered)
        except (BufferError, KafkaException):
            return False
        finally:
            self._producer.poll(0)
        return True

    def wait(self, seconds: float) -> None:
        """Wait until all records were acknowledged or refused, or the time is over."""
        self._producer.flush(seconds)


class DrillConsumer:
    """Reads a drill's topics as a member of one of its groups.

    Args:
        config: librdkafka's configuration of the drill's client.
        alias: the cluster's name in the topology.
        scope: the drill's.
        group: the group.
        topics: the topics; some need not exist.
    """

    def __init__(
        self, config: Mapping[str, Any], alias: str, scope: DrillScope, group: str, topics: Collection[str]
    ) -> None:
        scope.require_group(group, "consuming")
        for topic in topics:
            scope.require_topic(topic, "consuming")
        self._consumer = Consumer(client_config(config, alias) | _CONSUMER | {"group.id": group})
        self._consumer.subscribe(sorted(topics))

    def read(self, seconds: float) -> int:
        """Read what arrives within a time; return the number of records."""
        messages = self._consumer.consume(200, timeout=seconds)
        return sum(1 for message in messages if message.error() is None)

    def close(self) -> None:
        """Commit, and leave the group."""
        with suppress(KafkaException):
            self._consumer.close()
