"""Stranded records written to the new primary: which, under which marks, and proof that each is there once.

Invariants
1. Of one partition records are written in the order of their offsets, so that what is done is always a beginning of
   them.
2. A record that no transaction has committed is not written.
3. Into a compacted topic no value is written whose key was written later on the new primary: it would undo that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]

#: Headers of a replayed record: where it stood, and whose export it was replayed from. They are its last two, in this
#: order.
ORIGIN, PROCEDURE = "switchback.origin", "switchback.procedure"
#: Of one transaction, whichever is reached first. What a killed process leaves behind, aborted, is no more than this.
MOST_RECORDS, MOST_BYTES = 1_000, 8_000_000
#: What a batch of one record needs beside its key, value and headers, at most; of each header its lengths.
_BATCH_BYTES, _HEADER_BYTES = 100, 10
_MARK_BYTES = 16
_NAMED = 5


class Fate(StrEnum):
    """What becomes of an exported record of a topic that is replayed."""

    WRITTEN = "written"
    UNCOMMITTED = "uncommitted"
    OVERWRITTEN = "overwritten"
    KEYLESS = "keyless"


class Origin(NamedTuple):
    """Where a stranded record stood on the returned cluster."""

    alias: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.alias}/{self.topic}/{self.partition}/{self.offset}"

    @property
    def topic_partition(self) -> TopicPartition:
        """Its partition there."""
        return TopicPartition(self.topic, self.partition)


def origin_in(text: bytes | None) -> Origin | None:
    """Read an origin as it stands in a header; None where it is none."""
    parts = (text or b"").decode("utf-8", "replace").split("/")
    if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
        return None
    return Origin(parts[0], parts[1], int(parts[2]), int(parts[3]))


def with_origin_headers(headers: Headers, origin: Origin, procedure_id: str) -> Headers:
    """Return a record's headers with the two that say where it comes from, behind its own."""
    return (*headers, (ORIGIN, str(origin).encode()), (PROCEDURE, procedure_id.encode()))


def without_origin_headers(headers: Headers, procedure_ids: Collection[str]) -> tuple[Origin, Headers] | None:
    """Return a replayed record's origin and original headers; None if not from these procedures' exports.

    A record that was replayed before, and was stranded again, has older marks among its own headers.
    """
    if (
        len(headers) < 2
        or headers[-2][0] != ORIGIN
        or headers[-1] not in [(PROCEDURE, one.encode()) for one in procedure_ids]
    ):
        return None
    origin = origin_in(headers[-2][1])
    return None if origin is None else (origin, headers[:-2])


def mark_of(key: bytes | None) -> bytes | None:
    """Return what a key is remembered by: the beginning of its SHA-256, as the export has it in whole."""
    return None if key is None else hashlib.sha256(key).digest()[:_MARK_BYTES]


