"""Records with ids that are written without end to some topics of a lab, and what of them is on the target."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.support.lab_clients import client

SECONDS = 60.0


class IdTraffic:
    """Writes records to topics of one cluster; each value begins with an id that no other record has.

    Args:
        lab: the lab.
        source, target: aliases of the clusters.
        topics: name on the source -> number of partitions; missing topics are created.
        prefix: what the flow puts before names on the target.
        size: bytes of a value.
        pause: seconds between two rounds, each of which writes one record to every topic.
    """

    def __init__(
        self,
        lab: Lab,
        source: str,
        target: str,
        topics: dict[str, int],
        prefix: str,
        size: int = 200,
        pause: float = 0.005,
    ) -> None:
        self._lab, self._source, self._target, self._prefix = lab, source, target, prefix
        self._topics, self._size, self._pause = topics, size, pause
        self.acknowledged: dict[str, set[str]] = {topic: set() for topic in topics}
        self._admin = AdminClient(client(lab, source, "admin"))
        self._producer = Producer({**client(lab, source, "admin"), "linger.ms": 20, "enable.idempotence": True})
        self._goes_on = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        for future in self._admin.create_topics([NewTopic(*topic) for topic in topics.items()]).values():
            future.result(SECONDS)

    def __enter__(self) -> Self:
        self._goes_on.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop writing, and wait until all is acknowledged."""
        if self._goes_on.is_set():
            self._goes_on.clear()
            self._thread.join(SECONDS)
            assert self._producer.flush(SECONDS) == 0

    def _write(self) -> None:
        for number in itertools.count():
            for topic in self._topics:
                name = f"{topic}/{number}"
                self._producer.produce(
                    topic,
                    name.ljust(self._size, "x").encode(),
                    key=str(number),
                    on_delivery=lambda error, _, topic=topic, name=name: (
                        None if error else self.acknowledged[topic].add(name)
                    ),
                )
            self._producer.poll(0)
            if not self._goes_on.is_set():
                return
            time.sleep(self._pause)

    def copies(self, topic: str) -> Counter[str]:
        """Return the ids that are on the target, each with how often."""
        return self._ids(self._target, self._prefix + topic)

    def _ids(self, alias: str, name: str) -> Counter[str]:
        consumer = Consumer(
            {
                **client(self._lab, alias, "admin"),
                "group.id": "id-traffic",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
            }
        )
        found: Counter[str] = Counter()
        try:
            metadata = consumer.list_topics(timeout=SECONDS)
            if name not in metadata.topics:
                return found
            places = [TopicPartition(name, partition, 0) for partition in metadata.topics[name].partitions]
            ends = {place.partition: consumer.get_watermark_offsets(place, SECONDS)[1] for place in places}
            consumer.assign(places)
            left, ends_at = {number for number, end in ends.items() if end}, time.monotonic() + SECONDS
            while left:
                assert time.monotonic() < ends_at, f"{name} was not read to its end"
                for message in consumer.consume(1_000, 0.1):
                    assert message.error() is None, message.error()
                    if message.offset() < ends[message.partition()]:
                        found[message.value().decode().rstrip("x")] += 1
                    if message.offset() + 1 >= ends[message.partition()]:
                        left.discard(message.partition())
        finally:
            consumer.close()
        return found

    def await_first(self, *topics: str) -> None:
        """Wait until the target has records of these topics."""
        for topic in topics:
            wait_until(lambda topic=topic: bool(self.copies(topic)), f"records of {topic} on {self._target}", SECONDS)

    def delete(self) -> None:
        """Delete the topics on both clusters, the source first, from which the flow would create them again."""
        for alias, prefix, pause in ((self._source, "", 3.0), (self._target, self._prefix, 0.0)):
            admin = AdminClient(client(self._lab, alias, "admin"))
            for future in admin.delete_topics([prefix + topic for topic in self._topics]).values():
                future.result(SECONDS)
            time.sleep(pause)

    def repeats(self, topic: str) -> int:
        """Return how many copies on the target are repeats of others."""
        return sum(self._repeated(topic).values())

    def _repeated(self, topic: str) -> Counter[str]:
        """Return the ids that are on the target more often than on the source, each with how much more often."""
        copies = self.copies(topic)
        return copies - self._ids(self._source, topic)

    def is_whole(self, topic: str) -> bool:
        """Whether every record of a topic that was acknowledged before this call is on the target."""
        acknowledged = set(self.acknowledged[topic])
        return acknowledged <= self.copies(topic).keys()

    def assert_copied_once(self, *topics: str, seconds: float = SECONDS) -> None:
        """Assert that every acknowledged record of these topics comes to the target, and none of them twice."""
        for topic in topics:
            wait_until(lambda topic=topic: self.is_whole(topic), f"all records of {topic} on {self._target}", seconds)
            repeats = self._repeated(topic)
            assert not repeats, f"{len(repeats)} records of {topic} were copied more than once: {list(repeats)[:5]}"
            assert len(self.acknowledged[topic]) > 100
