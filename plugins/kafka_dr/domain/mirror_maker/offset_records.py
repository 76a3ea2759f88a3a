"""Records of an offsets topic, in which Kafka Connect stores offsets of MirrorMaker 2's source connectors.

A record's key is `["CONNECTOR",{"cluster":"ALIAS","partition":0,"topic":"TOPIC"}]`, its value `{"offset":41}` or null.
A worker looks an offset up by the *bytes* of the key that it would write itself. So it passes over an entry whose key
has other bytes, such as a space more or another order. All releases from 2.4 on write the same bytes: compact JSON, the
members in the order cluster, partition, topic, in which Java's HashMap lists them.

A key belongs in the partition that the Java producer would choose for it. If the topic got more partitions later, an
older record of the key is in another partition, and a worker takes whichever record it reads last. So a change is
written to each partition that has the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_dr.domain.canonical_json import canonical_json, read_json
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

_SEED, _FACTOR, _SHIFT, _BITS = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF
_WORD = 4


class OffsetRecord(NamedTuple):
    """One record of an offsets topic: the topic's partition, and the record's key and value as bytes."""

    partition: int
    key: bytes | None
    value: bytes | None


def offset_key(connector: str, alias: str, source: TopicPartition) -> bytes:
    """Return the key under which a Connect worker stores the offset of one source partition.

    Args:
        connector: the source connector's name.
        alias: the connector's `source.cluster.alias`.
        source: topic and partition on the source cluster.
    """
    place = {"cluster": alias, "partition": source.partition, "topic": source.topic}
    return canonical_json([connector, place]).encode()


def offset_value(last_replicated: int | None) -> bytes | None:
    """Return the value that states the last replicated offset; None, a tombstone, for no offset."""
    return None if last_replicated is None else canonical_json({"offset": last_replicated}).encode()


def producer_partition(key: bytes, partitions: int) -> int:
    """Return the partition that the Java producer's default partitioner chooses for a key.

    Args:
        key: the record's key.
        partitions: number of the topic's partitions.
    """
    return (hash_key(key) & 0x7FFFFFFF) % partitions


def hash_key(content: bytes) -> int:
    """Return the hash that the Java producer computes of a key (`Utils.murmur2`), as an unsigned number of 32 bits."""
    mixed = (_SEED ^ len(content)) & _BITS
    whole = len(content) - len(content) % _WORD
    for begin in range(0, whole, _WORD):
        word = int.from_bytes(content[begin : begin + _WORD], "little") * _FACTOR & _BITS
        word = (word ^ word >> _SHIFT) * _FACTOR & _BITS
        mixed = (mixed * _FACTOR & _BITS) ^ word
    if whole < len(content):
        mixed = (mixed ^ int.from_bytes(content[whole:], "little")) * _FACTOR & _BITS
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _BITS
    return mixed ^ mixed >> 15


@dataclass(frozen=True)
class ConnectorRecords:
    """What an offsets topic holds of one source connector.

    Attributes:
        connector: the connector's name.
        partitions: number of the topic's partitions.
        by_alias: source alias -> source partition -> last value by the topic's partition, as last replicated offset;
            None for a tombstone.
        foreign: keys of the connector that no worker of MirrorMaker 2 writes, and that a worker does not look up.
    """

    connector: str
    partitions: int
    by_alias: dict[str, dict[TopicPartition, dict[int, int | None]]] = field(default_factory=dict)
    foreign: frozenset[bytes] = frozenset()

    @classmethod
    def read(cls, connector: str, partitions: int, records: Iterable[OffsetRecord]) -> ConnectorRecords:
        """Return what the records hold, which must be in order within each partition.

        Raises:
            ValueError: the value of an entry is none that MirrorMaker 2 could read; the error's text is the entry.
        """
        begin = canonical_json([connector]).encode()[:-1] + b","
        newest = {(r.partition, r.key): r.value for r in records if r.key is not None and r.key.startswith(begin)}
        found, foreign = cls(connector, partitions), set()
        for (partition, key), value in newest.items():
            place = _place_of(connector, key)
            if place is None:
                foreign.add(key)
                continue
            alias, source = place
            copies = found.by_alias.setdefault(alias, {}).setdefault(source, {})
            copies[partition] = _offset_of(key, value)
        return cls(connector, partitions, found.by_alias, frozenset(foreign))

    def offsets(self) -> dict[str, dict[TopicPartition, int | None]]:
        """Return source alias -> source partition -> last replicated offset; None for an offset that was deleted.

        Of records of one key in several partitions, the one in the producer's partition counts; if none is there, the
        smallest offset.
        """
        return {
            alias: {source: self._effective(alias, source, copies) for source, copies in sources.items()}
            for alias, sources in self.by_alias.items()
        }

    def changes(self, alias: str, last_replicated: Mapping[TopicPartition, int | None]) -> list[OffsetRecord]:
        """Return the records that are still to be written so that these offsets are stored; [] if all are.

        A tombstone is written only where a record of the key is.

        Args:
            alias: the connector's `source.cluster.alias`.
            last_replicated: by source partition; None deletes the offset.
        """
        records = []
        for source, last in last_replicated.items():
            key = offset_key(self.connector, alias, source)
            stored = self.by_alias.get(alias, {}).get(source, {})
            where = sorted({producer_partition(key, self.partitions), *stored})
            records += [OffsetRecord(p, key, offset_value(last)) for p in where if stored.get(p) != last]
        return records

    def _effective(self, alias: str, source: TopicPartition, copies: Mapping[int, int | None]) -> int | None:
        home = producer_partition(offset_key(self.connector, alias, source), self.partitions)
        return copies[home] if home in copies else min(copies.values(), key=lambda last: -1 if last is None else last)


def _place_of(connector: str, key: bytes) -> tuple[str, TopicPartition] | None:
    """Return source alias and source partition of a key; None if a worker would write the key with other bytes."""
    try:
        _, place = read_json(key)
        alias, source = place["cluster"], TopicPartition(place["topic"], place["partition"])
        own = offset_key(connector, alias, source)
    except (KeyError, TypeError, ValueError):
        return None
    return (alias, source) if own == key and type(source.partition) is int else None


def _offset_of(key: bytes, value: bytes | None) -> int | None:
    """Return the last replicated offset that a value states; ValueError for a value that states none."""
    if value is None:
        return None
    try:
        last = read_json(value)["offset"]
    except (KeyError, TypeError, ValueError):
        last = None
    if type(last) is not int:
        raise ValueError(f"{key.decode(errors='replace')}: {value.decode(errors='replace')}")
    return last
