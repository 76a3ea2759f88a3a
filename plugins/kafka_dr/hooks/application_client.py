"""Works on a cluster with an application's own login: logs in, writes, reads, and commits a position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteResult

_SECONDS = 10.0


class ApplicationClient:
    """One application's login on one cluster; uses the first partition of topics."""

    def __init__(self, config: Mapping[str, Any], alias: str) -> None:
        """Check the settings; no request is sent yet.

        Args:
            config: the settings of the application's connection, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
        """
        self._config, self._alias = dict(config), alias
        self._cluster = KafkaCluster(alias, config)

    def __repr__(self) -> str:
        return f"ApplicationClient({self._alias!r})"

    @property
    def principal(self) -> str:
        """As which principal brokers know the login; "" if that depends on rules that only brokers know."""
        protocol = str(self._config.get("security.protocol", "plaintext")).lower()
        if protocol.startswith("sasl"):
            return f"User:{self._config['sasl.username']}" if self._config.get("sasl.username") else ""
        return "User:ANONYMOUS" if protocol == "plaintext" else ""

    def log_in(self) -> str:
        """Log in, and return the id of the cluster; raise KafkaUnavailable if the brokers refuse the login."""
        return self._cluster.cluster_id(_SECONDS)

    def write(self, topic: str, value: bytes) -> WriteResult:
        """Write one record and return the outcome."""
        return RecordWriter(self._config, self._alias).write(topic, 0, value, timeout=_SECONDS)

    def read(self, topic: str, offset: int) -> list[bytes | None]:
        """Return the values of the records at an offset: one, or none; raise KafkaUnavailable if it is refused."""
        reader = RecordReader(self._config, self._alias)
        records = reader.range(TopicPartition(topic, 0), offset, offset + 1, timeout=_SECONDS)
        return [record.value for record in records]

    def commit(self, group: str, topic: str, offset: int) -> str:
        """Commit a group's position and read it back; return "", or Kafka's name of the error.

        Raises:
            KafkaUnavailable: the position could not be read back.
        """
        partition = TopicPartition(topic, 0)
        answer = self._cluster.commit(group, {partition: offset}, _SECONDS)[partition]
        if answer != OK:
            return answer
        position = self._cluster.positions([group], timeout=_SECONDS)[group].get(partition)
        return "" if position is not None and position.offset == offset else f"read back as {position}"

    def close(self) -> None:
        """Disconnect."""
        self._cluster.close()
