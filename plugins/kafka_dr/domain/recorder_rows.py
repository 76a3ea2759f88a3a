"""What the flight recorder writes down of a flow: rows of one table, a file a sample.

Invariants
1. A sample is one file: what was seen together is there together, or not at all.
2. Of one partition the target's end was read before the source's: no copy of a record at or above `source_end` lies
   below `target_end`.
3. A row is written when it differs from the newest one of its kind and key; a whole sample repeats all of them, so that
   older files may go.
4. What could not be read has no row; the sample's own row says why. No row never means zero.
5. A position that a group has no more is a row without a number. Before a whole listing of groups no row counts: what
   that lacks is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ArchiveUnavailable

_K = TypeVar("_K", str, TopicPartition)
_V = TypeVar("_V")

#: What Connect keeps of a partition that it has not begun, or whose offset was deleted: another thing than not having
#: been told.
NONE_KEPT = -1


class Kind(StrEnum):
    """What a row tells."""

    SAMPLE = "sample"
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    POSITION = "position"
    SYNC = "sync"
    CHECKPOINT = "checkpoint"
    PAIR = "pair"


class PartitionSeen(NamedTuple):
    """One partition of the flow on both sides; None is what could not be read, or is not there.

    Attributes:
        topic_id, target_topic_id: another id under the same name is another topic: its history begins anew.
        replicated: the last replicated offset that Connect keeps, up to a minute old; `NONE_KEPT` where it keeps none.
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
    """Where MirrorMaker 2's own records are read; a topic made anew under its name has another id."""

    topic_id: str
    topic: str
    partition: int


class NewestRows(Generic[_K, _V]):
    """The newest value written down by key."""

    def __init__(self) -> None:
        self._known: dict[_K, _V] = {}

    def differing(self, seen: Mapping[_K, _V], whole: bool = False) -> dict[_K, _V]:
        """Return changes since the last call (everything if `whole`), and remember what was seen."""
        found = {key: value for key, value in seen.items() if whole or self._known.get(key) != value}
        self._known |= found
        return found

    @property
    def known(self) -> Mapping[_K, _V]:
        """What was written down last."""
        return self._known

    def gone(self, seen: Iterable[_K]) -> list[_K]:
        """Keys that were known and are not seen any more, sorted; they are forgotten."""
        left = sorted(set(self._known).difference(seen))
        for key in left:
            del self._known[key]
        return left


class Positions:
    """The positions written down, by group, topic and partition."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[tuple[str, int], int]] = {}

    def __contains__(self, group: object) -> bool:
        """Whether a group's positions were ever read."""
        return group in self._known

    def differing(
        self, group: str, held: Mapping[tuple[str, int], int], whole: bool = False
    ) -> dict[tuple[str, int], int | None]:
        """What must be written down of a group, from now on known; None is a position that it had and has no more.

        Args:
            held: all that it holds.
            whole: all of it must be.
        """
        known, self._known[group] = self._known.get(group, {}), held
        changed = {place: position for place, position in held.items() if whole or known.get(place) != position}
        return {**changed, **dict.fromkeys(sorted(known.keys() - held.keys()))}

    def forget(self, group: str) -> None:
        """The group is gone: what it holds when it comes back is new."""
        self._known.pop(group, None)


def commits_partition(group: str, partitions: int) -> int:
    """Find a group's partition of __consumer_offsets, as `GroupMetadataManager.partitionFor` does.

    Args:
        partitions: how many the topic has (`offsets.topic.num.partitions`).
    """
    code = 0
    for unit in _units(group):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def _units(text: str) -> list[int]:
    """A text's UTF-16 code units, of which Java's strings consist."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2)]


class RecorderRows:
    """A sample's rows as columns; a column that a kind does not have is null."""

    def __init__(self, at: int) -> None:
        """Begin a sample.

        Args:
            at: when it was begun, in milliseconds since 1970; every row bears it.
        """
        self.at = at
        self.columns: dict[str, list[object]] = {name: [] for name in COLUMNS}

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def add(self, kind: Kind, **values: object) -> None:
        """Add one row."""
        self.extend(kind, **{name: [value] for name, value in values.items()})

    def extend(self, kind: Kind, **values: Sequence[object]) -> None:
        """Add rows, given as columns of equal length."""
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
    """What a sample's own row says of it.

    Raises:
        ArchiveUnavailable: it is not what the recorder writes.
    """
    try:
        told = read_json(details)
    except (ValueError, TypeError):
        told = None
    if not isinstance(told, dict):
        raise ArchiveUnavailable(
            "a sample in the archive cannot be read",
            f"its details are {str(details)[:100]!a}",
            "find out who else writes into the archive; move the file that holds the sample out of it",
        )
    return told
