"""Stranded records are replayed once on a real broker: odd records, and readers who see only what counts."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, KafkaUnavailable, NotReady, Superseded
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.topics import READ_UNCOMMITTED
from kafka_dr.hooks.brokers.transactional_writer import Outgoing, RecordReplay

from tests.support.replay_process import (
    answer,
    failback,
    failed_over,
    found_stranded,
    many,
    opened,
    origins,
    process,
    replay,
    seen,
    stranded,
)


@pytest.fixture(scope="module")
def config(lab_status: dict[str, Any]) -> dict[str, Any]:
    """The primary as admin."""
    return lab_status["clusters"]["primary"]["client_properties"]["admin"]


@pytest.fixture(scope="module")
def primary(config: dict[str, Any]) -> KafkaCluster:
    """The new primary."""
    return KafkaCluster("primary", config)


@pytest.fixture
def topic(primary: KafkaCluster) -> Iterator[str]:
    """A topic that is not mirrored, with a few records of clients in each of four partitions."""
    name = f"__replay-{uuid.uuid4().hex[:8]}"
    primary.create_topic(name, 4, 1)
    yield name
    primary.delete_topic(name)


def written_by_clients(config: dict[str, Any], topic: str, keys: list[bytes], partition: int = 0) -> None:
    """Clients write on the new primary."""
    producer = Producer(config)
    for key in keys:
        producer.produce(topic, b"by a client", key, partition=partition)
    assert producer.flush(30) == 0


def test_what_was_exported_is_there_once_and_in_order(config: dict[str, Any], topic: str, tmp_path: Path) -> None:
    """Key, value, headers and timestamp as they were, behind what clients wrote; a second run writes nothing."""
    written_by_clients(config, topic, [b"a", b"b"])
    odd = [
        stranded(topic, 0, 7, None, b"no key"),
        stranded(topic, 0, 9, b"", None, [("h", None), ("h", b""), ("\u00fc", b"\xff")], timestamp=1),
        stranded(
            topic,
            0,
            10,
            b"k",
            b"",
            [("switchback.origin", b"elsewhere/t/0/3"), ("switchback.procedure", b"before")],
            timestamp=None,
        ),
    ]
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, odd)
    for _ in range(2):
        figures = replay(procedure)
        assert (figures["replayed"], figures["restamped"], figures["aborted"]) == (3, 1, 0)
    found = seen(config, topic)[2:]
    assert [(r.key, r.value, r.headers[:-2]) for r in found] == [(r.key, r.value, r.headers) for r in odd]
    assert [r.timestamp for r in found[:2]] == [odd[0].timestamp, 1]
    assert abs(found[2].timestamp / 1000 - time.time()) < 600
    result = next(r.headers[-2:] for r in found)
    assert result == (("switchback.origin", f"standby/{topic}/0/7".encode()), ("switchback.procedure", b"failback-r1"))


def test_keys_that_clients_wrote_since_are_not_undone(
    config: dict[str, Any], primary: KafkaCluster, tmp_path: Path
) -> None:
    """Keys that clients wrote since the failover count, mirrored ones do not; records without a key stay out."""
    name = f"__replay-{uuid.uuid4().hex[:8]}"
    primary.create_topic(name, 1, 1, {"cleanup.policy": "compact"})
    written_by_clients(config, name, [b"a", b"b"])
    procedure = failback(tmp_path, config)
    failed_over(procedure, {TopicPartition(name, 0): 2})
    written_by_clients(config, name, [b"b", b"c"])
    opened(procedure)
    found_stranded(
        procedure,
        [stranded(name, 0, n, key, b"v%d" % n) for n, key in enumerate([b"a", b"b", b"d", None, b"a"], 5)],
        compacted=[name],
    )
    figures = replay(procedure)
    assert [r.key for r in seen(config, name) if origins([r])] == [b"a", b"d", b"a"]
    found = {name: figures[name] for name in ("replayed", "overwritten", "keyless", "overtaken")}
    assert found == {"replayed": 3, "overwritten": 1, "keyless": 1, "overtaken": 0}
    primary.delete_topic(name)


def test_an_open_transaction_of_a_client_is_waited_for(
    config: dict[str, Any], primary: KafkaCluster, tmp_path: Path
) -> None:
    """Whether its key counts is known when it ends: it commits, and the stranded value is not written over it."""
    name = f"__replay-{uuid.uuid4().hex[:8]}"
    primary.create_topic(name, 1, 1, {"cleanup.policy": "compact"})
    procedure = failback(tmp_path, config)
    failed_over(procedure, {TopicPartition(name, 0): 0})
    client = Producer({**config, "transactional.id": name, "transaction.timeout.ms": 300_000})
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(name, b"newer", b"k", partition=0)
    client.flush(30)
    opened(procedure)
    found_stranded(procedure, [stranded(name, 0, 3, b"k", b"older")], compacted=[name])
    started = process(tmp_path, config)
    time.sleep(3)
    assert started.poll() is None
    client.commit_transaction(30)
    assert answer(started)["overwritten"] == 1 and origins(seen(config, name)) == []
    primary.delete_topic(name)


def test_records_of_transactions_that_nobody_committed_stay_out(
    config: dict[str, Any], topic: str, tmp_path: Path
) -> None:
    """They are counted apart."""
    procedure = opened(failback(tmp_path, config))
    found_stranded(
        procedure, many(topic, 40), uncommitted={TopicPartition(topic, 1): {103: "aborted", 115: "undecided"}}
    )
    figures = replay(procedure)
    assert (figures["replayed"], figures["uncommitted"]) == (38, 2)
    assert not {(1, 103), (1, 115)} & set(origins(seen(config, topic)))


def test_a_quarantine_is_a_topic_of_its_own(
    config: dict[str, Any], primary: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """Records too large for their topic have room there, with their marks; the topic itself gets none."""
    procedure = opened(failback(tmp_path, config, decision="quarantine"))
    records = [stranded(topic, 2, 5, b"k", os.urandom(3_000_000)), stranded(topic, 2, 6, b"k", b"small")]
    found_stranded(procedure, records)
    figures = replay(procedure)
    assert (figures["quarantined"], figures["replayed"]) == (2, 0)
    assert [r.value for r in seen(config, f"{topic}.stranded")] == [r.value for r in records]
    assert seen(config, topic) == []
    primary.delete_topic(f"{topic}.stranded")


def test_a_record_that_is_too_large_is_refused_and_takes_no_other_with_it(
    config: dict[str, Any], primary: KafkaCluster, tmp_path: Path
) -> None:
    """What was before it is there, nothing was aborted; once the topic takes it, the step goes on."""
    name = f"__replay-{uuid.uuid4().hex[:8]}"
    primary.create_topic(name, 1, 1, {"max.message.bytes": "50000"})
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, [stranded(name, 0, n, b"k", os.urandom(49_990 if n == 2 else 400)) for n in range(200)])
    with pytest.raises(NotReady, match="MSG_SIZE_TOO_LARGE"):
        replay(procedure)
    assert [offset for _, offset in origins(seen(config, name, READ_UNCOMMITTED))] == [0, 1]
    raise_limit(primary, name)
    assert replay(procedure)["replayed"] == 200 and replay(procedure)["aborted"] == 0
    primary.delete_topic(name)


def raise_limit(cluster: KafkaCluster, topic: str) -> None:
    """Let a topic take larger records."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("max.message.bytes", "60000", incremental_operation=AlterConfigOpType.SET)
    (future,) = cluster.admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])]
    ).values()
    future.result(30)


