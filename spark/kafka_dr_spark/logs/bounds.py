"""Types for the start and end offsets of a partition's two logs, on the source and on the target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LogBounds:
    """Log starts and log ends (offsets) of a source partition and of its target partition.

    Attributes:
        topic: topic by its name on the source.
        partition: partition number, the same on both clusters.
        target_topic: topic by its name on the target.
        source_start: first offset of the source's log; None if unknown.
        cut_off: the source's log end once the source is fenced; None if unknown.
        target_start: first offset of the target's log; None if the target partition does not exist.
        boundary: the target's log end after MirrorMaker 2 has stopped; None if the target partition does not exist.
        drained: whether all records below the cut-off that a reader would get are proven to be on the target.
        complete: whether no source record below the cut-off is missing on the target. If False, positions that lie
            further below the cut-off are also matched from both logs' ends downwards.
        other_writer: whether another client than MirrorMaker 2 wrote to the target partition, or may have written.
        source_compacted: whether the source topic is compacted.
        target_compacted: whether the target topic is compacted.
        compare_timestamps: whether a record and its copy have the same timestamp; False for LogAppendTime topics.
        recreated: whether the source topic was recreated after its offset syncs were written.
    """

    topic: str
    partition: int
    target_topic: str
    source_start: int | None
    cut_off: int | None
    target_start: int | None
    boundary: int | None
    drained: bool
    complete: bool
    other_writer: bool
    source_compacted: bool
    target_compacted: bool
    compare_timestamps: bool
    recreated: bool

    @property
    def target_exists(self) -> bool:
        """Whether the target partition exists."""
        return self.target_start is not None and self.boundary is not None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SourceBounds(LogBounds):
    """Bounds whose log start and cut-off on the source are not None."""

    source_start: int
    cut_off: int


class TargetBounds(LogBounds):
    """Bounds of a partition that exists on the target."""

    target_start: int
    boundary: int


class FullBounds(SourceBounds, TargetBounds):
    """Bounds whose log starts and log ends are not None, on both clusters."""
