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
    """Return the ACL entry whose text is in a plan; the reverse of `str(entry)`.

    Raises:
        BadInput: the text is no ACL entry.
    """
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise BadInput(
            "the plan names an ACL entry that cannot be read",
            text,
            "print the commands with the version of Switchback that wrote the plan",
        )
    permission, principal, operation, kind, pattern, name, host = match.groups()
    return AclEntry(kind, ast.literal_eval(name), pattern, principal, host, operation, permission)


def acl_commands(place: ToolAccess, verb: str, entries: Iterable[AclEntry]) -> list[str]:
    """Return commands that add or remove (`verb`) exactly these ACL entries on the cluster `place`.

    ALLOW entries are added first and removed last, because a topic without any ACL entry may be open to everyone, and
    the topic's first ACL entry closes the topic to every principal that no ALLOW entry names.
    """
    ordered = sorted(set(entries), key=lambda e: ((e.permission == "deny") == (verb == "add"), *kind_of(e), e.name))
    commands = []
    for _, alike in groupby(ordered, key=kind_of):
        entries_alike = list(alike)
        commands += [
            _acl_command(place, verb, entries_alike[i : i + _NAMES_AT_ONCE])
            for i in range(0, len(entries_alike), _NAMES_AT_ONCE)
        ]
    return commands


def kind_of(entry: AclEntry) -> tuple[str, ...]:
    """Return the fields that ACL entries must have in common to fit into one command."""
    return (entry.permission, entry.principal, entry.host, entry.operation, entry.resource_type, entry.pattern)


def _acl_command(place: ToolAccess, verb: str, entries: Sequence[AclEntry]) -> str:
    first = entries[0]
    operation = "".join(word.capitalize() for word in first.operation.split("_"))
    names = (
        ["--cluster"]
        if first.resource_type == "cluster"
        else [f"{_FLAGS[first.resource_type]} {quote(e.name)}" for e in entries]
    )
    words = [
        place.tool("kafka-acls.sh"), f"--{verb}", *(["--force"] if verb == "remove" else []),
        f"--{first.permission}-principal {quote(first.principal)}", f"--{first.permission}-host {quote(first.host)}",
        f"--operation {operation}", f"--resource-pattern-type {first.pattern}", *names,
    ]  # fmt: skip
    return " ".join(words)
