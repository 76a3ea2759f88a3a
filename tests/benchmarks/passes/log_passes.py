"""Reads topics whole with a bare client, once per JSON line of standard input; answers seconds and records."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

READING = {
    "group.id": "bench",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "isolation.level": "read_uncommitted",
    "queued.min.messages": 500_000,
    "log_level": 2,
}


def whole(settings: dict[str, Any], topics: dict[str, int]) -> int:
    """Read every record of the topics and return how many there were."""
    consumer, records = Consumer({**settings, **READING}), 0
    waiting = {(name, p) for name, count in topics.items() for p in range(count)}
    consumer.assign([TopicPartition(name, p, 0) for name, p in waiting])
    try:
        while waiting:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    records += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    waiting.discard((message.topic(), message.partition()))
    finally:
        consumer.close()
    return records


def main() -> None:
    """Answer every line."""
    for line in sys.stdin:
        asked, began = json.loads(line), time.monotonic()
        records = whole(asked["settings"], asked["topics"])
        print(f"{time.monotonic() - began:.3f} {records}", flush=True)


if __name__ == "__main__":
    main()
