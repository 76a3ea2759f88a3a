"""The Markdown of a plan on applications' access to the target, and on how both clusters differ for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.manual.context import TARGET_SETTINGS
from kafka_dr.domain.plain_text import count_of, table_cell, visible_text


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