def mark_in(key_sha256: str) -> bytes:
    """Return the same of a key's SHA-256 in hexadecimal digits."""
    return bytes.fromhex(key_sha256)[:_MARK_BYTES]


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the bytes that a batch of this record alone has at most, uncompressed."""
    return (
        _BATCH_BYTES
        + len(key or b"")
        + len(value or b"")
        + sum(_HEADER_BYTES + len(name.encode("utf-8", "replace")) + len(content or b"") for name, content in headers)
    )


def fate_of(
    offset: int, key: bytes | None, uncommitted: Container[int], needs_key: bool, written_later: Container[bytes | None]
) -> Fate:
    """Tell what becomes of a record.

    Args:
        uncommitted: offsets of records that no transaction has committed.
        needs_key: whether the topic takes no record without a key, as compacted ones.
        written_later: marks of keys that clients wrote on the new primary since they went there; empty unless the topic
            is compacted.
    """
    if offset in uncommitted:
        return Fate.UNCOMMITTED
    if key is None:
        return Fate.KEYLESS if needs_key else Fate.WRITTEN
    return Fate.OVERWRITTEN if written_later and mark_of(key) in written_later else Fate.WRITTEN


def cut_into_transactions(
    records: Iterable[T], size: Callable[[T], int], alone: Callable[[T], bool]
) -> Iterator[list[T]]:
    """Cut records into transactions, in order.

    Args:
        size: a record's bytes.
        alone: whether the cluster may refuse a record; then it takes no other with it.
    """
    held: list[T] = []
    held_bytes = 0
    for record in records:
        single = alone(record)
        if held and (single or len(held) >= MOST_RECORDS or held_bytes + size(record) > MOST_BYTES):
            yield held
            held, held_bytes = [], 0
        held.append(record)
        held_bytes += size(record)
        if single:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held


class Expected(NamedTuple):
    """A record that should stand on the new primary, or stands there.

    Attributes:
        offset: on the returned cluster.
        content: fingerprint of key, value and the headers that it had there.
        timestamp: in milliseconds since 1970; None where it had none that can be kept.
        key: its key's mark.
    """

    offset: int
    content: str
    timestamp: int | None
    key: bytes | None


class Found(NamedTuple):
    """What was found of one partition's records.

    Attributes:
        read_back: how many stand there, each once, with the content that was exported.
        overwritten: how many do not, since their key was written later, by a client or by a later one of them.
        expired: how many were at the log's beginning, which retention has taken since.
        overtaken: how many stand behind a client's record of the same key, which they undo.
        restamped: how many of those that stand there have the time of their writing.
        problems: what contradicts; empty is proof.
    """

    read_back: int
    overwritten: int
    expired: int
    overtaken: int
    restamped: int
    problems: tuple[str, ...]


class ReadBack:
    """Compares what stands on the new primary with what was exported of one partition, both in their order."""

    def __init__(self, expected: Iterable[Expected], compacted: bool, shortened: bool) -> None:
        """Prepare.

        Args:
            expected: the records that should be there, ascending by offset; read as far as needed.
            compacted: whether a record may be missing because its key was written later.
            shortened: whether the log begins behind the place where the first of them was written.
        """
        self._expected = iter(expected)
        self._next = next(self._expected, None)
        self._compacted, self._shortened = compacted, shortened
        self._last = -1
        self._read_back = self._expired = self._overtaken = self._restamped = 0
        self._missing: list[Expected] = []
        self._problems: list[str] = []
        self._untold = 0
        self._by_clients: set[bytes | None] = set()
        self._by_replay: dict[bytes | None, int] = {}

    def written(self, key: bytes | None) -> None:
        """A client's record of a compacted topic, by its key's mark."""
        self._by_clients.add(key)

    def replayed(self, seen: Expected) -> None:
        """A replayed record, as it stands there."""
        if seen.offset <= self._last:
            self._tell(f"offset {seen.offset} stands there twice, or behind a later one")
            return
        self._last = seen.offset
        self._skip_to(seen.offset)
        if self._next is None or self._next.offset != seen.offset:
            self._tell(f"offset {seen.offset} was not to be written")
            return
        self._compare(self._next, seen)
        self._next = next(self._expected, None)
        if self._compacted:
            self._overtaken += seen.key in self._by_clients
            self._by_replay[seen.key] = seen.offset

    def _compare(self, wanted: Expected, seen: Expected) -> None:
        if wanted.content != seen.content:
            self._tell(f"offset {seen.offset} has another content than exported")
        elif wanted.timestamp not in (None, seen.timestamp):
            self._tell(f"offset {seen.offset} has another timestamp than exported")
        else:
            self._read_back += 1
            self._restamped += wanted.timestamp is None

    def end(self) -> Found:
        """Everything was seen: the verdict."""
        self._skip_to(None)
        unexplained = [
            one
            for one in self._missing
            if one.key not in self._by_clients and self._by_replay.get(one.key, -1) < one.offset
        ]
        overwritten = len(self._missing) - len(unexplained)
        if self._shortened:
            # Nobody can tell any more what a client wrote there, or what was compacted away.
            self._expired, unexplained = self._expired + len(unexplained), []
        for one in unexplained:
            self._tell(f"offset {one.offset} is not there")
        more = [f"{self._untold} more like these"] if self._untold else []
        return Found(
            self._read_back, overwritten, self._expired, self._overtaken, self._restamped, (*self._problems, *more)
        )

    def _skip_to(self, offset: int | None) -> None:
        """What should be there before an offset and is not."""
        while self._next is not None and (offset is None or self._next.offset < offset):
            self._lacking(self._next)
            self._next = next(self._expected, None)

    def _lacking(self, one: Expected) -> None:
        if self._shortened and not self._read_back:
            self._expired += 1
        elif self._compacted:
            self._missing.append(one)
        else:
            self._tell(f"offset {one.offset} is not there")

    def _tell(self, problem: str) -> None:
        """Some are named, the others counted."""
        if len(self._problems) < _NAMED:
            self._problems.append(problem)
        else:
            self._untold += 1
