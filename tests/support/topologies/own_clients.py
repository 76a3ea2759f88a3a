"""Clients that a cluster has of its own, while the clients of another cluster move to it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.checker.readers import Place
from lab.environment.state import Lab

PAUSE_SECONDS = 0.02
#: A busy machine may keep a record waiting for longer than 30 s; a refusal for lack of a right comes at once.
TIMEOUT_MS = 120_000


def create_topics(lab: Lab, alias: str, topics: dict[str, int]) -> None:
    """Create topics, by name the number of partitions."""
    admin = AdminClient(lab.client_properties(alias, "admin"))
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        future.result(30)


def commit(lab: Lab, alias: str, group: str, positions: dict[Place, int]) -> None:
    """Commit a group's positions as an admin would."""
    admin = AdminClient(lab.client_properties(alias, "admin"))
    offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
    for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)]).values():
        future.result(30)


class OwnClient:
    """Works in a thread of its own until it is stopped.

    Attributes:
        refused: names of errors.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=work, daemon=True)
        self.refused = set[str]()

    @contextmanager
    def working(self) -> Iterator[Self]:
        """Work for the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(40)


class OwnProducer(OwnClient):
    """Writes unique records to partitions of one cluster until it is stopped.

    Args:
        name: stands in the records, so that several producers write different ones; None: the cluster's alias.

    Attributes:
        acknowledged: records that the cluster has acknowledged.
        refused: names of errors.
    """

    def __init__(self, lab: Lab, alias: str, places: Iterable[Place], name: str | None = None) -> None:
        super().__init__(self._write)
        self._settings: dict[str, Any] = {**lab.client_properties(alias, "producer"), "log_level": 0}
        self._name, self._places = name or alias, list(places)
        self.acknowledged = 0

    def _write(self) -> None:
        producer = Producer({**self._settings, "linger.ms": 5, "message.timeout.ms": TIMEOUT_MS})
        for number, (topic, partition) in enumerate(itertools.cycle(self._places)):
            if self._stop.is_set():
                break
            value = f"{self._name} {number}".encode()
            producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
            producer.poll(0)
            time.sleep(PAUSE_SECONDS / len(self._places))
        producer.flush(30)

    def _delivered(self, error: Any, _: Any) -> None:
        if error:
            self.refused.add(error.name())
        else:
            self.acknowledged += 1


class OwnConsumer(OwnClient):
    """Reads topics of one cluster in a group of its own until it is stopped.

    Attributes:
        read: number of records.
        refused: names of errors.
    """

    def __init__(self, lab: Lab, alias: str, group: str, topics: Iterable[str]) -> None:
        super().__init__(self._read)
        self._settings: dict[str, Any] = {
            **lab.client_properties(alias, "consumer"),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        self._topics = list(topics)
        self.read = 0

    def _read(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe(self._topics)
        while not self._stop.is_set():
            message = consumer.poll(0.5)
            if message is not None and message.error():
                self.refused.add(message.error().name())
            elif message is not None:
                self.read += 1
        consumer.close()
