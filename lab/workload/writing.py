"""Write drafts (records not sent yet) to a cluster, and add acknowledged records to the ground truth."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from lab.workload.ground_truth import (
    ABORTED,
    COMMITTED,
    IDEMPOTENT,
    TopicTruth,
    TruthRecord,
    content_digest,
    key_digest,
)
from lab.workload.topic_shapes import Draft, Shape

DELIVERY_SECONDS = 60.0


class NotDelivered(RuntimeError):
    """Raised when some of a workload's records were not acknowledged in time."""


class TopicWriter:
    """Writes records to one topic, and adds each acknowledged record to the topic's ground truth."""

    def __init__(self, properties: Mapping[str, Any], truth: TopicTruth) -> None:
        self._properties = {**properties, **IDEMPOTENT, "acks": "all", "linger.ms": 5, "log_level": 3}
        self._truth = truth
        self._sent = 0
        self._acknowledged = 0
        self._error: KafkaError | None = None

    def write(self, portions: Iterable[list[Draft]], pause: float = 0.0) -> None:
        """Write the portions in order, with `pause` seconds between two; wait until each portion is acknowledged.

        Raises:
            NotDelivered: a record was not acknowledged.
        """
        producer = Producer(self._properties)
        for number, portion in enumerate(portions):
            time.sleep(pause if number else 0.0)
            self._send(producer, portion, COMMITTED)
            self._flush(producer)

    def write_in_transactions(self, rng: random.Random, drafts: list[Draft]) -> None:
        """Write drafts in transactions of random sizes; flush and then abort about every fourth transaction.

        The last transaction is always aborted, so that the topic ends with aborted records.
        """
        producer = Producer({**self._properties, "transactional.id": f"seeding-{self._truth.name}"})
        producer.init_transactions(DELIVERY_SECONDS)
        while drafts:
            size = rng.choice([1, 2, 7, 25, 80])
            portion, drafts = drafts[:size], drafts[size:]
            abort = rng.random() < 0.25 or not drafts
            producer.begin_transaction()
            self._send(producer, portion, ABORTED if abort else COMMITTED)
            self._flush(producer)
            # Without `_flush` before the abort librdkafka would drop records instead of sending records.
            producer.abort_transaction(DELIVERY_SECONDS) if abort else producer.commit_transaction(DELIVERY_SECONDS)

    def leave_open(self, drafts: list[Draft], seconds: float) -> None:
        """Write drafts in a transaction that stays open, until the cluster aborts the transaction after `seconds`."""
        transaction_settings = {
            "transactional.id": f"left-open-{self._truth.name}",
            "transaction.timeout.ms": int(seconds * 1000),
        }
        producer = Producer({**self._properties, **transaction_settings})
        producer.init_transactions(DELIVERY_SECONDS)
        producer.begin_transaction()
        self._send(producer, drafts, ABORTED)
        self._flush(producer)

    def _send(self, producer: Producer, drafts: list[Draft], state: str) -> None:
        for draft in drafts:
            self._sent += 1
            fields = {"partition": draft.partition, "headers": draft.headers or None, "timestamp": draft.timestamp}
            while not _enqueue(producer, self._truth.name, draft, fields, self._delivery_callback(draft, state)):
                producer.poll(0.1)
            producer.poll(0)

    def _delivery_callback(self, draft: Draft, state: str) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._error = error
                return
            self._acknowledged += 1
            digest = content_digest(draft.key, draft.value, draft.headers)
            # With LogAppendTime this is the broker's time, not the draft's.
            timestamp = message.timestamp()[1]
            record = TruthRecord(
                message.offset(), digest, draft.id, key_digest(draft.key), draft.value is None, timestamp, state
            )
            self._truth.records.setdefault(draft.partition, []).append(record)

        return delivered

    def _flush(self, producer: Producer) -> None:
        producer.flush(DELIVERY_SECONDS)
        if self._acknowledged != self._sent:
            raise NotDelivered(
                f"topic {self._truth.name}: {self._sent - self._acknowledged} of {self._sent} records were not"
                f" acknowledged within {DELIVERY_SECONDS:.0f} s; the last error: {self._error}; read the broker's log"
            )


def portions_of(rng: random.Random, shape: Shape, topic: str, scale: float) -> list[list[Draft]]:
    """Return a topic's drafts in at most as many portions as the shape has waves; each portion mixes all partitions."""
    count = max(1, int(shape.size * scale)) if shape.size else 0
    filled = range(int(shape.partitions * shape.filled))
    queues = [list(shape.draft(rng, topic, partition, count)) for partition in filled]
    # All filled partitions of a shape have equally many drafts, so that one index serves all queues.
    mixed = [draft for number in range(count) for draft in (queue[number] for queue in queues)]
    step = -(-len(mixed) // shape.waves) or 1
    return [mixed[start : start + step] for start in range(0, len(mixed), step)]


def _enqueue(
    producer: Producer, topic: str, draft: Draft, fields: dict[str, Any], delivered: Callable[..., None]
) -> bool:
    try:
        producer.produce(topic, draft.value, draft.key, on_delivery=delivered, **fields)
    except BufferError:
        return False
    return True
