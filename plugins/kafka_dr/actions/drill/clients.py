"""The clients of a canary drill: they write and read during the passes, as an application does."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import partial
from typing import Any

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.domain.drill.records import record_value
from kafka_dr.hooks.drill.client import DrillConsumer, DrillProducer
from kafka_dr.procedure.drill_run import ACTIVE_GROUP, TOPICS, PrivateInstallation

#: Numbers of the clients' records begin here, far above those of the preparation.
_FIRST_NUMBER, _APART = 100_000_000, 1_000_000
_PAUSE_SECONDS, _READ_SECONDS, _DELIVER_SECONDS = 0.05, 0.02, 5.0


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
        # A task that Airflow tries again goes on far above the numbers of its earlier tries.
        self._number = max(_FIRST_NUMBER, max(self._ledger.numbers(), default=0) + _APART)
        self._acknowledged: list[int] = []
        self._figures = {"written": 0, "refused": 0, "read": 0, "moves": 0}
        self._where: dict[str, Any] = {}
        self._producer: DrillProducer | None = None
        self._consumer: DrillConsumer | None = None

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
        config = self._connections.kafka(self._private.topology.cluster(alias).probe_connection or "")
        group, scope = self._private.names.group(ACTIVE_GROUP), self._private.scope
        self._producer = DrillProducer(config, alias, scope)
        self._consumer = DrillConsumer(config, alias, scope, group, self._private.topics_on(alias))

    def _write(self) -> None:
        if self._producer is None:
            return
        self._number += 1
        number = self._number
        value, topic = record_value(self._private.names.short, number), self._topics[number % len(self._topics)]
        self._producer.write(topic, value, str(number), partial(self._delivered, number))
        if self._acknowledged:
            self._ledger.add("clients", self._acknowledged)
            self._acknowledged = []

    def _delivered(self, number: int, error: object, _: object) -> None:
        if error is None:
            self._acknowledged.append(number)
        self._figures["written" if error is None else "refused"] += 1

    def _read(self) -> None:
        if self._consumer is not None:
            self._figures["read"] += self._consumer.read(_READ_SECONDS)

    def _leave(self) -> None:
        """Deliver what is on its way, and leave the group."""
        if self._producer is not None:
            self._producer.wait(_DELIVER_SECONDS)
            self._ledger.add("clients", self._acknowledged)
            self._acknowledged = []
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = None
