"""Topics of a lab whose copies are written anew with differences of each kind, and what a comparison must list."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.environment.connect import call_worker, connector_name
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.support.lab_clients import client, mirrored

SOURCE, TARGET, SECONDS = "primary", "standby", 120.0
Place = tuple[str, int]


@dataclass(frozen=True)
class Record:
    """One record as a client sees it; offset -1: it was not read."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0
    offset: int = -1


@dataclass
class Planted:
    """The differences of one partition: source offsets, and target offsets."""

    missing: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    altered: list[tuple[int, int]] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)

    def rows(self) -> set[tuple[str, int | None, int | None]]:
        """Return them as kind, source offset, target offset."""
        return {
            *(("missing", offset, None) for offset in self.missing),
            *(("extra", None, offset) for offset in self.extra),
            *(("altered", *pair) for pair in self.altered),
            *(("repeated", None, offset) for offset in self.repeated),
        }


def with_differences(
    records: Sequence[Record], rng: random.Random, each: int, among: int
) -> tuple[list[Record], Planted]:
    """Return copies of records with so many differences of each kind, between equal records among the first ones.

    A repeat is of one record, or of a block that ends where the repeat begins, as after a crash of MirrorMaker 2.
    """
    kinds = [kind for kind in ("missing", "extra", "altered", "repeated") for _ in range(each)]
    rng.shuffle(kinds)
    # Two differences never touch, or they would be one.
    places = sorted(rng.sample(range(5, min(among, len(records)) // 10 - 1), len(kinds)))
    at = {10 * place + rng.randrange(5): kind for place, kind in zip(places, kinds, strict=True)}
    copies: list[Record] = []
    planted = Planted()
    for row, record in enumerate(records):
        kind = at.get(row)
        if kind == "missing":
            planted.missing.append(record.offset)
        elif kind == "altered":
            planted.altered.append((record.offset, len(copies)))
            copies.append(changed(record, rng))
        else:
            if kind == "extra":
                planted.extra.append(len(copies))
                copies.append(Record(b"foreign", b"foreign-%d" % row, (), record.timestamp))
            elif kind == "repeated":
                block = copies[-rng.randrange(1, 4) :]
                planted.repeated += range(len(copies), len(copies) + len(block))
                copies += block
            copies.append(record)
    return copies, planted


def changed(record: Record, rng: random.Random) -> Record:
    """Return a record with another value, other headers, another key or another time."""
    return rng.choice(
        [
            Record(record.key, (record.value or b"") + b"!", record.headers, record.timestamp),
            Record(record.key, record.value, (*record.headers, ("added", None)), record.timestamp),
            Record(b"other", record.value, record.headers, record.timestamp),
            Record(record.key, record.value, record.headers, record.timestamp + 1),
        ]
    )


class Copies:
    """The copies of a lab's topics on the standby, and the flow that writes them."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self._connector = lab, connector_name(SOURCE, TARGET, "source")
        self._admins = {alias: AdminClient(client(lab, alias, "admin")) for alias in (SOURCE, TARGET)}

    def create(self, topic: str, partitions: int = 1, **settings: str) -> str:
        """Create a topic on the primary; return its name."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        self._admins[SOURCE].create_topics([NewTopic(topic, partitions, -1, config=config)])[topic].result(SECONDS)
        return topic

    def producer(self, **settings: Any) -> Producer:
        """Return a producer on the primary."""
        return Producer({**client(self.lab, SOURCE, "admin"), "linger.ms": 5, **settings})

    def write(self, topic: str, records: Sequence[Record], partition: int = 0, alias: str = SOURCE) -> None:
        """Write records, and wait until all are acknowledged."""
        producer = Producer({**client(self.lab, alias, "admin"), "linger.ms": 5, "acks": "all"})
        produce(producer, topic, records, partition)
        assert producer.flush(SECONDS) == 0

    def await_replicated(self, *topics: str) -> None:
        """Wait until Connect states that every record which these topics hold now is on the standby."""
        ends = {
            (topic, p): last.offset
            for topic in topics
            for p in self._partitions(SOURCE, topic)
            if (last := self.last_record(topic, p)) is not None
        }
        began = time.monotonic()

        def replicated() -> bool:
            stored = self.stored_offsets()
            return all(stored.get(place, -1) >= last for place, last in ends.items())

        wait_until(replicated, f"all records of {', '.join(topics)} on the standby", SECONDS)
        print(f"{len(ends)} partitions were replicated after {time.monotonic() - began:.1f} s", flush=True)

    def stored_offsets(self) -> dict[Place, int]:
        """Return the last replicated offsets that Connect stores."""
        answer = call_worker(self.lab, TARGET, "GET", f"/connectors/{self._connector}/offsets").json()["offsets"]
        return {
            (entry["partition"]["topic"], int(entry["partition"]["partition"])): int(entry["offset"]["offset"])
            for entry in answer
            if entry.get("offset")
        }

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the flow's source connector for the block."""
        self._reach("stop", "STOPPED")
        yield
        self._reach("resume", "RUNNING")

    def _reach(self, verb: str, state: str) -> None:
        def reached() -> bool:
            answer = call_worker(self.lab, TARGET, "GET", f"/connectors/{self._connector}/status").json()
            tasks = [task["state"] for task in answer["tasks"]]
            return answer["connector"]["state"] == state and (
                tasks == [] if state == "STOPPED" else {*tasks} == {state}
            )

        call_worker(self.lab, TARGET, "PUT", f"/connectors/{self._connector}/{verb}").raise_for_status()
        wait_until(reached, f"{self._connector} to be {state}", SECONDS)

    def replace(self, topic: str, edit: Callable[[list[Record]], tuple[list[Record], Planted]]) -> dict[Place, Planted]:
        """Write a topic's copies anew, as a function of what was replicated; return what it planted.

        The flow must be stopped.
        """
        remote, stored = mirrored(self.lab, topic), self.stored_offsets()
        partitions = self._partitions(SOURCE, topic)
        logs = {p: self.read(SOURCE, topic, p, stored.get((topic, p), -1) + 1) for p in partitions}
        settings = {
            entry.name: entry.value
            for entry in next(iter(self._admins[TARGET].describe_configs([_resource(remote)]).values()))
            .result(SECONDS)
            .values()
            if entry.name in ("cleanup.policy", "message.timestamp.type", "retention.ms")
        }
        self._admins[TARGET].delete_topics([remote])[remote].result(SECONDS)
        wait_until(lambda: remote not in self._admins[TARGET].list_topics(timeout=10).topics, "deletion", SECONDS)
        made = self._admins[TARGET].create_topics([NewTopic(remote, len(partitions), -1, config=settings)])
        made[remote].result(SECONDS)
        planted = {}
        for p, records in logs.items():
            copies, planted[topic, p] = edit(records)
            self.write(remote, copies, p, TARGET)
        return planted

    def delete_below(self, alias: str, topic: str, partition: int, offset: int) -> None:
        """Delete a partition's records below an offset, as retention does."""
        (deleted,) = self._admins[alias].delete_records([TopicPartition(topic, partition, offset)]).values()
        deleted.result(SECONDS)

    def read(self, alias: str, topic: str, partition: int, end: int) -> list[Record]:
        """Return a partition's records below an offset, those of aborted transactions, too."""
        consumer = self._consumer(alias)
        consumer.assign([TopicPartition(topic, partition, 0)])
        records: list[Record] = []
        try:
            while True:
                for message in consumer.consume(1_000, 1.0):
                    if message.error() is None and (message.offset() or 0) < end:
                        records.append(_record(message))
                    elif message.error() is None or message.error().code() == KafkaError._PARTITION_EOF:
                        return records
        finally:
            consumer.close()

    def last_record(self, topic: str, partition: int) -> Record | None:
        """Return the last record of a partition of the primary; None if it has none."""
        records = self.read(SOURCE, topic, partition, 2**62)
        return records[-1] if records else None

    def _partitions(self, alias: str, topic: str) -> list[int]:
        return sorted(self._admins[alias].list_topics(topic, timeout=10).topics[topic].partitions)

    def _consumer(self, alias: str) -> Consumer:
        reading = {"group.id": "planted", "auto.offset.reset": "earliest", "enable.partition.eof": True}
        own = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
        return Consumer({**client(self.lab, alias, "admin"), **reading, **own})


def produce(producer: Producer, topic: str, records: Sequence[Record], partition: int = 0) -> None:
    """Hand records to a producer."""
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            headers=list(record.headers) or None,
            timestamp=record.timestamp,
        )
        producer.poll(0)


@contextmanager
def written_meanwhile(copies: Copies, topics: Sequence[Place], rate: int = 500) -> Iterator[None]:
    """Write records to these partitions of the primary for as long as the block runs, so many a second."""
    over, producer, count = threading.Event(), copies.producer(), 0

    def write() -> None:
        nonlocal count
        while not over.wait(len(topics) / rate):
            for topic, partition in topics:
                produce(producer, topic, [Record(b"live", b"live-%d" % count, (), int(time.time() * 1000))], partition)
                count += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
        assert producer.flush(SECONDS) == 0 and count > 0


def _record(message: Message) -> Record:
    headers = tuple((name, content) for name, content in message.headers() or ())
    return Record(message.key(), message.value(), headers, message.timestamp()[1], message.offset())


def _resource(topic: str) -> Any:
    from confluent_kafka.admin import ConfigResource, ResourceType

    return ConfigResource(ResourceType.TOPIC, topic)
