"""The message of a step that did not do its work, from its entry in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return what was wrong, what was seen and what to do, as sentences."""
    parts = [
        failure["reason"],
        f"Seen: {failure['seen']}" if failure.get("seen") else "",
        f"Next: {failure['next_step']}" if failure.get("next_step") else "",
    ]
    return " ".join(part.rstrip(".") + "." for part in parts if part)
