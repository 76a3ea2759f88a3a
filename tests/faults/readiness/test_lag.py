"""Lag and possible loss of the readiness document against the truth, which this file counts by record ids itself.

MirrorMaker 2 is throttled, stopped, RUNNING without reaching its source, and RUNNING while nobody reaches the source.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from lab.environment.connect import MIRROR_MAKER
from lab.threads import run_beside
from tests.faults.readiness.checked_site import CheckedSite, checked_site, found
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support.scene import until
from tests.support.lab_clients import producer_quota

NUMBERED, PARTITIONS, PAID = "numbered", 3, "paid"
#: Bytes a second with which MirrorMaker 2 may write: some ten records.
THROTTLED = 1_500
RATE = 100
_SECONDS = 30.0
Place = tuple[str, int]


class Written(NamedTuple):
    """What this file knows of one record: its size in bytes, and when it was written, in seconds since 1970."""

    size: int
    at: float


class Missing(NamedTuple):
    """Records that the source has and the target lacks, by source partition and id."""

    records: dict[Place, dict[bytes, Written]]

    def count(self, place: Place | None = None) -> int:
        """How many, of one partition or of all."""
        return sum(len(of) for at, of in self.records.items() if place in (None, at))

    def size(self) -> int:
        """Their bytes."""
        return sum(record.size for of in self.records.values() for record in of.values())

    def oldest(self) -> float:
        """When the oldest of them was written."""
        return min(record.at for of in self.records.values() for record in of.values())


class NumberedSite:
    """A site with topics whose records have ids, and what of them is missing on the target."""

    def __init__(self, site: CheckedSite) -> None:
        self.site, self._numbers = site, count()
        self._producer = Producer({**site.lab.client_properties(SOURCE, "admin"), "linger.ms": 5})
        payer = {**site.lab.client_properties(SOURCE, "admin"), "transactional.id": "payer"}
        self._payer = Producer(payer)
        self._payer.init_transactions(_SECONDS)
        site.create(NewTopic(NUMBERED, PARTITIONS, 1), NewTopic(PAID, 1, 1))

    def write(self, records: int, topic: str = NUMBERED) -> None:
        """Write records of different sizes, each with an id of its own, and wait for their acknowledgement."""
        for _ in range(records):
            number = next(self._numbers)
            value = f"{number:010d}".encode() + b"." * random.randrange(50, 150)
            self._producer.produce(topic, value, partition=number % PARTITIONS * (topic == NUMBERED))
        assert self._producer.flush(_SECONDS) == 0

    def pay(self, transactions: int) -> None:
        """Write so many transactions of one record; each leaves a marker, which is an offset without a record."""
        for _ in range(transactions):
            self._payer.begin_transaction()
            self._payer.produce(PAID, f"{next(self._numbers):010d}".encode())
            self._payer.commit_transaction(_SECONDS)

    @contextmanager
    def under_load(self, rate: int) -> Iterator[None]:
        """Write about so many records a second inside this context."""

        def work(ended: threading.Event) -> None:
            while not ended.wait(0.1):
                self.write(rate // 10)

        with run_beside(work):
            yield

    def on(self, alias: str) -> dict[Place, dict[bytes, Written]]:
        """All records of both topics on one cluster, read from their starts to the ends of now, by source partition."""
        login = self.site.lab.client_properties(alias, "admin")
        consumer = Consumer(
            {**login, "group.id": "truth", "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
        )
        found: dict[Place, dict[bytes, Written]] = defaultdict(dict)
        try:
            for topic, partitions in ((NUMBERED, PARTITIONS), (PAID, 1)):
                name = topic if alias == SOURCE else self.site.remote(topic)
                for partition in range(partitions):
                    self._read(consumer, TopicPartition(name, partition), found[topic, partition])
        finally:
            consumer.close()
        return found

    @staticmethod
    def _read(consumer: Consumer, place: TopicPartition, into: dict[bytes, Written]) -> None:
        start, end = consumer.get_watermark_offsets(place, timeout=_SECONDS)
        consumer.assign([TopicPartition(place.topic, place.partition, start)])
        ends_at = time.monotonic() + _SECONDS
        while start < end and consumer.position([place])[0].offset < end:
            assert time.monotonic() < ends_at, f"{place} was not read to its end"
            for message in consumer.consume(5_000, 0.5):
                assert message.error() is None, message.error()
                into[message.value()[:10]] = Written(len(message.value()), message.timestamp()[1] / 1000)

    def missing(self) -> Missing:
        """What the target lacks: the source is read first, so that nothing copied meanwhile counts as missing."""
        source, target = self.on(SOURCE), self.on(TARGET)
        return self.lacking(source, target)

    @staticmethod
    def lacking(source: dict[Place, dict[bytes, Written]], target: dict[Place, dict[bytes, Written]]) -> Missing:
        """What of these source records these target records lack."""
        return Missing({at: {i: r for i, r in of.items() if i not in target[at]} for at, of in source.items()})

    def _is_settled(self) -> bool:
        try:
            return self.missing().count() == 0
        except KafkaException:
            # A broker that was frozen has not taken its partitions back yet.
            return False

    def settle(self) -> None:
        """Wait until the target has every record, and the document says so."""
        until(self._is_settled, "the target to have every record", 120.0, pause=1.0)
        until(lambda: self.site.check()["lag"]["records"] == 0, "no lag", 90.0, pause=1.0)


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NumberedSite]:
    """A flow that is VERIFIED, with numbered records on both clusters."""
    with checked_site(tmp_path_factory) as site:
        made = NumberedSite(site)
        made.write(300)
        made.pay(3)
        site.make_verified()
        made.settle()
        yield made


def rows_of(document: dict[str, Any]) -> dict[Place, int]:
    """What the document says of each partition that lags: source offsets without a copy, at most."""
    return {(row["topic"], row["partition"]): row["records"] for row in document["lag"]["worst"]}


def tell(what: str, document: dict[str, Any], least: Missing, most: Missing) -> None:
    """Print the document's figures beside the truth before and after the check."""
    lag, if_now = document["lag"], document["if_now"]
    print(
        f"{what}: document {lag['records']:,} records, {lag['bytes']:,} bytes, {lag['seconds']} s,"
        f" certain {if_now['certain']:,}, possible {if_now['possible']:,};"
        f" truth {least.count():,} to {most.count():,} records, {least.size():,} to {most.size():,} bytes;"
        f" by partition {rows_of(document)}",
        flush=True,
    )


