"""MirrorMaker 2's three binary records: offset syncs, checkpoints, heartbeats.

Fields follow one another big-endian, without schema id or checksum; a string is its length in bytes (int16) and UTF-8.
An offset sync's value is two int64, upstream and downstream, and nothing else; values of checkpoints and heartbeats
begin with a version, always 0. Bytes after the last field are ignored, as MirrorMaker 2 ignores them. Every other fault
is `Malformed`: an unknown version, a tombstone (MirrorMaker 2 writes none, and a tombstone breaks its readers), a
truncated record, a negative offset, bad UTF-8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import SwitchbackError

VERSION = 0
LONGEST_STRING = 32767
#: Records of an internal topic that are decoded at once: few enough for memory, enough for the speed of bulk decoding.
PORTION = 10_000

_INT16, _INT32 = Struct(">h"), Struct(">i")
_SYNC_VALUE, _CHECKPOINT_VALUE, _HEARTBEAT_VALUE = Struct(">qq"), Struct(">hqq"), Struct(">hq")
_BARE_CHECKPOINT = _CHECKPOINT_VALUE.size + _INT16.size


class Malformed(SwitchbackError):
    """A record of MirrorMaker 2 cannot be decoded, or a record to be written could not be decoded by MirrorMaker 2.

    Functions that decode one record raise this error; functions that decode many return all such errors.
    """


class OffsetSync(NamedTuple):
    """Source record `upstream` became target record `downstream`; topic and partition are the source's."""

    topic: str
    partition: int
    upstream: int
    downstream: int


class Checkpoint(NamedTuple):
    """A group's position on source and target, each the next offset to read; `topic` is the name on the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""


class Heartbeat(NamedTuple):
    """A heartbeat of one flow; `timestamp` is in milliseconds since 1970."""

    source_alias: str
    target_alias: str
    timestamp: int


Record = TypeVar("Record")
Item = TypeVar("Item")


class Decoded(NamedTuple, Generic[Record]):
    """The result of decoding many records: `records` in order, and (index, fault) of every malformed record."""

    records: list[Record]
    malformed: list[tuple[int, Malformed]]


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    """Return the offset sync in one record of an offset-syncs topic; raise Malformed if it cannot be decoded."""
    return OffsetSync(*_topic_partition("offset sync", key), *_sync_value(value))


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    """Return the checkpoint in one record of a checkpoints topic; raise Malformed if it cannot be decoded."""
    return Checkpoint(*_checkpoint_key(key), *_checkpoint_value(value))


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat:
    """Return the heartbeat in one record of a heartbeats topic; raise Malformed if it cannot be decoded."""
    return Heartbeat(*_heartbeat_key(key), _heartbeat_value(value))


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Return an offset sync as the record's key and value; raise Malformed if these could not be decoded again."""
    kind = "offset sync"
    key = _string(kind, "topic", sync.topic) + _pack(kind, _INT32, sync.partition)
    _require_positions(kind, sync.partition, sync.upstream, sync.downstream)
    return key, _pack(kind, _SYNC_VALUE, sync.upstream, sync.downstream)


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Return a checkpoint as the record's key and value; raise Malformed if these could not be decoded again."""
    kind, (group, topic, partition, upstream, downstream, metadata) = "checkpoint", checkpoint
    _require_positions(kind, partition, upstream, downstream)
    key = _string(kind, "group", group, empty=True) + _string(kind, "topic", topic) + _pack(kind, _INT32, partition)
    return key, _pack(kind, _CHECKPOINT_VALUE, VERSION, upstream, downstream) + _string(
        kind, "metadata", metadata, empty=True
    )


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Return a heartbeat as the record's key and value; raise Malformed if these could not be decoded again."""
    kind = "heartbeat"
    _require_positions(kind, 0, heartbeat.timestamp)
    key = _string(kind, "source alias", heartbeat.source_alias) + _string(kind, "target alias", heartbeat.target_alias)
    return key, _pack(kind, _HEARTBEAT_VALUE, VERSION, heartbeat.timestamp)


