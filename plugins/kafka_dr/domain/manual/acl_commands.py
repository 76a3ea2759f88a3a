"""ACL entries as commands of kafka-acls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import NamedTuple

from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry
from kafka_dr.domain.kafka_model.search_end import SEARCH_END
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


def planned_change(adds: Iterable[str], removes: Iterable[str]) -> AclChange:
    """Return the change of ACL entries that a plan names as text."""
    return AclChange(tuple(map(entry_of, adds)), tuple(map(entry_of, removes)))


def change_commands(place: ToolAccess, change: AclChange) -> list[str]:
    """Return commands that make a change of ACL entries on the cluster `place`: first the additions."""
    return [*acl_commands(place, "add", change.adds), *acl_commands(place, "remove", change.removes)]


def acl_commands(place: ToolAccess, verb: str, entries: Iterable[AclEntry]) -> list[str]:
    """Return commands that add or remove (`verb`) exactly these ACL entries on the cluster `place`.

    ALLOW entries are added first and removed last, because a topic without any ACL entry may be open to everyone, and
    the topic's first ACL entry closes the topic to every principal that no ALLOW entry names. For the same reason one
    command has all operations of a principal on a resource. `SEARCH_END` has a command of its own, the first or last.
    """
    given = set(entries)
    if SEARCH_END in given and len(given) > 1:
        end, others = acl_commands(place, verb, [SEARCH_END]), acl_commands(place, verb, given - {SEARCH_END})
        return [*end, *others] if verb == "add" else [*others, *end]
    operations: dict[tuple[_Holder, str], list[str]] = {}
    for entry in sorted(given):
        holder = _Holder(entry.permission, entry.principal, entry.host, entry.resource_type, entry.pattern)
        operations.setdefault((holder, entry.name), []).append(entry.operation)
    names: dict[tuple[_Holder, tuple[str, ...]], list[str]] = {}
    for (holder, name), of_name in operations.items():
        names.setdefault((holder, tuple(of_name)), []).append(name)
    ordered = sorted(names.items(), key=lambda item: ((item[0][0].permission == "deny") == (verb == "add"), item))
    return [
        _acl_command(place, verb, holder, of_names, alike[first : first + _NAMES_AT_ONCE])
        for (holder, of_names), alike in ordered
        for first in range(0, len(alike), _NAMES_AT_ONCE)
    ]


class _Holder(NamedTuple):
    """The fields that ACL entries must have in common to fit into one command."""

    permission: str
    principal: str
    host: str
    resource_type: str
    pattern: str


def _acl_command(place: ToolAccess, verb: str, holder: _Holder, operations: Sequence[str], names: Sequence[str]) -> str:
    resources = (
        ["--cluster"]
        if holder.resource_type == "cluster"
        else [f"{_FLAGS[holder.resource_type]} {quote(name)}" for name in names]
    )
    words = [
        place.tool("kafka-acls.sh"), f"--{verb}", *(["--force"] if verb == "remove" else []),
        f"--{holder.permission}-principal {quote(holder.principal)}",
        f"--{holder.permission}-host {quote(holder.host)}",
        *(f"--operation {''.join(word.capitalize() for word in o.split('_'))}" for o in operations),
        f"--resource-pattern-type {holder.pattern}", *resources,
    ]  # fmt: skip
    return " ".join(words)
