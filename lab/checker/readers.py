"""Read one cluster for the checker, with plain confluent-kafka and an explicit isolation level."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lab.checker.records import Held
from lab.workload.ground_truth import content_digest, key_digest

SILENCE_SECONDS = 60.0
REQUEST_SECONDS = 30.0
PROBE_KEY, PROBE_VALUE = b"lab-check", b"may this be written?"
#: Prefix of the headers that a replay adds; `ORIGIN` has cluster, topic, partition and offset of the stranded record.
REPLAYED = "switchback."
ORIGIN = f"{REPLAYED}origin"
PROBE_DIGEST = content_digest(PROBE_KEY, PROBE_VALUE)
REFUSALS = {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
INTERNAL_GROUPS = ("connect-", "__", "lab-check")

Place = tuple[str, int]


class NothingRead(RuntimeError):
    """Raised when a log could not be read to its end, or groups could not be listed."""


class ClusterReader:
    """Reads logs, log ends, groups and positions of one cluster as user `admin`; tries writes as user `producer`."""

    def __init__(self, alias: str, status: Mapping[str, Any]) -> None:
        properties = status["clusters"][alias]["client_properties"]
        self.alias = alias
        self._properties = {**properties["admin"], "log_level": 3}
        self._producer = dict(properties["producer"])
        self._admin = AdminClient(self._properties)

    def partitions(self) -> dict[str, int]:
        """Return the partition count of every topic on the cluster, by name."""
        topics = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the log start offset of each partition, by (topic, partition)."""
        return self._offsets(places, OffsetSpec.earliest())

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the log end (high watermark) of each partition, by (topic, partition)."""
        return self._offsets(places, OffsetSpec.latest())

    def read(self, places: Iterable[Place], isolation: str, keyed: Iterable[str] = ()) -> dict[Place, list[Held]]:
        """Return all records of each partition, from log start to log end, by (topic, partition).

        Args:
            places: topic partitions that exist.
            isolation: `read_uncommitted` or `read_committed`.
            keyed: topics for whose records the digest of the key is computed; the digest is 0 for all other topics.

        Raises:
            NothingRead: a log could not be read to its end.
        """
        logs: dict[Place, list[Held]] = {place: [] for place in places}
        if not logs:
            return logs
        settings = {
            "group.id": "lab-check",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        consumer = Consumer(
            {**self._properties, **settings, "auto.offset.reset": "error", "queued.max.messages.kbytes": 65536}
        )
        try:
            starts = self.starts(logs)
            consumer.assign([TopicPartition(topic, partition, starts[topic, partition]) for topic, partition in logs])
            self._read_to_end(consumer, logs, set(keyed))
        finally:
            consumer.close()
        return logs

    def groups(self) -> list[str]:
        """Return the ids of all groups of the cluster, including groups for which only an admin client committed."""
        result = self._admin.list_consumer_groups(request_timeout=REQUEST_SECONDS).result()
        if result.errors:
            raise NothingRead(
                f"groups of {self.alias} could not be listed: {result.errors[0]}; read the broker's log of {self.alias}"
            )
        return sorted(group.group_id for group in result.valid)

    def positions(self, groups: Iterable[str]) -> dict[str, dict[Place, int]]:
        """Return committed positions by group and (topic, partition); {} for a group without positions."""
        # Kafka takes one group per request: all requests are sent before the first answer is awaited.
        pending: dict[str, Future[Any]] = {}
        for group in groups:
            pending |= self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_SECONDS
            )
        return {group: _committed_offsets(future.result()) for group, future in pending.items()}

    def try_writes(self, topics: Iterable[str]) -> dict[str, str]:
        """Produce one record to partition 0 of each topic; return by topic the error's name, or "" if accepted."""
        answers: dict[str, str] = {}

        def delivered(error: KafkaError | None, message: Any) -> None:
            answers[message.topic()] = error.name() if error else ""

        # Not idempotent: an idempotent producer cannot be used any more after its first refused record.
        producer = Producer(
            {
                **self._producer,
                "acks": "all",
                "enable.idempotence": False,
                "message.timeout.ms": 10000,
                "retries": 0,
                "log_level": 0,
            }
        )
        for topic in topics:
            producer.produce(topic, PROBE_VALUE, PROBE_KEY, partition=0, on_delivery=delivered)
        producer.flush(15)
        return answers

    def _offsets(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        request = {TopicPartition(topic, partition): spec for topic, partition in places}
        if not request:
            return {}
        futures = self._admin.list_offsets(request, request_timeout=REQUEST_SECONDS)
        found = {(place.topic, place.partition): future.result().offset for place, future in futures.items()}
        without = [place for place, offset in found.items() if offset < 0]
        if without:
            raise NothingRead(
                f"{self.alias} answered without an offset of {without[:5]}: their leader has just gone; check again"
            )
        return found

    def _read_to_end(self, consumer: Consumer, logs: dict[Place, list[Held]], keyed: set[str]) -> None:
        open_logs = set(logs)
        last_message_at = time.monotonic()
        while open_logs:
            messages: list[Any] = consumer.consume(10000, 1.0)
            if messages:
                last_message_at = time.monotonic()
            elif time.monotonic() - last_message_at > SILENCE_SECONDS:
                raise NothingRead(
                    f"{self.alias} sent no record for {SILENCE_SECONDS:g} s before the ends of these partitions were"
                    f" reached: {sorted(open_logs)[:5]}; read the broker's log of {self.alias}"
                )
            for message in messages:
                if message.error() is None:
                    logs[message.topic(), message.partition()].append(_to_record(message, message.topic() in keyed))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_logs.discard((message.topic(), message.partition()))
                elif not message.error().retriable() and message.topic():
                    raise NothingRead(
                        f"{message.topic()}-{message.partition()} on {self.alias} could not be read: {message.error()};"
                        f" read the broker's log of {self.alias}"
                    )


def _to_record(message: Any, keyed: bool) -> Held:
    key, value, headers = message.key(), message.value(), message.headers()
    record = Held(message.offset(), content_digest(key, value, headers), key_digest(key) if keyed else 0, value is None)
    # For speed: almost all of millions of records have no headers, and a record without headers is no replay.
    origin = dict(headers).get(ORIGIN) if headers else None
    if origin is None:
        return record
    original_headers = [(name, content) for name, content in headers if not name.startswith(REPLAYED)]
    return record._replace(
        origin=origin.decode("utf-8", "replace"), original=content_digest(key, value, original_headers)
    )


def _committed_offsets(answer: ConsumerGroupTopicPartitions) -> dict[Place, int]:
    return {(p.topic, p.partition): p.offset for p in answer.topic_partitions or () if p.offset >= 0}
