"""All differences between source and target that concern clients, as a plan and a readiness document show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kafka_dr.domain.access.acl_differences import acl_differences
from kafka_dr.domain.access.differences import Difference, quota_differences, user_differences
from kafka_dr.domain.access.topic_differences import topic_differences
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.plain_text import count_of, table_cell, visible_text
from kafka_dr.domain.readiness.observation import Observation

#: File with the login to the target that commands name, as printed plans do.
TARGET_SETTINGS = "target.properties"
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


def differences_markdown(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on how the plan's target differs for clients; [] for a plan that compares nothing."""
    differences, target = plan.get("differences", {}), plan["target"]
    if not differences.get("count"):
        return []
    lines = [
        (
            f"**For clients {target} differs from {plan['source']} in"
            f" {count_of(differences['count'], 'point')}**; none of them refuses the run. The commands change {target},"
            f" and read its login from the file {TARGET_SETTINGS}:"
        ),
        "",
    ]
    for difference in differences["shown"]:
        lines += [f"- {table_cell(difference['text'])}", *_commands(difference)]
    more = differences["count"] - len(differences["shown"])
    rest = f"{more} more points and all commands are" if more else "All commands are"
    return [*lines, "", f"{rest} in the file {differences['file']} beside the evidence.", ""]


def _commands(difference: Mapping[str, Any]) -> list[str]:
    """Return the commands as a block of code within a list; none if one of them would end the block."""
    commands = difference["commands"]
    if any(visible_text(command) != command or "\n" in command or "```" in command for command in commands):
        return []
    more = difference["more_commands"]
    return ["", "  ```", *(f"  {c}" for c in commands), *([f"  # and {more} more"] if more else []), "  ```"]


def access_markdown(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on what applications' own logins showed on the target; [] if none was tried."""
    access = plan.get("access", {})
    if not access:
        return []
    told = "; ".join(f"{table_cell(application)}: {shown}" for application, shown in sorted(access.items()))
    return [f"Shown on {plan['target']} with applications' own logins: {told}.", ""]
