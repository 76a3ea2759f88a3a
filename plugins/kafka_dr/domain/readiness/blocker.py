"""What keeps clients from being moved now."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MOST_LISTED = 20


@dataclass(frozen=True)
class Blocker:
    """One closed gate: its name, why it is closed, what was seen, what to do."""

    gate: str
    reason: str
    seen: str
    next_step: str

    def as_dict(self) -> dict[str, str]:
        """The blocker as plain data."""
        return asdict(self)
