"""Kinds of topics that are difficult to replicate and translate, each with a seeded generator of records."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

WORDS = (
    "amber",
    "basalt",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "garnet",
    "harbor",
    "iris",
    "juniper",
    "kelp",
    "lagoon",
    "maple",
    "nectar",
    "onyx",
    "pepper",
    "quartz",
    "raven",
    "saffron",
    "tundra",
    "umber",
    "violet",
    "willow",
    "yarrow",
    "zephyr",
)
# A recent time, because retention would delete records with an old timestamp.
EQUAL_TIMESTAMP = int(time.time()) * 1000
COMPACTION = {
    "cleanup.policy": "compact", "segment.ms": "400", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01",
    # Long: a tombstone that the cleaner removes before MirrorMaker 2 has read the tombstone is never on the target.
    "min.compaction.lag.ms": "0", "delete.retention.ms": "120000",
}  # fmt: skip


class Draft(NamedTuple):
    """One record that is not sent yet; timestamps are milliseconds since 1970, 0 means the time of sending."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    id: str | None
    timestamp: int = 0


Drafts = Iterator[Draft]


@dataclass(frozen=True)
class Shape:
    """One kind of topic.

    Args:
        kind: the kind's name, which states the difficulty.
        partitions: number of partitions.
        size: records per partition at a scale of 1.0.
        draft: function that yields one partition's records: (random, topic, partition, count) -> drafts.
        configs: topic configs.
        waves: number of portions in which the topic is written; between two portions segments can roll.
        filled: share of the partitions that get records.
        cut: share of each partition's records that are deleted from its head after writing.
    """

    kind: str
    partitions: int
    size: int
    draft: Callable[[random.Random, str, int, int], Drafts]
    configs: dict[str, str] = field(default_factory=dict)
    waves: int = 1
    filled: float = 1.0
    cut: float = 0.0

    @property
    def compacted(self) -> bool:
        """Whether the topic is compacted, so that only the latest record of each key counts."""
        return self.configs.get("cleanup.policy") == "compact"

    @property
    def transactional(self) -> bool:
        """Whether the topic's records are written in transactions."""
        return self.kind == "transactional"


def record_id(topic: str, partition: int, number: int) -> str:
    """Return the id, unique within a workload, of record `number` of a partition."""
    return f"{topic}/{partition}/{number}"


def keyed_records(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield keyed records with the id in the value."""
    for number in range(count):
        name = record_id(topic, partition, number)
        yield Draft(
            partition, b"k%d" % rng.randrange(50), name.encode() + b" " + rng.randbytes(rng.randrange(80)), [], name
        )


def with_headers(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield records with repeated, empty, null and binary headers; about every tenth is a tombstone."""
    for number in range(count):
        name = record_id(topic, partition, number)
        headers: list[tuple[str, bytes | None]] = [
            ("id", name.encode()),
            ("twin", b"1"),
            ("twin", b"2"),
            ("empty", b""),
        ]
        headers += rng.choice([[], [("null", None)], [("bytes", rng.randbytes(9))], [("größe", b"\xff\x00\xfe")]])
        value = None if rng.random() < 0.1 else rng.randbytes(rng.randrange(60))
        yield Draft(partition, b"k%d" % rng.randrange(40), value, headers, name)


def compacted_records(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield records of few keys, each written several times; some are tombstones."""
    for number in range(count):
        name = record_id(topic, partition, number)
        key = b"k%d" % int(rng.triangular(0, max(2, count // 8), 0))
        value = None if rng.random() < 0.04 else name.encode() + b"=" + rng.randbytes(30).hex().encode()
        yield Draft(partition, key, value, [("id", name.encode())], name)


def identical_records(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield byte-identical records."""
    for _ in range(count):
        yield Draft(partition, b"same", b"the very same bytes", [("twin", b"yes")], None, EQUAL_TIMESTAMP)


def recurring_records(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield the same short sequence of contents, without ids, again and again."""
    length = rng.randrange(3, 9)
    for number in range(count):
        yield Draft(partition, None, b"block %d" % (number % length), [], None)


def equal_timestamps(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield distinct records with equal timestamps."""
    for draft in keyed_records(rng, topic, partition, count):
        yield draft._replace(timestamp=EQUAL_TIMESTAMP)


def large_records(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield records with values of 100 kB."""
    for number in range(count):
        name = record_id(topic, partition, number)
        yield Draft(partition, None, name.encode() + b" " + rng.randbytes(100_000), [], name)


def null_records(rng: random.Random, topic: str, partition: int, count: int) -> Drafts:
    """Yield records with null or empty keys and values; the id is in a header."""
    for number in range(count):
        name = record_id(topic, partition, number)
        yield Draft(
            partition, rng.choice([None, b"", b"k"]), rng.choice([None, b"", b"v"]), [("id", name.encode())], name
        )


SHAPES = (
    Shape("plain", 3, 3000, keyed_records),
    Shape("headers", 2, 1500, with_headers),
    Shape("compacted", 2, 4000, compacted_records, COMPACTION, waves=4),
    Shape("transactional", 2, 1600, keyed_records),
    Shape("identical", 1, 5000, identical_records),
    Shape("equal-timestamps", 2, 1500, equal_timestamps),
    Shape("empty", 3, 0, keyed_records),
    Shape("sparse", 4, 800, keyed_records, filled=0.5),
    Shape("dotted", 3, 1200, keyed_records),
    Shape("large", 2, 25, large_records),
    Shape("wide", 12, 400, keyed_records),
    Shape("append-time", 2, 1500, keyed_records, {"message.timestamp.type": "LogAppendTime"}),
    Shape("nulls", 2, 1500, null_records),
    Shape("recurring", 2, 2000, recurring_records),
    Shape("trimmed", 1, 2000, keyed_records, cut=0.35),
)


def topic_name(rng: random.Random, shape: Shape) -> str:
    """Return a random topic name; of the kind `dotted`, a name that seems to begin with a cluster's alias and dot."""
    word, other = rng.sample(WORDS, 2)
    suffix = f"{rng.randrange(16**4):04x}"
    if shape.kind == "dotted":
        return f"{word[:2]}.{other}-{word[-2:]}.v{rng.randrange(1, 9)}-{suffix}"
    return rng.choice(
        [
            f"{word}-{suffix}",
            f"{word}.{other}.{suffix}",
            f"{word}-{other}-{suffix}",
            f"{word.title()}{other.title()}{suffix}",
        ]
    )
