"""A consumer of production beside a drill: it must see every offset in order, without an error or a rebalance."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException

from lab.checker.findings import Finding

_SETTINGS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 1000,
    "isolation.level": "read_uncommitted",
    "session.timeout.ms": 45_000,
    "log_level": 3,
}


class OffsetRun:
    """Whether offsets of a log without transactions and compaction come one after the other, from 0 on.

    Attributes:
        next_offsets: the next offset of each partition, by (topic, partition).
        jumps: a text for each offset that did not follow the one before.
    """

    def __init__(self) -> None:
        self.next_offsets: dict[tuple[str, int], int] = {}
        self.jumps: list[str] = []

    def take(self, topic: str, partition: int, offset: int) -> None:
        """Note the next record that was read."""
        expected = self.next_offsets.get((topic, partition), 0)
        if offset != expected:
            self.jumps.append(f"{topic}-{partition}: {offset} came where {expected} had to come")
        self.next_offsets[topic, partition] = offset + 1


class SteadyConsumer(threading.Thread):
    """Reads topics as the only member of a group until it is stopped.

    Args:
        properties: librdkafka settings of the client.
        group: id of its group.
        topics: names of the topics.

    Attributes:
        run_of: the offsets that were read.
        errors: every error that the client reported.
        assignments: how often partitions were assigned.
        lost: how often partitions were taken away before the end.
    """

    def __init__(self, properties: Mapping[str, str], group: str, topics: Sequence[str]) -> None:
        super().__init__(name=group, daemon=True)
        settings: dict[str, Any] = {**properties, **_SETTINGS, "group.id": group, "error_cb": self._noted}
        self._consumer, self._topics = Consumer(settings), list(topics)
        self._ended = threading.Event()
        self.group, self.run_of = group, OffsetRun()
        self.errors: list[str] = []
        self.assignments, self.lost = 0, 0

    def run(self) -> None:
        """Read until `stop` is called."""
        self._consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        while not self._ended.is_set():
            try:
                messages: list[Any] = self._consumer.consume(2_000, 0.2)
                for message in messages:
                    if message.error() is not None:
                        self.errors.append(str(message.error()))
                    else:
                        self.run_of.take(message.topic(), message.partition(), message.offset())
            except KafkaException as error:
                self.errors.append(str(error))
        self._consumer.close()

    def stop(self) -> None:
        """Commit, leave the group and end."""
        self._ended.set()
        self.join(60)

    def findings(self, ends: Mapping[tuple[str, int], int]) -> list[Finding]:
        """Return what disturbed this consumer; `ends`: log end of each partition that it had to read to."""
        short = [f"{place} read to {self.run_of.next_offsets.get(place, 0)} of {end}"
                 for place, end in ends.items() if self.run_of.next_offsets.get(place, 0) != end]  # fmt: skip
        texts = [*self.errors, *self.run_of.jumps, *short]
        if self.assignments != 1 or self.lost:
            texts.append(f"partitions were assigned {self.assignments} times, taken away {self.lost} times")
        return [Finding("untouched", text, group=self.group) for text in texts]

    def _noted(self, error: Any) -> None:
        self.errors.append(str(error))

    def _assigned(self, consumer: Any, partitions: Any) -> None:
        self.assignments += 1

    def _revoked(self, consumer: Any, partitions: Any) -> None:
        # Leaving the group at the end also takes partitions away.
        self.lost += not self._ended.is_set()
