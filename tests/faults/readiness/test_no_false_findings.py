"""Nothing is found on a healthy site of three brokers a cluster, whatever a working day brings.

Topics and groups come and go, brokers are restarted one after the other on both sides, some partitions stand still.
SWITCHBACK_QUIET_MINUTES says for how long.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from lab.environment.production.nodes import start_nodes
from lab.environment.production.profile import BROKERS, member_name
from lab.environment.state import ALIASES
from tests.faults.readiness.checked_site import BUSY, PARTITIONS, CheckedSite, checked_site, found
from tests.faults.readiness.one_check import SOURCE
from tests.faults.support import always_on
from tests.faults.support.scene import until

MINUTES = float(os.environ.get("SWITCHBACK_QUIET_MINUTES", "4"))
CHECK_SECONDS = 60.0
#: Records a second; how often a topic and a group come, and how long each stays, in seconds.
RATE, COMES_SECONDS, STAYS_SECONDS = 500, 15.0, 75.0
_SECONDS = 120.0


class WorkingDay:
    """What goes on beside the checks; `failures` has what kept this test itself from doing so."""

    def __init__(self, site: CheckedSite) -> None:
        self.site, self.failures = site, list[str]()
        self.counts: dict[str, int] = dict.fromkeys(("records", "topics", "deleted", "groups", "restarts"), 0)
        self._ended, self._numbers = threading.Event(), count()

    @contextmanager
    def going_on(self, seconds: float) -> Iterator[None]:
        """Work inside this context; brokers are restarted within so many seconds."""
        works = (self.load, self.topics, self.groups, lambda: self.restarts(seconds))
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:
            self.failures.append(repr(failure))

    def load(self) -> None:
        """Write records all the time; what a restarting broker does not take at once waits in the producer."""
        producer = Producer({**self.site.lab.client_properties(SOURCE, "admin"), "linger.ms": 20})
        while not self._ended.wait(0.1):
            for _ in range(RATE // 10):
                number = next(self._numbers)
                producer.produce(BUSY, f"{number:012d}".ljust(100, "."), partition=number % PARTITIONS)
                self.counts["records"] += 1
            producer.poll(0)
        producer.flush(_SECONDS)

    def topics(self) -> None:
        """Create topics with some records; delete each after a while."""
        born: list[tuple[str, float]] = []
        producer = Producer(self.site.lab.client_properties(SOURCE, "admin"))
        for number in count():
            if self._ended.wait(COMES_SECONDS):
                break
            name = f"churn-{number}"
            self._retried(lambda name=name: self.site.create(NewTopic(name, 2)))
            self.counts["topics"] += 1
            born.append((name, time.monotonic()))
            for record in range(20):
                producer.produce(name, f"{name} {record}", partition=record % 2)
            producer.flush(_SECONDS)
            for old in [one for one in born if time.monotonic() - one[1] > STAYS_SECONDS]:
                self._retried(lambda old=old: self._delete(old[0]))
                self.counts["deleted"] += 1
                born.remove(old)

    def _delete(self, name: str) -> None:
        (deleted,) = self.site.admins[SOURCE].delete_topics([name]).values()
        deleted.result(_SECONDS)

    def _retried(self, act: Callable[[], None]) -> None:
        """Act, again while a broker is away; that it was done is an answer that got lost."""
        for _ in range(10):
            try:
                return act()
            except KafkaException as error:
                if error.args[0].name() in ("TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PART"):
                    return None
                time.sleep(2.0)
        raise AssertionError("the cluster did not answer ten times")

    def groups(self) -> None:
        """Consumers of new groups join, commit and leave; every second group is deleted."""
        login = {**self.site.lab.client_properties(SOURCE, "admin"), "auto.offset.reset": "earliest"}
        for number in count():
            if self._ended.wait(COMES_SECONDS):
                break
            name = f"passing-{number}"
            consumer = Consumer({**login, "group.id": name, "enable.auto.commit": True})
            consumer.subscribe([BUSY])
            ends_at = time.monotonic() + 10.0
            while time.monotonic() < ends_at:
                consumer.poll(0.5)
            consumer.close()
            self.counts["groups"] += 1
            if number % 2:
                self.site.admins[SOURCE].delete_consumer_groups([name])

    def restarts(self, seconds: float) -> None:
        """Restart each broker of both clusters once, one after the other, each when all replicas are in sync."""
        lab, began = self.site.lab, time.monotonic()
        every = seconds / (len(ALIASES) * len(BROKERS) + 1)
        for turn, (node, alias) in enumerate((node, alias) for node in BROKERS for alias in ALIASES):
            if self._ended.wait(max(0.0, began + every * (turn + 0.5) - time.monotonic())):
                return
            name = f"broker-{member_name(alias, node)}"
            os.kill(lab.processes.pid(name), signal.SIGTERM)
            until(lambda name=name: lab.processes.pid(name) is None, f"{name} to end", _SECONDS)
            start_nodes(lab, alias)
            self.counts["restarts"] += 1
            print(f"{time.strftime('%T')} {name} restarted", flush=True)


def test_a_working_day(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Checks every minute: each says VERIFIED, with warnings at most."""
    told: list[dict[str, Any]] = []
    with checked_site(tmp_path_factory, "default", profile="production", limits={}, reconcile_seconds=120.0) as site:
        site.make_verified()
        day = WorkingDay(site)
        with day.going_on(60 * MINUTES):
            ends_at = time.monotonic() + 60 * MINUTES
            while (began := time.monotonic()) < ends_at:
                told.append(site.check())
                if found(told[-1]):
                    print(always_on.said(site.lab, always_on.RECORDER)[-3000:], flush=True)
                time.sleep(max(0.0, began + CHECK_SECONDS - time.monotonic()))
        told.append(site.check())
    print(json.dumps(day.counts), flush=True)
    print([(one["state"], sorted(found(one, "warning")), one["took_seconds"]) for one in told], flush=True)
    assert day.failures == []
    assert day.counts["restarts"] == len(ALIASES) * len(BROKERS) and day.counts["topics"] > 4
    wrong = [(one["checked_at"], one["reasons"]) for one in told if found(one)]
    assert wrong == [], f"{len(wrong)} of {len(told)} checks"