def test_stopped(numbered: NumberedSite) -> None:
    """Nothing moves, so each figure is the truth itself; where transactions left markers it is the truth at least."""
    numbered.settle()
    with numbered.site.stopped():
        numbered.write(600)
        time.sleep(2.0)
        began = time.time()
        document = numbered.site.check()
        ended, truth = time.time(), numbered.missing()
        tell("stopped", document, truth, truth)
        assert rows_of(document) == {at: truth.count(at) for at in truth.records if truth.count(at)}
        lag, if_now = document["lag"], document["if_now"]
        assert lag["records"] == if_now["possible"] == if_now["certain"] == truth.count() == 600
        assert lag["bytes"] == truth.size()
        assert began - truth.oldest() - 0.1 <= lag["seconds"] <= ended - truth.oldest() + 0.1
        numbered.pay(40)
        document, truth = numbered.site.check(), numbered.missing()
        tell("stopped, with transactions", document, truth, truth)
        # Each transaction is one record and one marker; who counts offsets says 80, who counts records 40.
        assert truth.count((PAID, 0)) == 40 and 40 <= rows_of(document)[PAID, 0] <= 80
        assert document["if_now"]["certain"] <= truth.count() <= document["if_now"]["possible"]
    numbered.settle()


def test_throttled(numbered: NumberedSite) -> None:
    """A quota lets MirrorMaker 2 copy some ten records a second: each check lies between the truth before and after."""
    numbered.settle()
    with producer_quota(numbered.site.lab, TARGET, MIRROR_MAKER, THROTTLED):
        numbered.write(5_000)
        for turn in range(4):
            before, began = numbered.missing(), time.time()
            document = numbered.site.check()
            ended, after = time.time(), numbered.missing()
            if not after.count():
                assert turn > 1, "MirrorMaker 2 was hardly throttled"
                break
            tell("throttled", document, after, before)
            rows = rows_of(document)
            for at in before.records:
                assert after.count(at) <= rows.get(at, 0) <= before.count(at), at
            lag, if_now = document["lag"], document["if_now"]
            assert after.count() <= if_now["possible"] == lag["records"] <= before.count()
            assert if_now["certain"] <= before.count()
            assert 0.8 * after.size() <= lag["bytes"] <= 1.2 * before.size()
            assert began - after.oldest() - 0.1 <= lag["seconds"] <= ended - before.oldest() + 0.1
            assert numbered.site.runs()
    numbered.settle()


