"""Writes single records, and probes whether a cluster accepts writes; each write has its outcome."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import BadInput
from kafka_dr.hooks.brokers.client import client_config, kafka_border, outcome_of
from kafka_dr.hooks.brokers.cluster import KafkaCluster

_AUTHORIZATION = frozenset(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)
#: Errors after which the record is certainly not in the log.
_REJECTION = _AUTHORIZATION | frozenset(
    getattr(KafkaError, name)
    for name in (
        "UNKNOWN_TOPIC_OR_PART NOT_LEADER_FOR_PARTITION MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD"
        " INVALID_MSG INVALID_TIMESTAMP POLICY_VIOLATION NOT_ENOUGH_REPLICAS TOPIC_EXCEPTION _UNKNOWN_TOPIC"
        " _UNKNOWN_PARTITION"
    ).split()
)
#: Names of those errors after which a later write may be accepted.
_PASSING = frozenset("UNKNOWN_TOPIC_OR_PART NOT_LEADER_FOR_PARTITION NOT_ENOUGH_REPLICAS".split())


@dataclass(frozen=True)
class WriteAccepted:
    """The record is in the log at `offset`; `broker` is the id of the partition's leader just before the write."""

    offset: int
    broker: int


@dataclass(frozen=True)
class WriteRefused:
    """A broker refused the write; the record is not in the log.

    Attributes:
        error: Kafka's name of the error.
        by_authorization: whether missing rights were the reason: only such a refusal proves a fence.
        broker: id of the partition's leader, which refused the write. None if the leader is unknown, because the
            cluster refused to describe the topic, and so the write was never sent.
    """

    error: str
    by_authorization: bool
    broker: int | None = None

    @property
    def may_pass(self) -> bool:
        """Whether a later write may be accepted, as when a leader has moved, or a replica comes back."""
        return self.error in _PASSING


@dataclass(frozen=True)
class WriteUnknown:
    """No answer, or an ambiguous answer: whether the record is in the log is unknown."""

    error: str


WriteResult = WriteAccepted | WriteRefused | WriteUnknown


