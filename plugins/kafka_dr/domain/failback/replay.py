"""Replay of stranded records to the new primary: which records, with which headers, proven to be written once.

Invariants
1. The records of one partition are written in offset order: if a replay stops, the records written so far are the
   partition's first records.
2. A record of a transaction that is not committed is not written.
3. A value is not written to a compacted topic if clients wrote its key later on the new primary: the replay would undo
   the client's value.

The last two headers of a replayed record are its origin headers: the record's place on the returned cluster (its
origin), and the id of the procedure that exported it. All headers before them are the original headers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]

#: The last two headers of a replayed record, in this order: its origin, and the id of the procedure that exported it.
ORIGIN, PROCEDURE = "switchback.origin", "switchback.procedure"
#: Limits of one transaction, in records and in bytes, whichever is reached first: a killed process leaves at most
#: this many records to be aborted.
MOST_RECORDS, MOST_BYTES = 1_000, 8_000_000
#: Largest size in bytes of a batch with one record, without key, value and headers; and of one header's length fields.
_BATCH_BYTES, _HEADER_BYTES = 100, 10
_MARK_BYTES = 16
_NAMED = 5


class Fate(StrEnum):
    """Whether the replay writes an exported record to the new primary, and if not, why.

    WRITTEN: the replay writes the record. UNCOMMITTED: the record's transaction is not committed. OVERWRITTEN: clients
    have written the record's key later on the new primary, in a compacted topic. KEYLESS: the record has no key, and
    the topic is compacted.
    """

    WRITTEN = "written"
    UNCOMMITTED = "uncommitted"
    OVERWRITTEN = "overwritten"
    KEYLESS = "keyless"


class Origin(NamedTuple):
    """The returned cluster's alias, and the topic, partition and offset of a stranded record on that cluster."""

    alias: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.alias}/{self.topic}/{self.partition}/{self.offset}"

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's partition on the returned cluster."""
        return TopicPartition(self.topic, self.partition)


def origin_in(text: bytes | None) -> Origin | None:
    """Return the origin in a header's value `alias/topic/partition/offset`; None if the value has another form."""
    parts = (text or b"").decode("utf-8", "replace").split("/")
    if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
        return None
    return Origin(parts[0], parts[1], int(parts[2]), int(parts[3]))


def with_origin_headers(headers: Headers, origin: Origin, procedure_id: str) -> Headers:
    """Return a record's own headers followed by the two origin headers."""
    return (*headers, (ORIGIN, str(origin).encode()), (PROCEDURE, procedure_id.encode()))


def without_origin_headers(headers: Headers, procedure_ids: Collection[str]) -> tuple[Origin, Headers] | None:
    """Return a replayed record's origin and original headers; None if none of these procedures exported the record.

    A record that an earlier replay wrote and that was stranded again has older origin headers among its original
    headers.
    """
    if (
        len(headers) < 2
        or headers[-2][0] != ORIGIN
        or headers[-1] not in [(PROCEDURE, procedure_id.encode()) for procedure_id in procedure_ids]
    ):
        return None
    origin = origin_in(headers[-2][1])
    return None if origin is None else (origin, headers[:-2])


def mark_of(key: bytes | None) -> bytes | None:
    """Return a key's mark, which stands for the key in memory: the first 16 bytes of its SHA-256."""
    return None if key is None else hashlib.sha256(key).digest()[:_MARK_BYTES]


