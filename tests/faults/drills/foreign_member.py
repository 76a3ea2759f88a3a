"""A consumer that joins a group with a long session, prints `joined`, reads on, and leaves only when it is told to.

Arguments: librdkafka's settings and the topics, as JSON.
"""

from __future__ import annotations

import json
import signal
import sys

from confluent_kafka import Consumer

if __name__ == "__main__":
    settings, topics = json.loads(sys.argv[1])
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    consumer = Consumer(settings)
    consumer.subscribe(topics, on_assign=lambda *_: print("joined", flush=True))
    while not told:
        consumer.poll(0.2)
    consumer.close()
