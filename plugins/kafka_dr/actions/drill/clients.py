"""The clients of a canary drill: they write and read during the passes, as an application does."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.domain.drill.records import record_value
from kafka_dr.hooks.brokers.client import client_config
from kafka_dr.procedure.drill_run import ACTIVE_GROUP, TOPICS, PrivateInstallation

#: Numbers of the clients' records begin here, far above those of the preparation.
_FIRST_NUMBER = 100_000_000
_PAUSE_SECONDS, _REFRESH_MS = 0.05, 2_000


class DrillClients:
    """One producer and one consumer; both follow the drill's routing record, as an application does.

    Args:
        private: the drill's private installation.
        connections: reads Airflow's connections; gives the drill's own principal.
    """

    def __init__(self, private: PrivateInstallation, connections: Any) -> None:
        self._private, self._connections = private, connections
        self._ledger = DrillLedger(private.folder)
        self._topics = [private.names.topic(name) for name in TOPICS]
        self._number = _FIRST_NUMBER
        self._acknowledged: list[int] = []
        self._figures = {"written": 0, "refused": 0, "read": 0, "moves": 0}
        self._where: dict[str, Any] = {}
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    def run(self, most_seconds: float) -> dict[str, int]:
        """Write and read until the drill asks the clients to end; return what was written, refused and read."""
        ends_at = time.monotonic() + most_seconds
        self._ledger.say_begun()
        try:
            while not self._ledger.must_stop and time.monotonic() < ends_at:
                self._follow()
                self._write()
                self._read()
                time.sleep(_PAUSE_SECONDS)
        finally:
            self._leave()
            self._ledger.say_ended(self._figures)
        return self._figures

    def _follow(self) -> None:
        """Connect to the cluster that the routing record names, if it names another one than before."""
        with suppress(OSError, ValueError):
            where = json.loads(self._ledger.routing.read_text(encoding="utf-8"))
            if where.get("cluster") != self._where.get("cluster"):
                self._leave()
                self._where = where
                self._figures["moves"] += 1
                self._connect(where["cluster"])

    def _connect(self, alias: str) -> None:
        connection = self._private.topology.cluster(alias).probe_connection or ""
        settings = client_config(self._connections.kafka(connection), alias)
        self._producer = Producer(settings | {"acks": "all", "enable.idempotence": False, "message.timeout.ms": 5_000})
        self._consumer = Consumer(
            settings
            | {
                "group.id": self._private.names.group(ACTIVE_GROUP),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 6_000,
                "topic.metadata.refresh.interval.ms": _REFRESH_MS,
                "allow.auto.create.topics": False,
            }
        )
        self._consumer.subscribe(self._names_on(alias))

    def _names_on(self, alias: str) -> list[str]:
        """Return the names that the drill's topics have on a cluster: their own, and those of mirrored ones."""
        naming = self._private.topology.names
        others = [other for other in (self._private.source, self._private.target) if other != alias]
        mirrored = [naming.remote(other, topic) for other in others for topic in self._topics]
        return sorted({*self._topics, *mirrored})

    def _write(self) -> None:
        if self._producer is None:
            return
        self._number += 1
        number = self._number
        with suppress(BufferError, KafkaException):
            self._producer.produce(
                self._topics[number % len(self._topics)],
                record_value(self._private.names.short, number),
                key=str(number),
                on_delivery=lambda error, _: self._delivered(number, error),
            )
        self._producer.poll(0)
        if self._acknowledged:
            self._ledger.add("clients", self._acknowledged)
            self._acknowledged = []

    def _delivered(self, number: int, error: object) -> None:
        if error is None:
            self._acknowledged.append(number)
        self._figures["written" if error is None else "refused"] += 1

    def _read(self) -> None:
        if self._consumer is not None:
            # A record that is acknowledged twice by this group is counted twice; errors come as messages, too.
            messages = self._consumer.consume(200, timeout=0.02)
            self._figures["read"] += sum(1 for message in messages if message.error() is None)

    def _leave(self) -> None:
        """Deliver what is on its way, and leave the group."""
        if self._producer is not None:
            self._producer.flush(5)
            self._ledger.add("clients", self._acknowledged)
            self._acknowledged = []
        if self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.close()
        self._producer = self._consumer = None