def mark_in(key_sha256: str) -> bytes:
    """Return a key's mark, the first 16 bytes of its SHA-256, from the key's SHA-256 in hexadecimal digits."""
    return bytes.fromhex(key_sha256)[:_MARK_BYTES]


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the largest size in bytes, uncompressed, of a batch with only this record."""
    return (
        _BATCH_BYTES
        + len(key or b"")
        + len(value or b"")
        + sum(_HEADER_BYTES + len(name.encode("utf-8", "replace")) + len(content or b"") for name, content in headers)
    )


def fate_of(
    offset: int, key: bytes | None, uncommitted: Container[int], needs_key: bool, written_later: Container[bytes | None]
) -> Fate:
    """Return whether the replay writes a stranded record to the new primary, and if not, why.

    Args:
        uncommitted: offsets of records whose transaction is not committed.
        needs_key: whether the topic refuses records without a key, as compacted topics do.
        written_later: marks of the keys that clients have written on the new primary since the failover; empty unless
            the topic is compacted.
    """
    if offset in uncommitted:
        return Fate.UNCOMMITTED
    if key is None:
        return Fate.KEYLESS if needs_key else Fate.WRITTEN
    return Fate.OVERWRITTEN if written_later and mark_of(key) in written_later else Fate.WRITTEN


def cut_into_transactions(
    records: Iterable[T], size: Callable[[T], int], alone: Callable[[T], bool]
) -> Iterator[list[T]]:
    """Yield the records in order, as lists; each list is to be written in one transaction.

    Args:
        size: returns a record's size in bytes.
        alone: returns whether the new primary may refuse a record; such a record is the only one of its transaction.
    """
    batch: list[T] = []
    batch_bytes = 0
    for record in records:
        single = alone(record)
        if batch and (single or len(batch) >= MOST_RECORDS or batch_bytes + size(record) > MOST_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(record)
        batch_bytes += size(record)
        if single:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


class Expected(NamedTuple):
    """A replayed record: either as exported, thus expected on the new primary, or as read back from the new primary.

    Attributes:
        offset: the record's offset on the returned cluster.
        content: fingerprint of key, value and original headers.
        timestamp: milliseconds since 1970; None if the new primary does not preserve the exported timestamp.
        key: mark of the record's key; None without a key, and in exported records of a topic that is not compacted.
    """

    offset: int
    content: str
    timestamp: int | None
    key: bytes | None


class Found(NamedTuple):
    """Result of reading back one partition's replayed records.

    Attributes:
        read_back: number of records that are exactly once on the new primary, with the exported content.
        overwritten: number of records that compaction deleted, because a client or a later replayed record wrote their
            key.
        expired: number of records that retention has deleted since the replay wrote them.
        overtaken: number of replayed records above a client's record of the same key: these undo the client's value.
        restamped: how many of `read_back` have the time of the replay as timestamp, not the exported timestamp.
        problems: contradictions between export and log, a sentence each; empty if the replay is proven.
    """

    read_back: int
    overwritten: int
    expired: int
    overtaken: int
    restamped: int
    problems: tuple[str, ...]


class ReadBack:
    """Compares one partition's records on the new primary with the exported records, both in log order."""

    def __init__(self, expected: Iterable[Expected], compacted: bool, shortened: bool) -> None:
        """Start the comparison, before any record of the log is read.

        Args:
            expected: the exported records that the replay wrote, ascending by offset; iterated only as far as needed.
            compacted: whether the topic is compacted: a record may be missing because its key was written later.
            shortened: whether the new primary's log now starts above the first replayed record.
        """
        self._expected = iter(expected)
        self._next = next(self._expected, None)
        self._compacted, self._shortened = compacted, shortened
        self._last_offset = -1
        self._read_back = self._expired = self._overtaken = self._restamped = 0
        self._missing: list[Expected] = []
        self._problems: list[str] = []
        self._more_problems = 0
        self._by_clients: set[bytes | None] = set()
        self._by_replay: dict[bytes | None, int] = {}

    def written(self, key: bytes | None) -> None:
        """Take the log's next record, which a client wrote; needed only for compacted topics.

        Args:
            key: mark of the record's key.
        """
        self._by_clients.add(key)

    def replayed(self, record: Expected) -> None:
        """Take the log's next record, which the replay wrote, and compare this record with the export."""
        if record.offset <= self._last_offset:
            self._report(f"exported offset {record.offset} was read back twice, or after a higher offset")
            return
        self._last_offset = record.offset
        self._skip_to(record.offset)
        if self._next is None or self._next.offset != record.offset:
            self._report(f"exported offset {record.offset} was read back, but was not to be replayed")
            return
        self._compare(self._next, record)
        self._next = next(self._expected, None)
        if self._compacted:
            self._overtaken += record.key in self._by_clients
            self._by_replay[record.key] = record.offset

    def _compare(self, exported: Expected, record: Expected) -> None:
        if exported.content != record.content:
            self._report(f"exported offset {record.offset} has other content than in the export")
        elif exported.timestamp not in (None, record.timestamp):
            self._report(f"exported offset {record.offset} has another timestamp than in the export")
        else:
            self._read_back += 1
            self._restamped += exported.timestamp is None

    def end(self) -> Found:
        """Return how the log of the new primary differs from the records to replay.

        Call this after every record of that log was passed to this object.
        """
        self._skip_to(None)
        unexplained = [
            record
            for record in self._missing
            if record.key not in self._by_clients and self._by_replay.get(record.key, -1) < record.offset
        ]
        overwritten = len(self._missing) - len(unexplained)
        if self._shortened:
            # Clients' records in the deleted part of the log may have overwritten these keys: no contradiction.
            self._expired, unexplained = self._expired + len(unexplained), []
        for record in unexplained:
            self._report(f"exported offset {record.offset} is missing")
        others = [f"{self._more_problems} more problems"] if self._more_problems else []
        return Found(
            self._read_back, overwritten, self._expired, self._overtaken, self._restamped, (*self._problems, *others)
        )

    def _skip_to(self, offset: int | None) -> None:
        """Count as missing every remaining expected record below `offset`; every remaining record if it is None."""
        while self._next is not None and (offset is None or self._next.offset < offset):
            self._miss(self._next)
            self._next = next(self._expected, None)

    def _miss(self, record: Expected) -> None:
        if self._shortened and not self._read_back:
            self._expired += 1
        elif self._compacted:
            self._missing.append(record)
        else:
            self._report(f"exported offset {record.offset} is missing")

    def _report(self, problem: str) -> None:
        """Store the text of the first problems, count all further problems."""
        if len(self._problems) < _NAMED:
            self._problems.append(problem)
        else:
            self._more_problems += 1
