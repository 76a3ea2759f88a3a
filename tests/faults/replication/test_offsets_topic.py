"""Offsets that are written into the offsets topic are those at which a real MirrorMaker 2 goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.offset_records import ConnectorRecords, OffsetRecord, offset_key
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter
from kafka_dr.hooks.brokers.topics import READ_COMMITTED
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.connect.offsets_topic import OffsetsTopic
from kafka_dr.hooks.site.stop import StopHook

from lab.environment.brokers import admin_client
from lab.environment.dedicated_mirror_maker import GROUP
from lab.environment.state import Lab
from tests.faults.support.scene import until
from tests.faults.support.stop_server import DeletingServer, StopServer
from tests.support.rehearsals import kept_if_it_fails

SOURCE, TARGET = "primary", "standby"
RECORDS = 20
ORDERS, LATE = "orders", "seen.by-nobody"
SECONDS = 90.0


@dataclass
class Site:
    """One flow without a REST API for offsets, on a real lab."""

    lab: Lab
    flow: DedicatedMirrorMaker
    connector: str
    offsets_topic: str
    remote: str

    def settings(self, alias: str) -> dict[str, Any]:
        """Return the settings of an administrator's client."""
        return dict(self.lab.status()["clusters"][alias]["client_properties"]["admin"])

    def fill(self, topic: str, partitions: int) -> None:
        """Create a topic of the source with records 0 to 19 in each partition."""
        admin = admin_client(self.lab, SOURCE)
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        producer = Producer(self.settings(SOURCE))
        for partition in range(partitions):
            for number in range(RECORDS):
                producer.produce(topic, str(number).encode(), partition=partition)
        assert producer.flush(30) == 0

    def copied(self, topic: str, partition: int) -> list[int]:
        """Return the numbers of the records that the target holds of a source partition, in order."""
        place = TopicPartition(self.remote.format(topic), partition)
        if not KafkaCluster(TARGET, self.settings(TARGET)).topics([place.topic]):
            return []
        reader = RecordReader(self.settings(TARGET), TARGET)
        span = reader.spans([place])[place]
        return [int(record.value or b"") for record in reader.range(place, span.start, span.end)]

    def records(self) -> list[OffsetRecord]:
        """Return what the offsets topic holds."""
        reader = RecordReader(self.settings(TARGET), TARGET, READ_COMMITTED)
        return list(reader.read_all(self.offsets_topic, take=lambda m: OffsetRecord(m.partition(), m.key(), m.value())))


@pytest.fixture(params=["connect-2.8.2", "dedicated-identity", "dedicated-default"])
def site(request: pytest.FixtureRequest, fresh_lab: Callable[..., Path], tmp_path: Path) -> Iterator[Site]:
    """The flow primary->standby with its hook; topic `orders` is mirrored, and offsets are flushed."""
    old = request.param == "connect-2.8.2"
    policy = request.param.partition("-")[2] if not old else "default"
    choices: dict[str, Any] = {"connect": {TARGET: "2.8.2"}} if old else {"dedicated": True}
    lab = Lab(fresh_lab(policy, airflow=False, **choices))
    with kept_if_it_fails(lab.root, tmp_path), DeletingServer(lab) if old else StopServer(lab, starts=True) as hook:
        names = tuple(hook.names) if isinstance(hook, DeletingServer) else ("MirrorSourceConnector", "MirrorCheckpoint")
        topic = "__connect_standby_offsets" if old else f"mm2-offsets.{SOURCE}.internal"
        made = Site(lab, None, names[0], topic, f"{SOURCE}.{{}}" if policy == "default" else "{}")  # type: ignore[arg-type]
        settings = made.settings(TARGET)
        cluster = KafkaCluster(TARGET, settings)
        stored = OffsetsTopic(
            topic,
            cluster,
            lambda: RecordReader(settings, TARGET, READ_COMMITTED),
            lambda: RecordWriter(settings, TARGET),
        )
        # A worker whose connectors were deleted lives on: its group proves nothing.
        members = None if old else lambda: cluster.count_members(GROUP)
        made.flow = DedicatedMirrorMaker(SOURCE, TARGET, names, {}, StopHook(lab.stop_hook_url), stored, members)
        made.fill(ORDERS, 4)
        until(lambda: all(len(made.copied(ORDERS, p)) == RECORDS for p in range(4)), "records copied", SECONDS)
        until(lambda: last_of(made) == dict.fromkeys(range(4), RECORDS - 1), "offsets flushed", SECONDS)
        yield made


