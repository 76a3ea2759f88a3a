"""Watches the replicas of every partition while brokers live, and how many records a load really wrote."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lab.environment.production.site import process_names
from lab.environment.state import ALIASES, Lab
from lab.workload.load import ROW

LOOK_SECONDS = 1.0


class ReplicaWatch:
    """Lists the topics of both clusters every second; a partition with a replica out of sync is noted.

    Not while a broker of the cluster is down, and afterwards not until all its replicas are in sync again.

    Attributes:
        shrunk: what was seen, as text: cluster, partition, replicas in sync.
        looks: how many times a cluster's partitions were looked at, in which all its brokers lived.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._clients = {
            alias: AdminClient(lab.client_properties(alias, "admin") | {"log_level": "0"}) for alias in ALIASES
        }
        self._recovering: set[str] = set()
        self.shrunk: list[str] = []
        self.looks = 0

    @contextmanager
    def watching(self) -> Iterator[ReplicaWatch]:
        """Watch while the block runs."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            for alias in ALIASES:
                self._look(alias)

    def _look(self, alias: str) -> None:
        try:
            topics = self._clients[alias].list_topics(timeout=10.0).topics
        except KafkaException:
            topics = {}
        if not self._all_live(alias) or not topics:
            self._recovering.add(alias)
            return
        out = [
            f"{alias} {name}/{number}: {sorted(one.isrs)} of {sorted(one.replicas)} in sync"
            for name, topic in topics.items()
            for number, one in topic.partitions.items()
            if set(one.isrs) != set(one.replicas)
        ]
        if alias in self._recovering:
            self._recovering -= set() if out else {alias}
            return
        self.looks += 1
        self.shrunk += out

    def _all_live(self, alias: str) -> bool:
        return all(self._lab.processes.pid(name) for name in process_names(self._lab, f"broker-{alias}"))


def reached_rates(folder: Path) -> dict[str, int]:
    """Return, by folder of a load under a rehearsal's folder, the records acknowledged in its median second.

    Seconds in which nothing was acknowledged, as behind a fence, do not count, nor do the first and the last one.
    """
    rates = {}
    for load in sorted(folder.glob("load-*")):
        files = list(load.glob("*.acks"))
        at = np.concatenate([np.fromfile(path, ROW)["at"] for path in files]) // 1000 if files else np.array([])
        if at.size:
            counts = np.unique(at, return_counts=True)[1][1:-1]
            rates[load.name] = int(np.median(counts)) if counts.size else 0
    return rates
