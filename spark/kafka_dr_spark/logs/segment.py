"""A segment: a source range and a target range of which one was copied from the other."""

from __future__ import annotations

from typing import NamedTuple


class Segment(NamedTuple):
    """A range of the source's log and its copy on the target; ends are exclusive, None means open.

    Attributes:
        copied_back: the source's records are copies of the target's records; otherwise the target holds the copies.
        drained: the segment's last copy is a copy of its last original, proven when the direction changed.
    """

    source_from: int = 0
    source_to: int | None = None
    target_from: int = 0
    target_to: int | None = None
    copied_back: bool = False
    drained: bool = False

    @property
    def closed(self) -> bool:
        """Whether the direction changed at the segment's end; the copying log then lacked no record of the segment."""
        return self.source_to is not None
