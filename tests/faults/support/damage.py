"""Damage the records of a lost source: the flight recorder's archive, offset syncs, mirrored topics."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kafka_dr.domain.mirror_maker.mirror_records import Malformed, decode_offset_sync

from lab.environment.brokers import admin_client
from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET
from tests.faults.support.scene import until

SYNCS_TOPIC = f"mm2-offset-syncs.{SOURCE}.internal"
_SECONDS = 60.0
Raw = tuple[bytes | None, bytes | None]


def log_end(client: AdminClient, topic: str) -> int | None:
    """Return the log end of a topic's first partition; None if it has no leader, as when just created."""
    place = TopicPartition(topic, 0)
    try:
        return client.list_offsets({place: OffsetSpec.latest()})[place].result(_SECONDS).offset
    except KafkaException:
        return None


class ArchiveDamage:
    """The archive of a lab without a recorder, copied aside so that it can be damaged and restored.

    From here on the topology names no key of the recorder: samples count unsigned, so that what accidents do to them is
    seen. Of signed samples nothing that was changed counts.
    """

    def __init__(self, lab: Lab, aside: Path) -> None:
        self._archive, self._aside = lab.archive, aside
        shutil.copytree(lab.archive, aside)
        topology = yaml.safe_load(lab.topology.read_text())
        del topology["recorder"]["public_keys"]
        lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))

    def bring_back(self) -> None:
        """Restore the archive as the recorder wrote it."""
        self.remove()
        shutil.copytree(self._aside, self._archive)

    def remove(self) -> None:
        """Delete the whole archive."""
        shutil.rmtree(self._archive, ignore_errors=True)

    def keep_rows(self, kept: Callable[[dict[str, object]], bool]) -> int:
        """Delete all but some rows of the archive; return how many were deleted."""
        gone = 0
        for path in sorted(self._archive.rglob("*.parquet")):
            table = pq.read_table(path, partitioning=None)
            mask = [kept(row) for row in table.to_pylist()]
            gone += mask.count(False)
            if any(mask):
                pq.write_table(table.filter(pa.array(mask)), path)
            else:
                path.unlink()
        return gone


