"""The ground truth of a workload: acknowledged records, and every group's positions.

Only the producers of the records write the ground truth, never the product, so that the checker compares the clusters
with independent data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]] | None

COMMITTED = "committed"
ABORTED = "aborted"
REMOVED = "removed"
#: Settings of idempotent producers. A restarted broker remembers the last batch of each producer alone: an older batch
#: that is sent again is acknowledged without an offset, and the ground truth needs the offset. So one batch at a time.
IDEMPOTENT = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 1}

_LENGTHS = struct.Struct(">qq")
_LENGTH = struct.Struct(">q")


def content_digest(key: bytes | None, value: bytes | None, headers: Headers = None) -> int:
    """Return a 64-bit digest of key, value and headers: the same for records of equal content only.

    Null and empty give different digests. The timestamp is left out, because with LogAppendTime a copy has another
    timestamp.
    """
    # Each part is preceded by its length: otherwise b"a" + b"bc" and b"ab" + b"c" would be the same content.
    parts = [
        _LENGTHS.pack(-1 if key is None else len(key), -1 if value is None else len(value)),
        key or b"",
        value or b"",
    ]
    for name, content in headers or ():
        # A header's name can hold any bytes; the Kafka client decodes invalid UTF-8 to surrogates.
        encoded = name.encode("utf-8", "surrogatepass")
        parts += [_LENGTHS.pack(len(encoded), -1 if content is None else len(content)), encoded, content or b""]
    digest: int = _LENGTH.unpack(blake2b(b"".join(parts), digest_size=8).digest())[0]
    return digest


def key_digest(key: bytes | None) -> int:
    """Return a 64-bit digest of a record's key, equal for equal keys only; null and empty give different digests."""
    return content_digest(key, None)


class TruthRecord(NamedTuple):
    """One record that the cluster acknowledged.

    Args:
        offset: the record's offset on the cluster that acknowledged it.
        digest: `content_digest` of key, value and headers.
        id: the id that the producer wrote into the record; None if the record has none.
        key: `key_digest` of the key; 0 if it was not computed.
        tombstone: the value is null.
        timestamp: the record's timestamp on the cluster, in milliseconds since 1970; 0 if it was not recorded.
        state: COMMITTED, ABORTED (with its transaction), or REMOVED (deleted from the log afterwards).
    """

    offset: int
    digest: int
    id: str | None
    key: int
    tombstone: bool
    timestamp: int
    state: str = COMMITTED


class Acknowledgement(NamedTuple):
    """One record that was acknowledged to a producer.

    Args:
        offset: the acknowledged offset.
        digest: `content_digest` of key, value and headers.
        id: the id that the producer wrote into the record.
        at: time at which the producer logged the acknowledgement, in milliseconds since 1970 by the producer's clock.
    """

    topic: str
    partition: int
    offset: int
    digest: int
    id: str
    at: int


@dataclass
class TopicTruth:
    """The ground truth of one topic.

    Args:
        name: the name under which clients write the topic.
        kind: kind of the topic (`Shape.kind`).
        partitions: number of partitions.
        compacted: only the latest record of each key counts.
        transactional: records are written in transactions.
        create_time: record timestamps are the producer's (CreateTime), not the broker's.
        records: by partition, the records in offset order.
    """

    name: str
    kind: str
    partitions: int
    compacted: bool = False
    transactional: bool = False
    create_time: bool = True
    records: dict[int, list[TruthRecord]] = field(default_factory=dict)

    def committed(self, partition: int) -> list[TruthRecord]:
        """Return a partition's committed records in offset order, without aborted and deleted records."""
        return [record for record in self.records.get(partition, []) if record.state == COMMITTED]

    def record_id(self, partition: int, offset: int) -> str | None:
        """Return the id of the record at an offset; None if no record is at this offset, or the record has no id."""
        return next((record.id for record in self.records.get(partition, []) if record.offset == offset), None)


@dataclass
class GroundTruth:
    """All topics, records and group positions that a workload wrote to one cluster.

    Args:
        seed: the workload's seed.
        cluster: the cluster's alias.
        topics: topics with their records, by name.
        positions: committed positions, by group, topic and partition.
        notes: by group, how its positions were committed.
    """

    seed: int
    cluster: str
    topics: dict[str, TopicTruth] = field(default_factory=dict)
    positions: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def place(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Store in this object the position that a group committed on a partition; commit nothing."""
        self.positions.setdefault(group, {}).setdefault(topic, {})[partition] = offset

    def placed(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (group, topic, partition, offset) of every position in this ground truth."""
        for group, topics in self.positions.items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    yield group, topic, partition, offset

    def take_in(self, other: GroundTruth) -> None:
        """Add the topics, records and positions of another ground truth of the same cluster."""
        self.topics.update(other.topics)
        self.notes.update(other.notes)
        for group, topic, partition, offset in other.placed():
            self.place(group, topic, partition, offset)

    def save(self, path: Path) -> None:
        """Write this ground truth as JSON to a temporary file and rename this file to `path`."""
        document = {"seed": self.seed, "cluster": self.cluster, "positions": self.positions, "notes": self.notes}
        document["topics"] = [vars(topic) for topic in self.topics.values()]
        aside = path.with_name(path.name + ".part")
        aside.write_text(json.dumps(document), encoding="utf-8")
        aside.replace(path)

    @classmethod
    def load(cls, path: Path) -> GroundTruth:
        """Return the ground truth that `save` wrote to `path`."""
        document = json.loads(path.read_text(encoding="utf-8"))
        truth = cls(document["seed"], document["cluster"], notes=document["notes"])
        for topic in document["topics"]:
            records = {int(p): [TruthRecord(*row) for row in rows] for p, rows in topic.pop("records").items()}
            truth.topics[topic["name"]] = TopicTruth(**topic, records=records)
        for group, topics in document["positions"].items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    truth.place(group, topic, int(partition), offset)
        return truth
