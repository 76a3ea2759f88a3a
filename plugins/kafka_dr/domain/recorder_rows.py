"""Rows that the flight recorder writes for a flow: one table, one file per sample.

Invariants
1. A sample is one file: all of its rows are in the archive, or none.
2. A partition's target end is read before its source end. Therefore no copy of a record at or above `source_end` lies
   below `target_end`.
3. A row is written when it differs from the newest row of its kind and key. A whole sample repeats all rows; older
   files can therefore be deleted.
4. A value that could not be read has no row; the sample's row of kind `sample` says why. A missing row never means 0.
5. A position that a group no longer has is a row whose position is null. After a sample that lists all groups, older
   rows of groups do not count: a group or position that the newer sample lacks was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.sample_chain import ClusterIds
from kafka_dr.errors import ArchiveUnavailable

_K = TypeVar("_K", str, TopicPartition)
_V = TypeVar("_V")

#: Stands for the replicated offset if Connect has no offset of a partition: the partition's replication has not begun,
#: or the offset was deleted. None means that Connect's offsets could not be read.
NONE_KEPT = -1


class Kind(StrEnum):
    """What a row of the archive is about.

    SAMPLE: the sample itself. TOPIC: a topic that was deleted on the source. PARTITION: one partition of the flow.
    GROUP, POSITION: a consumer group, and one position of a group. SYNC, CHECKPOINT: an offset sync and a checkpoint of
    MirrorMaker 2. PAIR: a content pair.
    """

    SAMPLE = "sample"
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    POSITION = "position"
    SYNC = "sync"
    CHECKPOINT = "checkpoint"
    PAIR = "pair"


class PartitionSeen(NamedTuple):
    """One partition of the flow on source and target; a value is None if it could not be read or does not exist.

    Attributes:
        topic_id, target_topic_id: another id under the same name means that the topic was recreated with empty logs.
        replicated: the last replicated offset in Connect's offsets, up to a minute old; `NONE_KEPT` if Connect has no
            offset.
    """

    topic: str
    partition: int
    target_topic: str
    topic_id: str | None = None
    target_topic_id: str | None = None
    source_start: int | None = None
    source_end: int | None = None
    target_start: int | None = None
    target_end: int | None = None
    replicated: int | None = None


class RowPlace(NamedTuple):
    """A partition of an internal topic of MirrorMaker 2 that the recorder reads; a recreated topic has another id."""

    topic_id: str
    topic: str
    partition: int


class NewestRows(Generic[_K, _V]):
    """Remembers, by key, the newest value that the recorder wrote."""

    def __init__(self) -> None:
        self._known: dict[_K, _V] = {}

    def differing(self, seen: Mapping[_K, _V], whole: bool = False) -> dict[_K, _V]:
        """Return the values that differ from the values written last, and remember the returned values as written.

        Args:
            whole: return all values of `seen`, also values that do not differ.
        """
        changed = {key: value for key, value in seen.items() if whole or self._known.get(key) != value}
        self._known |= changed
        return changed

    @property
    def known(self) -> Mapping[_K, _V]:
        """The value that the recorder wrote last, by key."""
        return self._known

    def gone(self, seen: Iterable[_K]) -> list[_K]:
        """Return the keys that were written but are not in `seen`, sorted, and forget their values."""
        missing = sorted(set(self._known).difference(seen))
        for key in missing:
            del self._known[key]
        return missing


class Positions:
    """Remembers, by group, topic and partition, the newest position that the recorder wrote."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[tuple[str, int], int]] = {}

    def __contains__(self, group: object) -> bool:
        """Whether a group's positions were ever read."""
        return group in self._known

    def differing(
        self, group: str, held: Mapping[tuple[str, int], int], whole: bool = False
    ) -> dict[tuple[str, int], int | None]:
        """Return a group's positions to write, and remember them as written; None for a position that was deleted.

        Args:
            held: all positions that the group has now, by topic and partition.
            whole: return all of these positions, not only positions that differ from the position written last.
        """
        written, self._known[group] = self._known.get(group, {}), held
        changed = {place: position for place, position in held.items() if whole or written.get(place) != position}
        return {**changed, **dict.fromkeys(sorted(written.keys() - held.keys()))}

    def forget(self, group: str) -> None:
        """Forget a deleted group: if a group of this name comes back, all of its positions are new."""
        self._known.pop(group, None)


def commits_partition(group: str, partitions: int) -> int:
    """Return the partition of __consumer_offsets that holds a group, as Kafka's `partitionFor` computes it.

    Args:
        partitions: number of partitions of __consumer_offsets (`offsets.topic.num.partitions`).
    """
    code = 0
    for unit in _units(group):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def _units(text: str) -> list[int]:
    """Return a text's UTF-16 code units, of which Java's strings consist."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2)]


class RecorderRows:
    """Collects a sample's rows, as columns; a column that a kind of row does not use is null in its rows.

    Attributes:
        ids: cluster ids of source and target; None for a cluster that did not answer.
    """

    def __init__(self, at: int) -> None:
        """Begin a sample.

        Args:
            at: start of the sample, in milliseconds since 1970; written into every row.
        """
        self.at = at
        self.ids: ClusterIds = (None, None)
        self.columns: dict[str, list[object]] = {name: [] for name in COLUMNS}

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def add(self, kind: Kind, **values: object) -> None:
        """Add one row; `values`: column -> value."""
        self.extend(kind, **{name: [value] for name, value in values.items()})

    def extend(self, kind: Kind, **values: Sequence[object]) -> None:
        """Add rows of one kind; `values`: column -> the values of all rows, in the rows' order."""
        count = len(next(iter(values.values())))
        given: dict[str, Sequence[object]] = {"at": [self.at] * count, "kind": [kind.value] * count, **values}
        for name, column in self.columns.items():
            column.extend(given.get(name) or [None] * count)


COLUMNS = {
    "at": "int64",
    "kind": "string",
    "topic": "string",
    "partition": "int32",
    "group": "string",
    "target_topic": "string",
    "topic_id": "string",
    "target_topic_id": "string",
    "source_start": "int64",
    "source_end": "int64",
    "target_start": "int64",
    "target_end": "int64",
    "replicated": "int64",
    "position": "int64",
    "members": "int32",
    "state": "string",
    "upstream": "int64",
    "downstream": "int64",
    "records": "int64",
    "sequence": "int64",
    "details": "string",
}


def sample_details(details: str) -> dict[str, Any]:
    """Return the parsed JSON of the column `details`, which a sample's row of kind `sample` has.

    Raises:
        ArchiveUnavailable: the details are not of the recorder's form.
    """
    try:
        parsed = read_json(details)
    except (ValueError, TypeError):
        parsed = None
    if not isinstance(parsed, dict):
        raise ArchiveUnavailable(
            "a sample in the archive cannot be read",
            f"the details of the sample are {str(details)[:100]!a}",
            "find out which other process writes into the archive, then move the file with the sample out of the"
            " archive",
        )
    return parsed
