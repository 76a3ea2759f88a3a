"""A topic on a lab's primary, mirrored to the standby: records, groups, and what both logs hold, by content."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec
from kafka_dr.domain.mirror_maker.mirror_records import decode_checkpoint

from lab.environment.connect import call_worker, connector_name
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.support.lab_clients import client, mirrored

SOURCE, TARGET = "primary", "standby"
SECONDS = 60.0
RESET = "source.consumer.auto.offset.reset"
Place = tuple[str, int]


class Content(NamedTuple):
    """One record without its offset: timestamp, key, value, headers."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Site:
    """Topics of a lab: created and written on the primary, read on both clusters by an administrator."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._admins: dict[str, AdminClient] = {}

    def admin(self, alias: str) -> AdminClient:
        """Return an administrator's client, kept as long as this object."""
        if alias not in self._admins:
            self._admins[alias] = AdminClient(client(self.lab, alias, "admin"))
        return self._admins[alias]

    def remote(self, topic: str) -> str:
        """Return the topic's name on the standby."""
        return mirrored(self.lab, topic)

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic on the primary."""
        new = NewTopic(topic, partitions, -1, config=settings)
        self.admin(SOURCE).create_topics([new])[topic].result(SECONDS)

    def write(
        self, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None, Any]], **settings: Any
    ) -> None:
        """Write records (partition, key, value, headers) on the primary; with a transactional.id one transaction."""
        producer = Producer({**client(self.lab, SOURCE, "admin"), **settings})
        transactional = "transactional.id" in settings
        if transactional:
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
        for partition, key, value, headers in records:
            producer.produce(topic, value, key, partition, headers=headers)
            producer.poll(0)
        if transactional:
            producer.commit_transaction(SECONDS)
        assert producer.flush(SECONDS) == 0

    def numbered(self, topic: str, partitions: int, first: int, count: int, **settings: Any) -> None:
        """Write records whose values are numbers from `first` on, round robin."""
        numbers = range(first, first + count)
        rows = ((n % partitions, b"k%d" % n, b"v%d" % n, [("n", b"%d" % n)]) for n in numbers)
        self.write(topic, rows, **settings)

    def contents(self, alias: str, topic: str, begins: dict[int, int] | None = None) -> dict[int, list[Content]]:
        """Return all records of a topic by partition, in order, from these offsets on."""
        return {p: [content for _, content in rows] for p, rows in self.records(alias, topic, begins).items()}

    def records(
        self, alias: str, topic: str, begins: dict[int, int] | None = None
    ) -> dict[int, list[tuple[int, Content]]]:
        """Return all records of a topic by partition, each with its offset."""
        consumer = Consumer(
            {
                **client(self.lab, alias, "admin"),
                "group.id": "checks",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "earliest",
            }
        )
        starts, found = self.starts(alias, topic), {}
        consumer.assign([TopicPartition(topic, p, max(start, (begins or {}).get(p, 0))) for p, start in starts.items()])
        found, left = {p: [] for p in starts}, set(starts)
        while left:
            message = consumer.poll(SECONDS)
            assert message is not None, f"{topic} on {alias} could not be read"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
                continue
            content = Content(message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ()))
            found[message.partition()].append((message.offset(), content))
        consumer.close()
        return found

    def partitions(self, alias: str, topic: str) -> list[int]:
        """Return the topic's partitions; [] without the topic."""
        listed = self.admin(alias).list_topics(timeout=SECONDS).topics.get(topic)
        return sorted(listed.partitions) if listed is not None and listed.error is None else []

    def starts(self, alias: str, topic: str) -> dict[int, int]:
        """Return the log starts by partition."""
        return self._offsets(alias, topic, OffsetSpec.earliest())

    def ends(self, alias: str, topic: str) -> dict[int, int]:
        """Return the log ends by partition."""
        return self._offsets(alias, topic, OffsetSpec.latest())

    def _offsets(self, alias: str, topic: str, spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, p): spec for p in self.partitions(alias, topic)}
        futures = self.admin(alias).list_offsets(wanted) if wanted else {}
        return {tp.partition: future.result(SECONDS).offset for tp, future in futures.items()}

    def await_copied(self, topic: str, seconds: float = SECONDS) -> None:
        """Wait until the standby holds as many records of the topic as the primary."""

        def copied() -> bool:
            here, there = self.contents(SOURCE, topic), self.contents(TARGET, self.remote(topic))
            return {p: len(r) for p, r in here.items()} == {p: len(r) for p, r in there.items()}

        wait_until(lambda: bool(self.partitions(TARGET, self.remote(topic))) and copied(), f"{topic} mirrored", seconds)

    def delete_records(self, alias: str, topic: str, before: int) -> None:
        """Delete the records of each partition below an offset."""
        wanted = [TopicPartition(topic, p, before) for p in self.partitions(alias, topic)]
        for future in self.admin(alias).delete_records(wanted).values():
            future.result(SECONDS)

    def commit(self, alias: str, group: str, positions: dict[Place, int]) -> None:
        """Commit positions of a group without members."""
        wanted = [TopicPartition(*place, offset) for place, offset in positions.items()]
        futures = self.admin(alias).alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
        answers = futures[group].result(SECONDS).topic_partitions
        assert not [tp for tp in answers if tp.error is not None], answers

    def positions(self, alias: str, group: str) -> dict[Place, int]:
        """Return a group's positions."""
        futures = self.admin(alias).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        rows = futures[group].result(SECONDS).topic_partitions
        return {(tp.topic, tp.partition): tp.offset for tp in rows if tp.offset >= 0}

    def settings(self, alias: str, topic: str) -> dict[str, str]:
        """Return the settings on the topic itself."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self.admin(alias).describe_configs([resource])[resource].result(SECONDS)
        return {name: entry.value for name, entry in entries.items() if entry.source == 1}

    def connect(self, method: str, path: str, body: dict[str, Any] | None = None, kind: str = "source") -> Any:
        """Send a request about a connector of the flow to the standby; return the answer's JSON."""
        name = connector_name(SOURCE, TARGET, kind)
        answer = call_worker(self.lab, TARGET, method, f"/connectors/{name}{path}", body)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def offsets(self) -> dict[Place, int]:
        """Return what Connect stores for the source connector: (topic, partition) -> last copied offset."""
        rows = self.connect("GET", "/offsets")["offsets"]
        return {
            (row["partition"]["topic"], row["partition"]["partition"]): row["offset"]["offset"]
            for row in rows
            if row["offset"] is not None
        }

    def checkpoint(self, group: str, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the positions of the newest checkpoint of a group on source and target; None without one."""
        key = (group, self.remote(topic), partition)
        rows = self.records(TARGET, f"{SOURCE}.checkpoints.internal")[0]
        found = [decode_checkpoint(content.key, content.value) for _, content in rows]
        own = [one for one in found if (one.group, one.topic, one.partition) == key]
        return (own[-1].upstream, own[-1].downstream) if own else None

    def stop(self) -> None:
        """Stop the source connector, and wait until it is STOPPED without tasks."""
        self.connect("PUT", "/stop")
        wait_until(lambda: self._state() == ("STOPPED", 0), "the source connector to stop", SECONDS)

    def resume(self) -> None:
        """Resume the source connector, and wait until it runs."""
        self.connect("PUT", "/resume")
        wait_until(
            lambda: self._state()[0] == "RUNNING" and self._state()[1] > 0, "the source connector to run", SECONDS
        )

    @contextmanager
    def beginning_at_the_end(self) -> Iterator[str]:
        """Have the connector begin partitions without an offset at their end; yield a topic of which none is copied."""
        aged = f"ho.aged-{uuid.uuid4().hex[:6]}"
        self.stop()
        self.create(aged)
        self.numbered(aged, 1, 0, 20)
        self.set_reset("latest")
        self.resume()
        try:
            yield aged
        finally:
            self.stop()
            self.set_reset(None)
            self.resume()

    def set_reset(self, value: str | None) -> None:
        """Set, or remove, `auto.offset.reset` of the stopped connector's own consumer."""
        config = {**self.connect("GET", "/config"), RESET: value}
        self.connect("PUT", "/config", {key: one for key, one in config.items() if one is not None})

    def _state(self) -> tuple[str, int]:
        status = self.connect("GET", "/status")
        return status["connector"]["state"], len(status["tasks"])

    def settled_offsets(self, topic: str, seconds: float = SECONDS) -> dict[Place, int]:
        """Wait until Connect has stored the offset of the topic's last records; return all stored offsets."""
        last = {p: rows[-1][0] for p, rows in self.records(SOURCE, topic).items() if rows}

        def stored() -> dict[Place, int] | None:
            offsets = self.offsets()
            return offsets if all(offsets.get((topic, p)) == offset for p, offset in last.items()) else None

        ends_at = time.monotonic() + seconds
        while (offsets := stored()) is None:
            assert time.monotonic() < ends_at, f"{self.offsets()} does not state {last}"
            time.sleep(0.5)
        return offsets