def test_the_largest_records_of_a_topic_go_through_where_they_can_be_compressed(
    config: dict[str, Any], topic: str, tmp_path: Path
) -> None:
    """Three records of a mebibyte each and 500 small ones between."""
    procedure = opened(failback(tmp_path, config))
    found_stranded(
        procedure, [stranded(topic, 3, n, b"k", b"x" * (2**20 if n % 200 == 0 else 100)) for n in range(500)]
    )
    assert replay(procedure)["replayed"] == 500


def test_a_topic_that_stamps_records_itself_is_told(
    config: dict[str, Any], primary: KafkaCluster, tmp_path: Path
) -> None:
    """Timestamps cannot be kept there."""
    name = f"__replay-{uuid.uuid4().hex[:8]}"
    primary.create_topic(name, 4, 1, {"message.timestamp.type": "LogAppendTime"})
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, many(name, 40))
    assert replay(procedure)["restamped"] == 40
    primary.delete_topic(name)


def test_topics_that_are_gone_are_refused_before_anything_is_written(
    config: dict[str, Any], topic: str, tmp_path: Path
) -> None:
    """A deleted topic, and a partition that is not there."""
    procedure = opened(failback(tmp_path, config))
    found_stranded(
        procedure,
        [
            stranded("deleted-meanwhile", 0, 1, b"k", b"v"),
            stranded(topic, 0, 1, b"k", b"v"),
            stranded(topic, 7, 1, b"k", b"v"),
        ],
    )
    with pytest.raises(NotReady, match=f"{topic}-7, deleted-meanwhile-0|deleted-meanwhile-0, {topic}-7"):
        replay(procedure)
    assert seen(config, topic, READ_UNCOMMITTED) == []


def test_a_record_that_somebody_doubles_is_found(config: dict[str, Any], topic: str, tmp_path: Path) -> None:
    """The proof reads what is there: a copy with the same marks contradicts it."""
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, many(topic, 8))
    replay(procedure)
    twice = seen(config, topic)[0]
    producer = Producer(config)
    producer.produce(
        topic, twice.value, twice.key, partition=twice.partition, headers=list(twice.headers), timestamp=twice.timestamp
    )
    assert producer.flush(30) == 0
    with pytest.raises(Contradiction, match="twice"):
        replay(procedure)


def test_a_transaction_is_all_or_nothing_and_its_writer_one(config: dict[str, Any], topic: str) -> None:
    """What is no longer allowed is aborted; a fenced writer can do nothing, a newer one sees its end."""
    older, newer = (RecordReplay(config, "primary", f"id-{topic}") for _ in range(2))
    older.fence()
    older.write([Outgoing(topic, 0, b"k", b"1"), Outgoing(topic, 1, b"k", b"1")])

    def taken_over() -> None:
        newer.fence()

    with pytest.raises(Superseded, match="another process"):
        older.write([Outgoing(topic, 0, b"k", b"2")], taken_over)
    with pytest.raises(KafkaUnavailable):
        newer.write([Outgoing(topic, 0, b"k", b"3")], refuse)
    newer.write([Outgoing(topic, 0, b"k", b"4")])
    assert [r.value for r in seen(config, topic) if r.partition == 0] == [b"1", b"4"]


def refuse() -> None:
    """Something went wrong before the commit."""
    raise KafkaUnavailable("not allowed any more")
