"""Records, and offset ranges of a partition's log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaError

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition


class Record(NamedTuple):
    """One record; None and empty differ in key, value and header values.

    Attributes:
        timestamp: milliseconds since 1970; None for a record without timestamp.
        log_append_time: whether the broker set the timestamp; source and target timestamps then always differ.
        headers: in order; names may recur.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    log_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's partition."""
        return TopicPartition(self.topic, self.partition)

    def fingerprint(self, with_timestamp: bool = False) -> str:
        """SHA-256 over key, value and headers, each with its length: equal content gives equal fingerprints."""
        parts: list[bytes | None] = [self.key, self.value]
        for name, value in self.headers:
            parts += [name.encode("utf-8", "surrogateescape"), value]
        if with_timestamp:
            parts.append(None if self.timestamp is None else str(self.timestamp).encode())
        digest = hashlib.sha256(len(self.headers).to_bytes(4, "big"))
        for part in parts:
            digest.update((-1 if part is None else len(part)).to_bytes(8, "big", signed=True) + (part or b""))
        return digest.hexdigest()


class Consumed(Protocol):
    """A message from a consumer. In confluent-kafka's own types, topic, partition and offset may be None."""

    topic: Callable[[], str]
    partition: Callable[[], int]
    offset: Callable[[], int]
    timestamp: Callable[[], tuple[int, int]]
    key: Callable[[], bytes | None]
    value: Callable[[], bytes | None]
    headers: Callable[[], list[tuple[str, bytes | None]] | None]
    error: Callable[[], KafkaError | None]


class OffsetSpan(NamedTuple):
    """Offsets [start, end) of one partition."""

    start: int
    end: int


@dataclass(frozen=True)
class Tail:
    """The last records of one partition.

    Attributes:
        records: sorted by offset, at most as many as requested.
        scanned_from: every offset from here to `end` was read; a reader returns no other records there, except records
            older than `records`.
        end: the log end, or last stable offset, that the reader's position reached.
    """

    records: tuple[Record, ...]
    scanned_from: int
    end: int

    @property
    def last(self) -> Record | None:
        """The last record that a reader returns; None if the reader reached the end without any."""
        return self.records[-1] if self.records else None

    @property
    def skipped_at_end(self) -> int:
        """Number of offsets after the last record: markers, aborted or compacted records, which no reader returns."""
        return self.end - (self.records[-1].offset + 1 if self.records else self.scanned_from)


def record_of(message: Consumed) -> Record:
    """Convert a message to a record."""
    kind, timestamp = message.timestamp()
    headers = message.headers()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        None if kind == 0 else timestamp,
        kind == 2,
        message.key(),
        message.value(),
        tuple(headers) if headers else (),
    )


def key_and_value(message: Consumed) -> tuple[bytes | None, bytes | None]:
    """Key and value only: MM2's internal topics use nothing else."""
    return message.key(), message.value()