class RecordWriter:
    """Writes single records with one attempt each: no idempotence, no retries, acks=all.

    Every write has a producer of its own. Once a broker has refused a topic, librdkafka refuses the producer's next
    write by itself and does not ask the broker: such a refusal would prove nothing.
    """

    def __init__(self, config: Mapping[str, Any], alias: str = "the cluster", scope: DrillScope | None = None) -> None:
        self._cluster = KafkaCluster(alias, config, scope)
        self._alias, self._scope = alias, scope
        self._settings = {
            **client_config(config, alias),
            "enable.idempotence": False,
            "message.send.max.retries": 0,
            "acks": "all",
            "linger.ms": 0,
        }

    def __repr__(self) -> str:
        return f"RecordWriter({self._alias!r})"

    def write(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timeout: float = 10.0,
    ) -> WriteResult:
        """Write one record to a partition and return the outcome, about `timeout` seconds later at the latest.

        The outcome is `WriteRefused` for every error after which the record is certainly not in the log.
        """
        return self._send(topic, partition, {"value": value, "key": key, "headers": list(headers)}, _REJECTION, timeout)

    def write_all(
        self, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]], timeout: float = 60.0
    ) -> list[str]:
        """Write records to one topic, each with one attempt; return the distinct errors, [] if all are in the log.

        A record without an answer may be in the log or not: read the topic to know.

        Args:
            records: each as (partition, key, value); a value of None is a tombstone.
        """
        if self._scope is not None:
            self._scope.require_topic(topic, "writing records")
        ends_at, producer, errors = time.monotonic() + timeout, self._producer(), set[str]()

        def delivered(error: KafkaError | None, _message: Message) -> None:
            errors.update(() if error is None else (error.name(),))

        with kafka_border(self._alias, f"writing to {topic}"):
            for partition, key, value in records:
                producer.produce(topic, value, key, partition=partition, on_delivery=delivered)
                producer.poll(0)
        if producer.flush(max(0.0, ends_at - time.monotonic())):
            producer.purge()
            producer.flush(0)
            errors.add(f"no answer within {timeout:g} s")
        return sorted(errors)

    def probe(self, topic: str, partition: int, value: bytes = b"probe", timeout: float = 10.0) -> WriteResult:
        """Write one record to test whether the cluster accepts writes; if it does, the record stays in the log.

        The outcome is `WriteRefused` only for missing rights; for an unreachable broker, a missing topic or a moved
        leader it is `WriteUnknown`.
        """
        return self._send(topic, partition, {"value": value}, _AUTHORIZATION, timeout)

    def _send(
        self, topic: str, partition: int, record: dict[str, Any], refusals: frozenset[int], timeout: float
    ) -> WriteResult:
        if self._scope is not None:
            self._scope.require_topic(topic, "writing a record")
        ends_at = time.monotonic() + timeout
        leader = self._leader(topic, partition, timeout)
        if isinstance(leader, KafkaError):
            return _verdict(leader, refusals, None, self._cluster.complaint())
        verdicts: list[WriteResult] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset: Any = message.offset()
            verdicts.append(WriteAccepted(offset, leader) if error is None else _verdict(error, refusals, leader))

        producer = self._producer()
        try:
            producer.produce(topic, partition=partition, on_delivery=delivered, **record)
        except KafkaException as error:
            return _verdict(error.args[0], refusals, leader)
        except (TypeError, ValueError, BufferError) as error:
            raise BadInput(
                f"a record cannot be written to {topic!r} of {self._alias}: the Kafka client refuses the record",
                str(error),
                "nothing was written. The text states which part of the record the client refuses: report this message"
                " as a defect of Switchback",
            ) from None
        return _await_verdict(producer, verdicts, ends_at) or WriteUnknown(
            f"broker {leader} did not acknowledge within {timeout:g} s"
        )

    def _producer(self) -> Producer:
        with kafka_border(self._alias, "creating a producer"):
            return Producer(self._settings)

    def _leader(self, topic: str, partition: int, timeout: float) -> int | KafkaError:
        """Return the broker id of a partition's leader, or the error because of which the leader is unknown."""
        with kafka_border(self._alias, f"reading the leader of {topic}-{partition}"):
            futures = self._cluster.admin.describe_topics(TopicCollection([topic]), request_timeout=timeout)
        topic_info = outcome_of(futures[topic], timeout + 5)
        if isinstance(topic_info, KafkaError):
            return topic_info
        leaders: dict[int, int] = {p.id: p.leader.id for p in topic_info.partitions if p.leader is not None}
        if partition not in {p.id for p in topic_info.partitions}:
            return KafkaError(KafkaError._UNKNOWN_PARTITION)
        return leaders.get(partition, KafkaError(KafkaError.LEADER_NOT_AVAILABLE))


def _await_verdict(producer: Producer, verdicts: list[WriteResult], ends_at: float) -> WriteResult | None:
    """Wait for the outcome of a producer's only record; None if no outcome arrived in time.

    A record that is still queued at the deadline is dropped, so that it is never sent.

    Args:
        producer: the producer, which has sent or queued one record.
        verdicts: the list to which the producer's callback adds the record's outcome.
        ends_at: the deadline, in monotonic seconds.
    """
    while not verdicts and (remaining := ends_at - time.monotonic()) > 0:
        producer.poll(min(remaining, 0.1))
    verdict = verdicts[0] if verdicts else None
    if verdict is None:
        producer.purge()
        producer.poll(0)
    return verdict


def _verdict(error: KafkaError, refusals: frozenset[int], broker: int | None, complaint: str = "") -> WriteResult:
    if error.code() in refusals:
        return WriteRefused(error.name(), error.code() in _AUTHORIZATION, broker)
    return WriteUnknown(f"{error.name()}; the client reports: {complaint}" if complaint else error.name())
