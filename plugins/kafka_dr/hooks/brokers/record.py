"""Data classes for records that were read, and for offset ranges of a partition's log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from confluent_kafka import KafkaError

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import decode_heartbeat


class Record(NamedTuple):
    """One record that was read. In key, value and header values, None (null) is not the same as empty.

    Attributes:
        timestamp: milliseconds since 1970; None for a record without timestamp.
        log_append_time: whether the broker set the timestamp; if so, a record and its copy have different timestamps.
        headers: in the record's order; a name may occur several times.
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
        """Return the record's topic and partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Return the number of bytes of key, value and header values."""
        return sum(len(part or b"") for part in (self.key, self.value, *(value for _, value in self.headers)))

    def fingerprint(self, with_timestamp: bool = False) -> str:
        """Return the SHA-256 over key, value and headers, each with its length: equal for records of equal content.

        Args:
            with_timestamp: whether the timestamp is part of the content.
        """
        return self._fingerprints()[with_timestamp]

    def digest(self) -> RecordDigest:
        """Return what proofs compare of the record, without its content."""
        return RecordDigest(*self[:5], self.size, *self._fingerprints())

    def _fingerprints(self) -> tuple[str, str]:
        """Return the fingerprints without and with the timestamp."""
        parts: list[bytes | None] = [self.key, self.value]
        for name, value in self.headers:
            parts += [name.encode("utf-8", "surrogateescape"), value]
        digest = hashlib.sha256(len(self.headers).to_bytes(4, "big"))
        for part in parts:
            _add(digest, part)
        dated = digest.copy()
        _add(dated, None if self.timestamp is None else str(self.timestamp).encode())
        return digest.hexdigest(), dated.hexdigest()


def _add(digest: hashlib._Hash, part: bytes | None) -> None:
    """Add a part of a record's content, after its length: -1 for null."""
    digest.update((-1 if part is None else len(part)).to_bytes(8, "big", signed=True))
    digest.update(part or b"")


class RecordDigest(NamedTuple):
    """One record without its content: what proofs compare of it, whatever the record's size.

    Attributes:
        timestamp, log_append_time: as of `Record`.
        size: number of bytes of key, value and header values.
        plain, dated: fingerprints of the content, without and with the timestamp.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    log_append_time: bool
    size: int
    plain: str
    dated: str

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the record's topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def fingerprint(self, with_timestamp: bool = False) -> str:
        """Return what `Record.fingerprint` returns of the record."""
        return self.dated if with_timestamp else self.plain


class Kept(Protocol):
    """What is kept of a record in a tail or a range."""

    @property
    def offset(self) -> int:
        """Return the record's offset."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the record's topic and partition."""


T = TypeVar("T")
K_co = TypeVar("K_co", bound=Kept, covariant=True)


class Consumed(Protocol):
    """A message from a consumer, with topic, partition and offset; confluent-kafka's own types allow None for these."""

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
class Tail(Generic[K_co]):
    """The last records of one partition.

    Attributes:
        records: sorted by offset, at most as many as requested.
        scanned_from: where reading started; every offset from here up to `end` was read. If this range has more
            records than were requested, `records` has only the newest of them.
        end: where reading ended: the log end or, under read_committed, the last stable offset.
    """

    records: tuple[K_co, ...]
    scanned_from: int
    end: int

    @property
    def last(self) -> K_co | None:
        """Return the last record; None if a read from `scanned_from` to `end` returned no record."""
        return self.records[-1] if self.records else None

    @property
    def skipped_at_end(self) -> int:
        """Return the number of offsets between the last record and `end`: markers, aborted or compacted records."""
        return self.end - (self.records[-1].offset + 1 if self.records else self.scanned_from)


def record_of(message: Consumed) -> Record:
    """Return a consumer's message as a Record."""
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


def digest_of(message: Consumed) -> RecordDigest:
    """Return a consumer's message as a RecordDigest; its key, value and headers are let go."""
    return record_of(message).digest()


class KeptPart(NamedTuple, Generic[T]):
    """What a reader keeps of one record: its place, and a part that was read from it."""

    topic_partition: TopicPartition
    offset: int
    part: T


def keep_part(read: Callable[[Consumed], T]) -> Callable[[Consumed], KeptPart[T]]:
    """Return a function that keeps of a consumer's message only its place and what `read` returns of it."""

    def keep(message: Consumed) -> KeptPart[T]:
        return KeptPart(TopicPartition(message.topic(), message.partition()), message.offset(), read(message))

    return keep


def heartbeat_time(message: Consumed) -> int:
    """Return the time in a heartbeat of MirrorMaker 2, in ms since 1970; raise Malformed if it is none."""
    return decode_heartbeat(message.key(), message.value()).timestamp


def key_and_value(message: Consumed) -> tuple[bytes | None, bytes | None]:
    """Return a message's key and value, the only parts that records of MirrorMaker 2's internal topics use."""
    return message.key(), message.value()
