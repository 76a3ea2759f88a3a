"""All differences between source and target that concern clients, as plans and readiness documents have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from kafka_dr.domain.access.acl_differences import acl_differences
from kafka_dr.domain.access.differences import Difference, quota_differences, user_differences
from kafka_dr.domain.access.topic_differences import topic_differences
from kafka_dr.domain.manual.context import TARGET_SETTINGS, ToolAccess
from kafka_dr.domain.readiness.observation import Observation

#: How many differences a page or document has, and how many commands of each; a file has all.
_SHOWN, _COMMANDS = 20, 3

_KINDS: tuple[Callable[[Observation, ToolAccess], Iterator[Difference]], ...] = (
    user_differences,
    acl_differences,
    quota_differences,
    topic_differences,
)


def list_differences(o: Observation, servers: str) -> list[Difference]:
    """Return all differences: users, ACL entries, quotas, settings of topics.

    Args:
        servers: bootstrap servers of the target, for the commands.
    """
    target = ToolAccess(o.target.alias, servers, TARGET_SETTINGS)
    return [difference for kind in _KINDS for difference in kind(o, target)]


def brief_differences(differences: Sequence[Difference]) -> dict[str, Any]:
    """Return the number of differences (`count`), and the first ones with their first commands (`shown`)."""
    shown = [
        {"text": d.text, "commands": list(d.commands[:_COMMANDS]), "more_commands": max(0, len(d.commands) - _COMMANDS)}
        for d in differences[:_SHOWN]
    ]
    return {"count": len(differences), "shown": shown}


def whole_differences(differences: Sequence[Difference]) -> dict[str, Any]:
    """Return all differences with all commands, as JSON data for a file."""
    return {"differences": [asdict(difference) for difference in differences]}
