"""Segment of a partition: a source range and a target range of which one is the copy of the other."""

from __future__ import annotations

from typing import NamedTuple


class Segment(NamedTuple):
    """A source range and a target range, in offsets, of one partition; ends are exclusive, None is the log's end.

    One range is the copy of the other; a segment ends where the replication direction changes.

    Attributes:
        copied_back: the source's records are copies of the target's records; otherwise the target holds the copies.
        drained: whether it was proven, when the direction changed, that the last copy is of the last original.
        copied_to: set if the flow back still copies: target offset below which all originals are known to have copies;
            the originals from there on may have none.
    """

    source_from: int = 0
    source_to: int | None = None
    target_from: int = 0
    target_to: int | None = None
    copied_back: bool = False
    drained: bool = False
    copied_to: int | None = None

    @property
    def closed(self) -> bool:
        """Whether the segment has an end, because the direction changed, or because a flow back still copies."""
        return self.source_to is not None

    @property
    def complete(self) -> bool:
        """Whether the segment has an end, and all of its originals have copies."""
        return self.closed and self.copied_to is None