def last_of(site: Site) -> dict[int, int | None]:
    """Return the stored offset of each partition of `orders`."""
    stored = site.flow.offsets(site.connector).of(SOURCE)
    return {tp.partition: last for tp, last in stored.items() if tp.topic == ORDERS}


def test_a_real_flow_goes_on_exactly_where_it_was_set(site: Site) -> None:
    """Known keys, a key that the worker never wrote, a deleted offset, and one that is left alone.

    An entry that somebody wrote by hand with a space in its key is not what the worker reads.
    """
    flow, name = site.flow, site.connector
    with pytest.raises(NotReady, match="while no process of it runs"):
        flow.change_offsets(name, SOURCE, {TopicPartition(ORDERS, 0): 4})
    flow.stop(name, deadline=60)
    site.fill(LATE, 2)
    by_hand = offset_key(name, SOURCE, TopicPartition(ORDERS, 3)).replace(b",{", b", {")
    RecordWriter(site.settings(TARGET), TARGET).write(site.offsets_topic, 0, b'{"offset":2}', by_hand)
    wanted: dict[TopicPartition, int | None] = {
        TopicPartition(ORDERS, 0): 4,
        TopicPartition(ORDERS, 1): None,
        TopicPartition(LATE, 0): 6,
        TopicPartition(LATE, 1): RECORDS - 1,
    }
    began = time.monotonic()
    after = flow.change_offsets(name, SOURCE, wanted).of(SOURCE)
    print(f"offsets set and read back after {time.monotonic() - began:.1f} s", flush=True)
    assert {tp: after.get(tp) for tp in wanted} == wanted
    written = len(site.records())
    flow.change_offsets(name, SOURCE, wanted)
    assert len(site.records()) == written, "a second call wrote again"

    flow.resume(name, deadline=60)
    whole = list(range(RECORDS))
    expected = {
        (ORDERS, 0): [*whole, *whole[5:]],
        (ORDERS, 1): [*whole, *whole],
        (ORDERS, 2): whole,
        (ORDERS, 3): whole,
        (LATE, 0): whole[7:],
        (LATE, 1): [],
    }
    until(
        lambda: all(len(site.copied(*place)) >= len(records) for place, records in expected.items()), "copies", SECONDS
    )
    site.fill("another", 1)
    until(lambda: len(site.copied("another", 0)) == RECORDS, "the flow to be at work", SECONDS)
    assert {place: site.copied(*place) for place in expected} == expected
    assert_keys_are_the_workers(site)


def assert_keys_are_the_workers(site: Site) -> None:
    """The worker stores its next offsets under the very keys, and in the very partitions, that were written for it."""

    def stored() -> ConnectorRecords:
        topic = KafkaCluster(TARGET, site.settings(TARGET)).topics([site.offsets_topic])[site.offsets_topic]
        return ConnectorRecords.read(site.connector, len(topic.partitions), site.records())

    until(lambda: last_of(site) == dict.fromkeys(range(4), RECORDS - 1), "offsets flushed again", SECONDS)
    places = stored().by_alias[SOURCE]
    assert len(stored().foreign) == 1 and all(len(copies) == 1 for copies in places.values())
    assert stored().offsets()[SOURCE][TopicPartition(LATE, 0)] == RECORDS - 1
