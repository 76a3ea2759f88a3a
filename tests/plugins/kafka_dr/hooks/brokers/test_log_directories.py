"""Sizes of logs, from the log directories of every broker."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers import broker_requests, log_directories
from kafka_dr.hooks.brokers.log_directories import LogDirectories

from tests.support.brokers.answering_brokers import AnsweringBrokers, sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaConnectionError
    from kafka.protocol.admin import DescribeLogDirsResponse

STORAGE_ERROR, REFUSED = 56, 31
Replica = tuple[str, int, int, bool]


def folders(*replicas: Replica, version: int = 4, **errors: int) -> Any:
    """What a broker answers of its one directory: topic, partition, bytes, whether it is being moved there."""
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    topic = result.DescribeLogDirsTopic
    topics = [
        topic(
            name=name,
            partitions=[
                topic.DescribeLogDirsPartition(
                    partition_index=number, partition_size=size, offset_lag=0, is_future_key=future
                )
            ],
        )
        for name, number, size, future in replicas
    ]
    found = [result(error_code=errors.get("folder", 0), log_dir="/data/1", topics=topics)]
    error = errors.get("error", 0)
    return sent(DescribeLogDirsResponse, version, error_code=error, results=[] if "empty" in errors else found)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> AnsweringBrokers:
    """Two brokers with the topics a-b (two partitions), c and d."""
    made = AnsweringBrokers(1, 2)
    made.leaders = {"a-b": [1, 1], "c": [2], "d": [2]}
    made.answers["DescribeLogDirsRequest"] = lambda broker, request: folders(
        *((t.topic, n, 10 * broker + n, False) for t in request.topics for n in t.partitions)
    )
    monkeypatch.setattr(broker_requests, "_BrokerClient", made.connect)
    monkeypatch.setattr(broker_requests, "_ALL_TRIES_SECONDS", 0.0)
    return made


@pytest.fixture
def logs(brokers: AnsweringBrokers) -> LogDirectories:
    """The client of these brokers."""
    return LogDirectories({"bootstrap.servers": "b:1"}, "east")


def test_topics_are_asked_for_in_batches_of_every_broker(
    brokers: AnsweringBrokers, logs: LogDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their partitions; without topics, or where they do not exist, nobody is asked for sizes."""
    monkeypatch.setattr(log_directories, "_TOPICS", 2)
    assert logs.sizes([]) == {} == logs.sizes(["none"]) and not brokers.asked
    assert logs.sizes(["d", "a-b", "c", "a-b", "none"]) == {
        TopicPartition("a-b", 0): 20,
        TopicPartition("a-b", 1): 21,
        TopicPartition("c", 0): 20,
        TopicPartition("d", 0): 20,
    }
    asked = [(broker, [(t.topic, t.partitions) for t in request.topics]) for broker, request in brokers.asked]
    assert asked == [
        *((broker, [("a-b", [0, 1]), ("c", [0])]) for broker in (1, 2)),
        *((broker, [("d", [0])]) for broker in (1, 2)),
    ]
    assert brokers.made == brokers.closed


def test_the_largest_replica_counts(brokers: AnsweringBrokers, logs: LogDirectories) -> None:
    """A replica that is being moved to another disk is none yet."""
    replicas: dict[int, list[Replica]] = {
        1: [("a-b", 0, 7, False), ("a-b", 1, 1, False)],
        2: [("a-b", 0, 9, False), ("a-b", 1, 99, True)],
    }
    brokers.answers["DescribeLogDirsRequest"] = lambda broker, _: folders(*replicas[broker])
    assert logs.sizes(["a-b"]) == {TopicPartition("a-b", 0): 9, TopicPartition("a-b", 1): 1}


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (lambda: folders(("c", 0, 1, False), folder=STORAGE_ERROR), "broker 2 .*log directory /data/1"),
        (lambda: KafkaConnectionError("gone"), "broker 2 .*gone"),
        (lambda: folders(error=REFUSED), "broker 2 .*grant DESCRIBE on the cluster to"),
        (lambda: folders(empty=1, version=2), "broker 2 .*shows no log directory.*grant DESCRIBE on the cluster to"),
    ],
)
def test_sizes_that_a_broker_does_not_tell_are_none(
    brokers: AnsweringBrokers, logs: LogDirectories, answer: Any, named: str
) -> None:
    """Half of the sum would be taken for the whole; the broker, and its directory, are named."""
    brokers.answers["DescribeLogDirsRequest"] = lambda broker, _: (
        folders(("c", 0, 5, False)) if broker == 1 else answer()
    )
    with pytest.raises(KafkaUnavailable, match=named):
        logs.sizes(["c"])


def test_a_partition_that_no_broker_holds_is_named(brokers: AnsweringBrokers, logs: LogDirectories) -> None:
    """Its brokers are down, and no longer among those that are asked."""
    brokers.leaders["c"] = [2, -1]
    brokers.answers["DescribeLogDirsRequest"] = lambda *_: folders(("c", 0, 5, False))
    with pytest.raises(KafkaUnavailable, match="no broker that is up holds c-1") as error:
        logs.sizes(["c"])
    assert error.value.may_pass
