"""Reads the records of several logs up to fixed ends, with a consumer of the checker's own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lab.checker.readers import SILENCE_SECONDS, NothingRead, Place

_SETTINGS = {
    "group.id": "lab-check",
    "enable.auto.commit": False,
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",
    "log_level": 3,
}


def read_messages(
    properties: Mapping[str, str], begins: Mapping[Place, int], ends: Mapping[Place, int]
) -> Iterator[tuple[Place, Any]]:
    """Yield (topic, partition) and message of each record between these offsets.

    Args:
        properties: librdkafka settings of a client that may read the topics.
        begins: first offset of each partition to read; 0 where a partition is absent.
        ends: end of each partition.

    Raises:
        NothingRead: a log could not be read to its end.
    """
    open_logs = {place for place, end in ends.items() if end > begins.get(place, 0)}
    consumer = Consumer({**properties, **_SETTINGS})
    consumer.assign([TopicPartition(*place, begins.get(place, 0)) for place in open_logs])
    try:
        read_at = time.monotonic()
        while open_logs:
            messages: list[Any] = consumer.consume(10_000, 1.0)
            for message in messages:
                read_at = time.monotonic()
                if error := message.error():
                    if error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                        raise NothingRead(f"{message.topic()} could not be read: {error}")
                    continue
                place = message.topic(), message.partition()
                if message.offset() < ends[place]:
                    yield place, message
                if message.offset() >= ends[place] - 1:
                    open_logs.discard(place)
            if time.monotonic() - read_at > SILENCE_SECONDS:
                raise NothingRead(f"no record for {SILENCE_SECONDS:g} s before the ends of {sorted(open_logs)[:5]}")
    finally:
        consumer.close()
