"""Lag of a flow by its logs: which source records the target does not have, per partition.

MirrorMaker 2 has no consumer group, and Connect stores the last replicated offsets only about once a minute. So the
target's newest record is found again on the source, by its content. What lies above it on the source is the lag.

Invariants
1. `certain` counts records that were read on the source above the newest copy on the target; `records` is never smaller
   than the true lag in offsets, and `certain` never larger.
2. A partition without a record above the newest copy has no lag, however old its records are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition


class SeenRecord(NamedTuple):
    """One record of the source: offset, content's digest, timestamp in ms since 1970 (None: none), size in bytes."""

    offset: int
    content: str
    timestamp: int | None
    size: int


@dataclass(frozen=True)
class SourceLog:
    """What is known of a partition on the source.

    Attributes:
        begin: offset above which records may be missing on the target, by the offsets that Connect stores.
        end: log end before the target was read; `end_after`: after the source was read.
    """

    begin: int
    end: int
    end_after: int


@dataclass(frozen=True)
class PartitionLag:
    """Lag of one partition.

    Attributes:
        records: largest possible number of source offsets without a copy.
        certain: number of records that were read and have no copy.
        bytes: `records` times the mean size of the records that were read; None if no record was read.
        since: timestamp of the oldest record without a copy, in ms since 1970; None without such a record, or if the
            record has no timestamp.
        found: whether the target's newest record was found on the source.
    """

    partition: TopicPartition
    records: int
    certain: int
    bytes: int | None
    since: int | None
    found: bool


def lag_of_partition(
    partition: TopicPartition,
    log: SourceLog,
    newest_copy: str | None,
    read: Sequence[SeenRecord],
    read_to: int,
    dated: bool = False,
) -> PartitionLag:
    """Return the lag of a partition.

    Args:
        newest_copy: digest of the target's newest record; None if the target never had a record.
        read: source records that were read, by offset.
        read_to: offset up to which the source was read.
        dated: whether digests cover timestamps, so that no equal record is expected above `read_to`.
    """
    same = [record.offset for record in read if record.content == newest_copy]
    # Equal records cannot be told apart: the first may be the copied one, or the last.
    first, last = (same[0], same[-1]) if same else (log.begin - 1, log.begin - 1)
    above = [record for record in read if record.offset > first]
    complete = read_to >= log.end_after
    is_known = newest_copy is None or (bool(same) and (complete or dated))
    certain = sum(1 for record in read if last < record.offset < log.end) if is_known else 0
    at_most = len(above) if complete else max(0, log.end_after - first - 1)
    mean = sum(record.size for record in above) / len(above) if above else None
    return PartitionLag(
        partition=partition,
        records=at_most,
        certain=min(certain, at_most),
        bytes=0 if not at_most else None if mean is None else round(mean * at_most),
        since=above[0].timestamp if above else None,
        found=bool(same),
    )


@dataclass(frozen=True)
class FlowLag:
    """Lag of a flow: the partitions that lag, and how many partitions were compared.

    Attributes:
        at: when the logs were compared, in seconds since 1970.
    """

    lagging: tuple[PartitionLag, ...]
    partitions: int
    at: float

    @property
    def records(self) -> int:
        """Largest possible number of source offsets without a copy."""
        return sum(lag.records for lag in self.lagging)

    @property
    def certain(self) -> int:
        """Number of records that were read and have no copy."""
        return sum(lag.certain for lag in self.lagging)

    @property
    def bytes(self) -> int | None:
        """Estimated bytes of these offsets; None if no record of a lagging partition was read."""
        sizes = [lag.bytes for lag in self.lagging]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def seconds(self) -> float | None:
        """Age of the oldest record without a copy; 0 without lag; None if a lagging partition's age is unknown."""
        since = [lag.since for lag in self.lagging]
        if None in since:
            return None
        return max((max(0.0, self.at - ms / 1000) for ms in since if ms is not None), default=0.0)

    def as_dict(self, most: int = 20) -> dict[str, Any]:
        """Return totals, the largest lag of one partition, and the `most` partitions that lag by most records."""
        sizes = [lag.bytes for lag in self.lagging if lag.bytes is not None]
        worst = sorted(self.lagging, key=lambda lag: (-lag.records, lag.partition))[:most]
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "partitions": self.partitions,
            "lagging": len(self.lagging),
            "largest_records": max((lag.records for lag in self.lagging), default=0),
            "largest_bytes": None if self.bytes is None else max(sizes, default=0),
            "worst": [self._row(lag) for lag in worst],
        }

    def _row(self, lag: PartitionLag) -> dict[str, Any]:
        seconds = None if lag.since is None else round(max(0.0, self.at - lag.since / 1000), 3)
        return {**lag.partition._asdict(), "records": lag.records, "bytes": lag.bytes, "seconds": seconds}


def in_flow(lags: Iterable[PartitionLag], partitions: int, at: float) -> FlowLag:
    """Return the lag of a flow, of the lag of its partitions; partitions without lag may be left out of `lags`."""
    return FlowLag(tuple(lag for lag in lags if lag.records), partitions, at)


def missing_copies(
    source: Mapping[TopicPartition, int],
    target: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, int | None],
) -> list[TopicPartition]:
    """Return the partitions whose records Connect counts as copied, although the target's log never had a record.

    The target's topic was deleted, and MirrorMaker 2 created it again; it copies only newer records into it.

    Args:
        source, target: log ends by source partition.
        copied: last replicated offset, by Connect; None without one.
    """
    return sorted(tp for tp, end in source.items() if end and target.get(tp) == 0 and copied.get(tp) is not None)


def unproven_begins(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    replicated: Mapping[TopicPartition, int | None],
) -> dict[TopicPartition, int]:
    """Return the first offset that may lack a copy, by partition that Connect's offsets do not prove copied."""
    begins = {tp: max(starts[tp], 0 if (last := replicated.get(tp)) is None else last + 1) for tp in ends}
    return {tp: begin for tp, begin in begins.items() if begin < ends[tp]}
