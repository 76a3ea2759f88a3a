"""Run one load process, which `lab.workload.load` starts; its task is one line of JSON on the standard input."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from confluent_kafka import KafkaError, KafkaException, Producer

from lab.workload.ground_truth import IDEMPOTENT

TICK = 0.01
KNOCKS_PER_SECOND = 20
KEEP_SECONDS = 0.5
REFUSALS = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
PADDING = b" " + b"load" * 16
#: Settings of the other producers. A retry after a lost answer would write a record twice, on the source itself.
#: Of more small requests at once, all acknowledged by three brokers each, most time out.
SENT_ONCE = {
    "enable.idempotence": False,
    "message.send.max.retries": 0,
    "max.in.flight.requests.per.connection": 5,
}


def load_value(worker: int, number: int) -> bytes:
    """Return the value of record `number` of the load process `worker`: the record's id and padding."""
    return load_id(worker, number).encode() + PADDING


def load_id(worker: int, number: int) -> str:
    """Return the id of record `number` of the load process `worker`."""
    return f"load-{worker}-{number:09d}"


class Pacer:
    """Computes how many records to send at a given rate; after a long delay, at most the records of one second."""

    def __init__(self) -> None:
        self._paid = time.monotonic()

    def due(self, rate: float) -> int:
        """Return how many records to send now, for `rate` records per second since the last call."""
        now = time.monotonic()
        self._paid = max(self._paid, now - 1.0)
        count = int((now - self._paid) * rate)
        self._paid += count / rate
        return count


class LoadWorker:
    """Writes records at a constant rate, counts refusals, and stores acknowledgements in files of `task["folder"]`."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self._number, self._rate = task["worker"], task["rate"]
        self._topics = list(task["topics"])
        self._spread = [(topic, p) for topic in self._topics for p in range(task["topics"][topic])]
        # A fence answers an idempotent producer with another error.
        idempotent = task["idempotent"]
        self._config = {
            **task["properties"],
            "acks": "all",
            **(IDEMPOTENT if idempotent else SENT_ONCE),
            "linger.ms": 5,
            "batch.num.messages": 2000,
            "log_level": 3,
        }
        self._folder = Path(task["folder"])
        self._rows = array("q")
        self._counts = {"acknowledged": 0, "refused": 0, "failed": 0}
        self._sent = 0
        self._refused_now = False
        self._stopping = threading.Event()

    def run(self) -> None:
        """Produce until SIGTERM, or until the parent process ends."""
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        threading.Thread(target=self._stop_when_orphaned, daemon=True).start()
        with (self._folder / f"load-{self._number}.acks").open("wb") as acks:
            while not self._stopping.is_set():
                self._with_one_producer(acks)
                time.sleep(1 / KNOCKS_PER_SECOND)

    def _with_one_producer(self, acks: BinaryIO) -> None:
        producer = Producer(self._config)
        try:
            self._produce(producer, acks)
        except KafkaException as error:
            # An idempotent producer cannot be used any more after a refusal: `run` creates a new producer.
            self._count_error(error.args[0])
        producer.flush(5)
        self._keep(acks)

    def _produce(self, producer: Producer, acks: BinaryIO) -> None:
        pacer, saved_at = Pacer(), time.monotonic()
        while not self._stopping.is_set():
            for _ in range(pacer.due(KNOCKS_PER_SECOND if self._refused_now else self._rate)):
                # If the cluster does not answer, the queue stays full: waiting for room for every record would delay
                # storing acknowledgements and stopping this process.
                if not self._send(producer):
                    break
            # Poll often: the time stored for an acknowledgement is that of its callback.
            producer.poll(TICK)
            if time.monotonic() - saved_at > KEEP_SECONDS:
                saved_at = time.monotonic()
                self._keep(acks)

    def _send(self, producer: Producer) -> bool:
        """Enqueue the next record; return False if the record is dropped because the producer's queue is full."""
        number = self._sent
        self._sent += 1
        topic, partition = self._spread[number % len(self._spread)]
        try:
            producer.produce(topic, load_value(self._number, number), partition=partition, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._count_error(error)
            return
        # The cluster accepts records (again, if a fence was lifted): write at the full rate.
        self._refused_now = False
        self._counts["acknowledged"] += 1
        number = int(message.value()[: -len(PADDING)].rsplit(b"-", 1)[1])
        self._rows.extend(
            (
                number,
                self._topics.index(message.topic()),
                message.partition(),
                message.offset(),
                int(time.time() * 1000),
            )
        )

    def _count_error(self, error: KafkaError) -> None:
        self._refused_now = self._refused_now or error.code() in REFUSALS
        self._counts["refused" if error.code() in REFUSALS else "failed"] += 1

    def _keep(self, acks: BinaryIO) -> None:
        self._rows.tofile(acks)
        acks.flush()
        del self._rows[:]
        counts = self._folder / f"load-{self._number}.counts.json"
        aside = counts.with_suffix(".part")
        aside.write_text(json.dumps(self._counts), encoding="utf-8")
        aside.replace(counts)

    def _stop_when_orphaned(self) -> None:
        sys.stdin.read()
        self._stopping.set()


if __name__ == "__main__":
    LoadWorker(json.loads(sys.stdin.readline())).run()
