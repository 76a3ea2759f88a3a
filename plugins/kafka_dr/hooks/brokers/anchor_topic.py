"""Writes and reads anchors of the journal in a topic of one cluster; no caller waits long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException, Producer

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config, describe_error
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import keep_part
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.vocabulary import JOURNAL_TOPIC

T = TypeVar("T")

_PARTITION = TopicPartition(JOURNAL_TOPIC, 0)
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: Records that `newest` reads: processes that write at the same time may do so in another order than the journal's. If
#: none of these counts, it reads more: other pairs of clusters, or other people, may have written after it.
_NEWEST, _MOST = 200, 20_000


class AnchorTopic:
    """The topic with the journal's anchors on one cluster; it has one partition, and keeps all records.

    Args:
        config: librdkafka's configuration of the cluster's Airflow connection.
        alias: the cluster's name in the topology.
    """

    def __init__(self, config: Mapping[str, Any], alias: str) -> None:
        self._config, self._alias = dict(config), alias
        self._producer: Producer | None = None
        self._error = ""

    def newest(self, read: Callable[[bytes], T | None], timeout: float) -> list[T]:
        """Return what the newest records hold, oldest first; create the topic if the cluster lacks it.

        Args:
            read: returns what a record's value holds; None if the record does not count.

        Returns:
            [] if none of the newest 20,000 records counts.

        Raises:
            KafkaUnavailable: the cluster did not answer in time, or refused.
        """
        cluster = KafkaCluster(self._alias, self._config)
        try:
            if not cluster.topics([JOURNAL_TOPIC], timeout):
                replicas = min(3, len(cluster.brokers(timeout)))
                cluster.create_topic(JOURNAL_TOPIC, 1, replicas, _KEPT, timeout=timeout)
        finally:
            cluster.close()
        reader, ends_at = RecordReader(self._config, self._alias), time.monotonic() + timeout
        # Whoever may write to the topic may fill it with large records: of these nothing is kept.
        take = keep_part(lambda message: None if (value := message.value()) is None else read(value))
        for count in (_NEWEST, _MOST):
            left = max(0.0, ends_at - time.monotonic())
            tail = reader.last_records([_PARTITION], take, count, left)[_PARTITION]
            counted = [record.part for record in tail.records if record.part is not None]
            if counted or len(tail.records) < count:
                break
        return counted

    def write(self, key: str, value: bytes) -> None:
        """Begin to write a record; `await_written` tells whether the cluster took it."""
        try:
            if self._producer is None:
                self._producer = Producer(
                    # Repeated records harm nobody, and old brokers demand a right of its own for idempotent writes.
                    {**client_config(self._config, self._alias), "acks": "all", "linger.ms": 0}
                    | {"message.timeout.ms": 10_000, "enable.idempotence": False}
                )
            self._producer.produce(
                JOURNAL_TOPIC, value, key.encode("utf-8", "replace"), partition=0, on_delivery=self._delivered
            )
            self._producer.poll(0)
        except (KafkaException, BufferError) as error:
            self._error = str(error)

    def _delivered(self, error: Any, _message: Any) -> None:
        self._error = "" if error is None else describe_error(error)

    def await_written(self, timeout: float) -> None:
        """Wait until the cluster has taken all records.

        Raises:
            KafkaUnavailable: it has not done so in time; records on their way may still arrive.
        """
        left = self._producer.flush(timeout) if self._producer is not None else 0
        if left or self._error:
            raise KafkaUnavailable(
                f"the journal's anchor was not written on {self._alias}",
                self._error or f"no answer in {timeout:g} s",
                f"make sure that the brokers of {self._alias} answer; nothing waits for the anchor",
            )
