"""A reason why clients cannot be moved now."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MOST_LISTED = 20


@dataclass(frozen=True)
class Blocker:
    """One failed readiness check: its name (`gate`), why it failed, what was observed, and what to do."""

    gate: str
    reason: str
    seen: str
    next_step: str

    def as_dict(self) -> dict[str, str]:
        """Return the blocker as a dict: gate, reason, seen, next_step."""
        return asdict(self)
