"""A segment of two logs that one copied from the other."""

from __future__ import annotations

from typing import NamedTuple


class Segment(NamedTuple):
    """A stretch of the source's log and the target's copy of it; ends are exclusive, None is open.

    Attributes:
        copied_back: the source's records are copies of the target's; otherwise it is the other way round.
        drained: its last copy is of its last original, as was proven when the direction turned.
    """

    source_from: int = 0
    source_to: int | None = None
    target_from: int = 0
    target_to: int | None = None
    copied_back: bool = False
    drained: bool = False

    @property
    def closed(self) -> bool:
        """Whether the direction turned at its end, where all that the one log holds of it was in the other."""
        return self.source_to is not None
