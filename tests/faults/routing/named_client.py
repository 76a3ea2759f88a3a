"""The librdkafka client that does as NamedClient.java: reads one topic, prints what it reads, writes into another."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, Producer


def read_topic(settings: dict[str, str], topic: str) -> None:
    """Print each record's value and offset."""
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            print((message.value() or b"").decode(), message.offset(), flush=True)


def write_topic(settings: dict[str, str], topic: str, name: str) -> None:
    """Write the client's name again and again."""
    known = {key: value for key, value in settings.items() if key not in ("group.id", "auto.offset.reset")}
    producer = Producer(known)
    while True:
        with suppress(BufferError):
            producer.produce(topic, name)
        producer.poll(0)
        time.sleep(0.2)


if __name__ == "__main__":
    stated, read, written, own_name = json.loads(Path(sys.argv[1]).read_text()), *sys.argv[2:]
    threading.Thread(target=read_topic, args=(stated, read), daemon=True).start()
    threading.Thread(target=write_topic, args=(stated, written, own_name), daemon=True).start()
    sys.stdin.read()
