"""Start and end offsets of both logs of a partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LogBounds:
    """Log starts and ends of a source partition and of its target partition; fields as in the ``bounds`` schema."""

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
    """Bounds that state the log start and the cut-off on the source."""

    source_start: int
    cut_off: int


class TargetBounds(LogBounds):
    """Bounds of a partition that exists on the target."""

    target_start: int
    boundary: int


class FullBounds(SourceBounds, TargetBounds):
    """Bounds that state the log starts and ends of both clusters."""
