"""Run one client process: a producer or a consumer that logs acknowledgements, consumed records and commits."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TextIO

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from lab.clients.application import Application, ClientPlan, DemoRoute
from lab.workload.ground_truth import IDEMPOTENT, content_digest

COMMIT_SECONDS = 0.5
FLUSH_SECONDS = 10.0
METADATA_SECONDS = 10.0


class EventLog:
    """A client's event log: one JSON line per event."""

    def __init__(self, lines: TextIO, client: str) -> None:
        self._lines, self._client = lines, client

    def write(self, event: str, **fields: Any) -> None:
        """Add one event, with the current time in milliseconds since 1970."""
        self._lines.write(
            json.dumps({"event": event, "client": self._client, "at": int(time.time() * 1000), **fields}) + "\n"
        )

    def flush(self) -> None:
        """Write all events to the file, so that a client that is killed later does not lose these events."""
        self._lines.flush()


class ProducingClient:
    """Writes records with ids at the plan's rate until it is stopped."""

    def __init__(self, plan: ClientPlan, application: Application, route: DemoRoute, log: EventLog) -> None:
        self._plan, self._route, self._log = plan, route, log
        properties = application.properties[route.cluster]["producer"]
        self._producer = Producer(
            {
                **properties,
                "bootstrap.servers": route.bootstrap_servers,
                "acks": "all",
                "linger.ms": 5,
                **IDEMPOTENT,
            }
        )
        self._number = 0

    def run(self, stopped: Callable[[], bool]) -> None:
        """Produce until `stopped` returns True, then flush."""
        # How many records to send follows from the time passed, so that a slow machine catches up.
        started_at = time.monotonic()
        while not stopped():
            for _ in range(int((time.monotonic() - started_at) * self._plan.rate) - self._number):
                self._send()
            self._producer.poll(0.02)
            self._log.flush()
        ends_at = time.monotonic() + FLUSH_SECONDS
        # Acknowledgements are logged during the flush, too: the client may be killed before its end.
        while self._producer.flush(0.2) and time.monotonic() < ends_at:
            self._log.flush()

    def _send(self) -> None:
        self._number += 1
        name = f"{self._plan.name}-{self._route.cluster}-{self._route.version}-{time.time_ns()}-{self._number}"
        topic = self._plan.topics[self._number % len(self._plan.topics)]
        self._producer.produce(
            topic,
            name.encode(),
            b"k%d" % (self._number % 17),
            headers=[("id", name.encode())],
            on_delivery=self._delivered,
        )

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._log.write("refused", cluster=self._route.cluster, topic=message.topic(), error=error.name())
            return
        value = message.value()
        digest = content_digest(message.key(), value, [("id", value)])
        where = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        self._log.write("acknowledged", cluster=self._route.cluster, **where, digest=digest, id=value.decode())


class ConsumingClient:
    """Reads local and mirrored topics, and commits positions only after the records before them were logged."""

    def __init__(self, plan: ClientPlan, application: Application, route: DemoRoute, log: EventLog) -> None:
        self._plan, self._route, self._log = plan, route, log
        self._topics = [
            prefix + topic for topic in plan.topics for prefix in ("", *application.prefixes[route.cluster])
        ]
        properties = application.properties[route.cluster]["consumer"]
        # `latest` on purpose: if a position is missing, records are never delivered, which the checker finds.
        settings = {
            "group.id": plan.group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
        }
        timing = {"topic.metadata.refresh.interval.ms": 2000, "session.timeout.ms": 6000}
        self._consumer = Consumer({**properties, "bootstrap.servers": route.bootstrap_servers, **settings, **timing})

    def run(self, stopped: Callable[[], bool]) -> None:
        """Consume until `stopped` returns True, then commit and leave the group."""
        self._write_positions()
        self._consumer.subscribe(["^(" + "|".join(topic.replace(".", r"\.") for topic in self._topics) + ")$"])
        committed_at = time.monotonic()
        try:
            while not stopped():
                # Records are logged before the commit: all that a killed client has committed is in its log.
                self._write_consumed(self._consumer.consume(500, 0.1))
                if time.monotonic() - committed_at > COMMIT_SECONDS:
                    committed_at = time.monotonic()
                    self._commit()
            self._commit()
        finally:
            self._consumer.close()

    def _write_positions(self) -> None:
        topics = self._consumer.list_topics(timeout=METADATA_SECONDS).topics
        places = [
            TopicPartition(topic, p) for topic in self._topics if topic in topics for p in topics[topic].partitions
        ]
        committed = self._consumer.committed(places, timeout=METADATA_SECONDS) if places else []
        positions = [
            [position.topic, position.partition, position.offset if position.offset >= 0 else None]
            for position in committed
        ]
        self._log.write("started", cluster=self._route.cluster, group=self._plan.group, positions=positions)
        self._log.flush()

    def _write_consumed(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.error() is None:
                where = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
                self._log.write(
                    "consumed", cluster=self._route.cluster, group=self._plan.group, **where, id=_id_of(message)
                )
        self._log.flush()

    def _commit(self) -> None:
        where = {"cluster": self._route.cluster, "group": self._plan.group}
        reached = self._consumer.position(self._consumer.assignment())
        try:
            committed = self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                # The cluster may have committed although its answer did not arrive.
                self._log.write("commit failed", **where, error=error.args[0].name(), positions=_positions(reached))
        else:
            self._log.write("committed", **where, positions=_positions(committed))
        self._log.flush()


def _positions(places: Sequence[TopicPartition]) -> list[tuple[str, int, int]]:
    return [(place.topic, place.partition, place.offset) for place in places if place.offset >= 0 and not place.error]


def _id_of(message: Any) -> str | None:
    value: bytes | None = dict(message.headers() or ()).get("id")
    return value.decode() if value else None


def client_process(plan: ClientPlan, application: Application, route: DemoRoute, control: Connection) -> None:
    """Run one client until the supervisor sends "stop" or the supervisor's process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kind = ProducingClient if plan.group is None else ConsumingClient
    with (application.folder / f"{plan.name}.jsonl").open("a", encoding="utf-8") as lines:
        log = EventLog(lines, plan.name)
        # Any message on the pipe means stop; so does the end of the pipe, because the supervisor has then ended.
        kind(plan, application, route, log).run(control.poll)
        log.write("stopped", cluster=route.cluster)
