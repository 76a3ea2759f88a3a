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
    """One application's login on one cluster; uses the first partition of topics.

    Attributes:
        principal: as which principal brokers know the login; "" if that depends on rules that only brokers know.
    """

    def __init__(self, principal: str, cluster: KafkaCluster, writer: RecordWriter, reader: RecordReader) -> None:
        """Store clients that log in as the application; no request is sent yet."""
        self.principal = principal
        self._cluster, self._writer, self._reader = cluster, writer, reader

    def __repr__(self) -> str:
        return f"ApplicationClient({self._cluster.alias!r})"

    def log_in(self) -> str:
        """Log in, and return the id of the cluster; raise KafkaUnavailable if the brokers refuse the login."""
        return self._cluster.cluster_id(_SECONDS)

    def write(self, topic: str, value: bytes) -> WriteResult:
        """Write one record and return the outcome."""
        return self._writer.write(topic, 0, value, timeout=_SECONDS)

    def read(self, topic: str, offset: int) -> list[bytes | None]:
        """Return the values of the records at an offset: one, or none; raise KafkaUnavailable if it is refused."""
        records = self._reader.range(TopicPartition(topic, 0), offset, offset + 1, timeout=_SECONDS)
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


def principal_of(settings: Mapping[str, Any]) -> str:
    """Return the principal of a login with these settings of librdkafka; "" if only brokers know it, as of TLS."""
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl"):
        return f"User:{settings['sasl.username']}" if settings.get("sasl.username") else ""
    return "User:ANONYMOUS" if protocol == "plaintext" else ""