def decode_offset_syncs(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded[OffsetSync]:
    """Return the offset syncs in many records of an offset-syncs topic, and the malformed records.

    Args:
        keys: the records' keys, in the topic's order.
        values: the records' values, as many as keys.
    """
    clean = _decode_clean_syncs(keys, values)
    if clean is not None:
        return Decoded(clean, [])
    return _bulk(lambda key: _topic_partition("offset sync", key), _sync_value, OffsetSync, keys, values)


def decode_checkpoints(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded[Checkpoint]:
    """Return the checkpoints in many records of a checkpoints topic, and the malformed records.

    Args:
        keys: the records' keys, in the topic's order.
        values: the records' values, as many as keys.
    """
    return _bulk(_checkpoint_key, _checkpoint_value, Checkpoint, keys, values)


class CheckpointColumns(NamedTuple):
    """Checkpoints as columns: `downstream` is the position of `group` on `partition` of the target topic `topic`.

    Attributes:
        malformed: number of malformed records; 0 if the newest record of every key is well-formed, because older
            records are not decoded then.
        read: number of records that were decoded one by one, if one of the newest is malformed; else 0.
    """

    group: list[str]
    topic: list[str]
    partition: list[int]
    upstream: list[int]
    downstream: list[int]
    malformed: int = 0
    read: int = 0


def newest_checkpoints(records: Iterable[tuple[bytes | None, bytes | None]]) -> CheckpointColumns:
    """Return the newest well-formed checkpoint of each group and partition; only the newest are in memory.

    Args:
        records: keys and values, in the topic's order; iterated a second time if the newest record of a key is
            malformed.
    """
    clean = _clean_checkpoints(dict(records))
    if clean is not None:
        return clean
    newest: dict[tuple[str, str, int], Checkpoint] = {}
    malformed = read = 0
    for portion in in_portions(records):
        decoded = decode_checkpoints(*zip(*portion, strict=True))
        newest |= {(c.group, c.topic, c.partition): c for c in decoded.records}
        malformed, read = malformed + len(decoded.malformed), read + len(portion)
    return CheckpointColumns(
        [c.group for c in newest.values()],
        [c.topic for c in newest.values()],
        [c.partition for c in newest.values()],
        [c.upstream for c in newest.values()],
        [c.downstream for c in newest.values()],
        malformed,
        read,
    )


def in_portions(records: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the records in lists of PORTION records, the last one shorter, so that one list is in memory at a time."""
    remaining = iter(records)
    while portion := list(islice(remaining, PORTION)):
        yield portion


def _clean_checkpoints(newest: dict[bytes | None, bytes | None]) -> CheckpointColumns | None:
    """Return the checkpoints of these records, decoded in bulk; None if a record has not MirrorMaker 2's form."""
    keys, values = list(newest), list(newest.values())
    if not (_all_bytes(keys) and _all_bytes(values)) or set(map(len, values)) - {_BARE_CHECKPOINT}:
        return None
    # One flat tuple for all rows: a million tuples would keep the garbage collector busy for seconds.
    # No function of the module struct: it would keep the compiled format, 170 bytes for each checkpoint.
    flat = Struct(">" + "hqqh" * len(newest)).unpack(b"".join(values))
    version, upstream, downstream, metadata = (list(flat[field::4]) for field in range(4))
    if set(version) - {VERSION} or set(metadata) - {0} or min(upstream + downstream, default=0) < 0:
        return None
    heads = [key[:-4] for key in keys]
    try:
        # Very many keys share few groups and topics: each distinct head (a key without its partition) is decoded once.
        decoded_heads = {head: _whole_head(key) for head, key in dict(zip(heads, keys, strict=True)).items()}
    except Malformed:
        return None
    groups_and_topics = list(map(decoded_heads.__getitem__, heads))
    partition = list(Struct(">" + "i" * len(newest)).unpack(b"".join([key[-4:] for key in keys])))
    return (
        CheckpointColumns(
            [group for group, _ in groups_and_topics],
            [topic for _, topic in groups_and_topics],
            partition,
            upstream,
            downstream,
        )
        if min(partition, default=0) >= 0
        else None
    )


def _all_bytes(parts: Sequence[bytes | None]) -> TypeGuard[Sequence[bytes]]:
    return set(map(type, parts)) <= {bytes}


def _whole_head(key: bytes) -> tuple[str, str]:
    """Return group and topic of a checkpoint's key; raise Malformed unless only the partition follows the topic."""
    group, topic, partition = _checkpoint_key(key)
    if encode_checkpoint(Checkpoint(group, topic, partition, 0, 0, ""))[0] != key:
        raise Malformed("checkpoint with more in its key than a group, a topic and a partition")
    return group, topic


def _decode_clean_syncs(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[OffsetSync] | None:
    """Return the offset syncs of these records, decoded in bulk; None if any record is malformed."""
    if len(keys) != len(values) or not _all_bytes(values) or set(map(len, values)) != {_SYNC_VALUE.size}:
        return None
    joined = b"".join(values)
    if max(joined[::8]) > 127:  # a sign bit
        return None
    try:
        heads = {key: tuple(_topic_partition("offset sync", key)) for key in set(keys)}
    except Malformed:
        return None
    make = OffsetSync._make
    return [make(heads[key] + pair) for key, pair in zip(keys, _SYNC_VALUE.iter_unpack(joined), strict=True)]


def _bulk(
    read_key: Callable[[bytes | None], tuple[Any, ...]],
    read_value: Callable[[bytes | None], tuple[Any, ...]],
    kind: Callable[..., Record],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> Decoded[Record]:
    # The topic has few distinct keys and millions of records: decoding each key only once halves the time.
    decoded_keys: dict[bytes | None, tuple[Any, ...]] = {}
    decoded: Decoded[Record] = Decoded([], [])
    append = decoded.records.append
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        try:
            head = decoded_keys.get(key)
            if head is None:
                head = decoded_keys[key] = read_key(key)
            append(kind(*head, *read_value(value)))
        except Malformed as fault:
            decoded.malformed.append((index, fault))
    return decoded


def _topic_partition(kind: str, key: bytes | None, at: int = 0) -> TopicPartition:
    data = _present(kind, "key", key)
    topic, at = _read_string(kind, "topic", data, at)
    (partition,) = _unpack(kind, "partition", _INT32, data, at)
    if not topic or partition < 0:
        raise Malformed(f"{kind} of topic {topic!a}, partition {partition}: no such partition can exist")
    return TopicPartition(topic, partition)


def _checkpoint_key(key: bytes | None) -> tuple[str, str, int]:
    group, at = _read_string("checkpoint", "group", _present("checkpoint", "key", key), 0)
    return group, *_topic_partition("checkpoint", key, at)


def _heartbeat_key(key: bytes | None) -> tuple[str, str]:
    data = _present("heartbeat", "key", key)
    source, at = _read_string("heartbeat", "source alias", data, 0)
    target, _ = _read_string("heartbeat", "target alias", data, at)
    if not source or not target:
        raise Malformed("heartbeat without an alias", seen=f"{source!a} to {target!a}")
    return source, target


def _sync_value(value: bytes | None) -> tuple[int, int]:
    upstream, downstream = _unpack("offset sync", "offsets", _SYNC_VALUE, _present("offset sync", "value", value), 0)
    if upstream < 0 or downstream < 0:
        _require_positions("offset sync", 0, upstream, downstream)
    return upstream, downstream


def _checkpoint_value(value: bytes | None) -> tuple[int, int, str]:
    data = _present("checkpoint", "value", value)
    version, upstream, downstream = _unpack("checkpoint", "offsets", _CHECKPOINT_VALUE, data, 0)
    _require_version("checkpoint", version)
    _require_positions("checkpoint", 0, upstream, downstream)
    metadata, _ = _read_string("checkpoint", "metadata", data, _CHECKPOINT_VALUE.size)
    return upstream, downstream, metadata


def _heartbeat_value(value: bytes | None) -> int:
    version, timestamp = _unpack("heartbeat", "timestamp", _HEARTBEAT_VALUE, _present("heartbeat", "value", value), 0)
    _require_version("heartbeat", version)
    _require_positions("heartbeat", 0, timestamp)
    return timestamp


def _present(kind: str, part: str, data: bytes | None) -> bytes:
    if data is None:
        raise Malformed(f"{kind} without a {part}", seen="a tombstone" if part == "value" else "a null key")
    return data


def _unpack(kind: str, field: str, shape: Struct, data: bytes, at: int) -> tuple[int, ...]:
    if len(data) < at + shape.size:
        raise Malformed(
            f"{kind} is cut off in its {field}", seen=f"{len(data)} bytes where {at + shape.size} are needed"
        )
    return shape.unpack_from(data, at)


def _read_string(kind: str, field: str, data: bytes, at: int) -> tuple[str, int]:
    (length,) = _unpack(kind, field, _INT16, data, at)
    start, end = at + _INT16.size, at + _INT16.size + length
    if length < 0 or end > len(data):
        raise Malformed(
            f"{kind} is cut off in its {field}", seen=f"a length of {length} with {len(data) - start} bytes left"
        )
    try:
        # One string for each name, however many records have it.
        return sys.intern(data[start:end].decode("utf-8")), end
    except UnicodeDecodeError as error:
        raise Malformed(f"{kind} whose {field} is not UTF-8", seen=f"byte {error.start} of {length}") from error


def _require_version(kind: str, version: int) -> None:
    if version != VERSION:
        raise Malformed(
            f"{kind} of version {version}",
            seen=f"only version {VERSION} is supported",
        )


def _require_positions(kind: str, *numbers: int) -> None:
    if min(numbers) < 0:
        raise Malformed(f"{kind} with a negative number", seen=str(min(numbers)))


def _string(kind: str, field: str, text: str, empty: bool = False) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Malformed(
            f"{kind} whose {field} cannot be written as UTF-8",
            seen=f"character {error.start}",
        ) from error
    if len(data) > LONGEST_STRING or not (data or empty):
        raise Malformed(
            f"{kind} whose {field} has {len(data)} bytes",
            seen=f"at most {LONGEST_STRING}{'' if empty else ', not empty'}",
        )
    return _INT16.pack(len(data)) + data


def _pack(kind: str, shape: Struct, *numbers: int) -> bytes:
    try:
        return shape.pack(*numbers)
    except Exception as error:
        raise Malformed(
            f"{kind} with a number out of range",
            seen=", ".join(map(str, numbers)),
        ) from error
