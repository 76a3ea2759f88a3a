"""ACL entries as commands of kafka-acls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from shlex import quote

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.errors import BadInput

_NAMES_AT_ONCE = 50
_ENTRY = re.compile(
    r"(allow|deny) (.+) (\w+) (topic|group|transactional_id|cluster) (literal|prefixed) ('.*'|\".*\") from (\S+)",
    re.DOTALL,
)
_FLAGS = {"topic": "--topic", "group": "--group", "transactional_id": "--transactional-id"}


def entry_of(text: str) -> AclEntry:
    """The entry that a plan shows as text; the reverse of `str`."""
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise BadInput("the plan names an ACL entry that cannot be read", text, "look at the plan's version")
    permission, principal, operation, kind, pattern, name, host = found.groups()
    return AclEntry(kind, ast.literal_eval(name), pattern, principal, host, operation, permission)


def acl_commands(place: ToolAccess, verb: str, entries: Iterable[AclEntry]) -> list[str]:
    """Commands that add or remove exactly these entries.

    A topic without any entry may be open to everyone, and closed by the first: what allows comes first and goes last.
    """
    kept = sorted(set(entries), key=lambda e: ((e.permission == "deny") == (verb == "add"), *kind_of(e), e.name))
    found = []
    for _, alike in groupby(kept, key=kind_of):
        same = list(alike)
        found += [_acl_command(place, verb, same[i : i + _NAMES_AT_ONCE]) for i in range(0, len(same), _NAMES_AT_ONCE)]
    return found


def kind_of(entry: AclEntry) -> tuple[str, ...]:
    """What entries must have in common for one command."""
    return (entry.permission, entry.principal, entry.host, entry.operation, entry.resource_type, entry.pattern)


def _acl_command(place: ToolAccess, verb: str, entries: Sequence[AclEntry]) -> str:
    one = entries[0]
    operation = "".join(word.capitalize() for word in one.operation.split("_"))
    names = (
        ["--cluster"]
        if one.resource_type == "cluster"
        else [f"{_FLAGS[one.resource_type]} {quote(e.name)}" for e in entries]
    )
    words = [
        place.tool("kafka-acls.sh"), f"--{verb}", *(["--force"] if verb == "remove" else []),
        f"--{one.permission}-principal {quote(one.principal)}", f"--{one.permission}-host {quote(one.host)}",
        f"--operation {operation}", f"--resource-pattern-type {one.pattern}", *names,
    ]  # fmt: skip
    return " ".join(words)