def test_throttled_under_load(numbered: NumberedSite) -> None:
    """More is written than copied: no record that surely was missing is left out, and none is added."""
    numbered.settle()
    with producer_quota(numbered.site.lab, TARGET, MIRROR_MAKER, THROTTLED), numbered.under_load(RATE):
        time.sleep(5.0)
        for _ in range(3):
            source_before, target_before = numbered.on(SOURCE), numbered.on(TARGET)
            document = numbered.site.check()
            source_after, target_after = numbered.on(SOURCE), numbered.on(TARGET)
            least, most = (
                numbered.lacking(source_before, target_after),
                numbered.lacking(source_after, target_before),
            )
            tell("throttled under load", document, least, most)
            assert least.count() <= document["if_now"]["possible"] <= most.count()
            assert document["if_now"]["certain"] <= most.count()
    numbered.settle()


def test_running_without_reaching_its_source(numbered: NumberedSite) -> None:
    """The connector says RUNNING and copies nothing, because it may not read: the figures are the truth itself."""
    numbered.settle()
    site = numbered.site
    with site.entry(SOURCE, "mm2", "TOPIC", NUMBERED, "READ", "DENY"):
        until(lambda: not moves(numbered), "MirrorMaker 2 to read no more", 60.0)
        numbered.write(450)
        document, truth = site.check(), numbered.missing()
        tell("RUNNING, nothing read", document, truth, truth)
        assert site.runs() and document["state"] != "VERIFIED"
        assert document["lag"]["records"] == document["if_now"]["certain"] == truth.count()
        assert rows_of(document) == {at: truth.count(at) for at in truth.records if truth.count(at)}
        the_source_is_out_of_reach(numbered)
    numbered.settle()
    site.verified()


def moves(numbered: NumberedSite) -> bool:
    """Whether one more record of each partition reaches the target within some seconds."""
    numbered.write(PARTITIONS)
    time.sleep(3.0)
    return numbered.missing().count() == 0


def the_source_is_out_of_reach(numbered: NumberedSite) -> None:
    """Connect says RUNNING, the source answers nobody: certain is what its last sample proves, possible is unknown."""
    site = numbered.site
    truth, ages = numbered.missing(), []
    # A sample that has seen all of these records.
    until(
        lambda: ages.append(site.check()["ages"]["sample"]) or (len(ages) > 2 and ages[-1] < 5.0), "a sample", 60.0, 3.0
    )
    pid = site.lab.status()["clusters"][SOURCE]["pids"]["broker"]
    os.kill(pid, signal.SIGSTOP)
    try:
        document = site.check()
        runs = site.runs()
    finally:
        os.kill(pid, signal.SIGCONT)
    if_now = document["if_now"]
    print(f"source out of reach, connector RUNNING: {runs}; {document['state']}, {if_now}, truth {truth.count()}")
    assert runs, "the connector says that it does not run"
    assert document["state"] in ("UNKNOWN", "NOT_VERIFIED") and "cannot_read" in found(document)
    assert document["lag"] is None
    assert if_now["possible"] is None and "unknown" in if_now["unknown"]["possible"]
    assert 0 < if_now["certain"] <= truth.count() and if_now["at"]["certain"]
    assert if_now["certain"] == truth.count(), "the sample has seen every record"