class SyncsDamage:
    """MirrorMaker 2's offset syncs on the target, while no process writes any."""

    def __init__(self, lab: Lab) -> None:
        self._properties = {**lab.client_properties(TARGET, "admin"), "log_level": 0}
        self._admin = admin_client(lab, TARGET)
        self.records = self._read()

    def _read(self) -> list[Raw]:
        """Return all offset syncs, in order."""
        own = {"group.id": "damage", "enable.auto.commit": False, "enable.partition.eof": True}
        own |= {"isolation.level": "read_uncommitted", "auto.offset.reset": "earliest"}
        consumer = Consumer({**self._properties, **own})
        consumer.assign([TopicPartition(SYNCS_TOPIC, 0, OFFSET_BEGINNING)])
        found, ends_at = list[Raw](), time.monotonic() + _SECONDS
        try:
            while time.monotonic() < ends_at:
                for message in consumer.consume(10_000, 1.0):
                    if message.error() is None:
                        found.append((message.key(), message.value()))
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        return found
        finally:
            consumer.close()
        raise TimeoutError(f"{SYNCS_TOPIC} was not read to its end within {_SECONDS:.0f} s")

    def write_anew(self, records: Iterable[Raw]) -> None:
        """Recreate the topic with the given records."""
        self._admin.delete_topics([SYNCS_TOPIC])[SYNCS_TOPIC].result(_SECONDS)
        until(
            lambda: SYNCS_TOPIC not in self._admin.list_topics(timeout=_SECONDS).topics, f"{SYNCS_TOPIC} gone", _SECONDS
        )
        self._admin.create_topics([NewTopic(SYNCS_TOPIC, 1, 1, config={"cleanup.policy": "compact"})])[
            SYNCS_TOPIC
        ].result(_SECONDS)
        self.append(records)

    def append(self, records: Iterable[Raw]) -> None:
        """Append records to the topic."""
        producer = Producer(
            {**self._properties, "acks": "all", "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
        )
        before, sent = self._end(), 0
        for key, value in records:
            producer.produce(SYNCS_TOPIC, value, key, 0)
            producer.poll(0)
            sent += 1
        producer.flush(_SECONDS)
        assert self._end() == before + sent, "not all records were written"

    def _end(self) -> int:
        (end,) = until(
            lambda: [end for end in [log_end(self._admin, SYNCS_TOPIC)] if end is not None],
            f"the end of {SYNCS_TOPIC}",
            _SECONDS,
        )
        return end


class Topics:
    """Topics of the target that are deleted and created again."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._admin = lab, admin_client(lab, TARGET)

    def made_again_by_mirror_maker(self, name: str) -> None:
        """Delete a mirrored topic under load, and wait until MirrorMaker 2 has recreated and filled it."""
        before = self._delete(name)
        source = connector_name(SOURCE, TARGET, "source")

        def flows() -> bool:
            call_worker(self._lab, TARGET, "POST", f"/connectors/{source}/restart?includeTasks=true&onlyFailed=true")
            return self._id(name) not in (None, before) and bool(log_end(self._admin, name))

        until(flows, f"{name} made again and mirrored", _SECONDS, 2.0)

    def made_again_empty(self, name: str, partitions: int) -> None:
        """Delete a topic and create it again, as an administrator does."""
        before = self._delete(name)
        until(lambda: self._id(name) != before, f"{name} gone", _SECONDS)
        if self._id(name) is None:
            self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_SECONDS)

    def _delete(self, name: str) -> str | None:
        before = self._id(name)
        self._admin.delete_topics([name])[name].result(_SECONDS)
        return before

    def _id(self, name: str) -> str | None:
        try:
            return str(self._admin.describe_topics(TopicCollection([name]))[name].result(_SECONDS).topic_id)
        except KafkaException:
            return None


def compacted(records: Iterable[Raw]) -> list[Raw]:
    """Return what a log cleaner leaves: the newest record of each key."""
    newest: dict[bytes | None, Raw] = {}
    for record in records:
        newest.pop(record[0], None)
        newest[record[0]] = record
    return list(newest.values())


def poisoned(records: list[Raw], count: int) -> list[Raw]:
    """Return so many records that cannot be read as offset syncs: cut off, foreign, without value, sign bit set."""
    spoil = (
        lambda key, value: (key, value[:-1]),
        lambda key, value: (b"{}", json.dumps({"foreign": True}).encode()),
        lambda key, value: (key, None),
        lambda key, value: (key, bytes([value[0] | 0x80]) + value[1:]),
        lambda key, value: (key[:-3], value),
    )
    chosen = random.Random(count).sample(records, count)
    made = [spoil[number % len(spoil)](*record) for number, record in enumerate(chosen)]
    assert not any(map(_readable, made))
    return made


def flipped(records: list[Raw], count: int, lowest_bit: int = 0) -> list[Raw]:
    """Return so many syncs with one bit flipped in an offset, from ``lowest_bit`` up; all can still be read."""
    rng, made = random.Random(count), list[Raw]()
    for key, value in rng.sample(records, count):
        bit = 64 * rng.randrange(2) + rng.randrange(lowest_bit, 63)
        made.append((key, (int.from_bytes(value) ^ (1 << bit)).to_bytes(len(value))))
    assert all(map(_readable, made))
    return made


def dropped(records: list[Raw], share: float = 0.3) -> list[Raw]:
    """Return the syncs without a share of them, chosen by a fixed random seed."""
    rng = random.Random(7)
    return [record for record in records if rng.random() >= share]


def _readable(record: Raw) -> bool:
    try:
        decode_offset_sync(*record)
    except Malformed:
        return False
    return True
