"""Writes and reads anchors of the journal in a topic of one cluster; no caller waits long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config, describe_error
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.vocabulary import JOURNAL_TOPIC

_PARTITION = TopicPartition(JOURNAL_TOPIC, 0)
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: Anchors that `newest` returns: processes that write at the same time may do so in another order than the journal's,
#: and other pairs of clusters may write to the topic, too.
_NEWEST = 200


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

    def newest(self, timeout: float) -> list[bytes]:
        """Return the values of the newest records, oldest first; create the topic if the cluster lacks it.

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
        tails = RecordReader(self._config, self._alias).last_records([_PARTITION], _NEWEST, timeout)
        return [record.value for record in tails[_PARTITION].records if record.value is not None]

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
