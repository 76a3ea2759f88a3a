"""Which source record a partition's last record on the target is a copy of.

A task that is cancelled has copied more records than Connect's stored offset says. When it is resumed at that offset,
it copies these records again. The last record of the target is therefore searched on the source, from the stored offset
on. The first equal record counts: a later one would skip records if two records are equal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CopiedTail:
    """How far one source partition is copied.

    Attributes:
        stored: the last replicated offset that Connect stores; None for none.
        copied: the offset of the source record of which the target's last record is a copy; None if the target has no
            record, or if the record was not found.
        proven: whether `copied` rests on the target's content.
    """

    stored: int | None
    copied: int | None
    proven: bool

    @property
    def lags(self) -> bool:
        """Whether Connect's stored offset is behind what was copied, so that records would be copied again."""
        return self.proven and self.copied is not None and (self.stored is None or self.stored < self.copied)

    @property
    def last(self) -> int | None:
        """The last replicated offset from which the flow goes on."""
        return self.copied if self.lags else self.stored
