"""Clients' ACL entries that only one of both clusters has, in effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kafka_dr.domain.access.differences import Difference
from kafka_dr.domain.drill.names import DRILL
from kafka_dr.domain.fencing.fence import FenceScope, opening_entries
from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_NAME, ANY_PRINCIPAL, AclEntry, implied_by
from kafka_dr.domain.manual.acl_commands import acl_commands
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.vocabulary import EXEMPT_TOPIC, MARKER_PRINCIPAL

_NAMED = 3
#: Operations whose ALLOW entries give another operation, too.
_IMPLYING = ("read", "write", "delete", "alter", "alter_configs")


def acl_differences(o: Observation, target: ToolAccess) -> Iterator[Difference]:
    """Yield a difference for each client principal with ACL entries that only one cluster has.

    Compared is the target as open_target leaves it. An entry that another entry of the other cluster includes is no
    difference. Left out are exempt principals, Switchback's own entries, and those on mirrored topics that have other
    names on the other cluster.

    Args:
        target: how Kafka's tools reach the target.
    """
    if not (o.source.rules.authorizer and o.target.rules.authorizer):
        return
    here = {entry for entry in o.source.rules.entries if _concerns_clients(o, entry)}
    there = {entry for entry in _opened(o) if _concerns_clients(o, entry)}
    for verb, entries, other in (("add", here - there, there), ("remove", there - here, here)):
        included, by_holder = _Included(other), defaultdict[tuple[str, str], list[AclEntry]](list)
        for entry in entries:
            if not included.includes(entry):
                by_holder[entry.principal, entry.permission].append(entry)
        for (principal, permission), held in sorted(by_holder.items()):
            commands = tuple(acl_commands(target, verb, held))
            yield Difference(_text(o, principal, permission, sorted(held), verb), commands)


def _text(o: Observation, principal: str, permission: str, entries: list[AclEntry], verb: str) -> str:
    has, lacks = (o.source.alias, o.target.alias) if verb == "add" else (o.target.alias, o.source.alias)
    entries_text = f"{len(entries)} {permission.upper()} {'entry' if len(entries) == 1 else 'entries'}"
    more = (permission == "allow") == (verb == "remove")
    meaning = f"may do {'more' if more else 'less'} on {o.target.alias} than on {o.source.alias}"
    return (
        f"{principal} has {entries_text} on {has} that {lacks} lacks, and so {meaning}:"
        f" {first_few(entries, _NAMED, separator='; ')}."
    )


def _concerns_clients(o: Observation, entry: AclEntry) -> bool:
    exempt = entry.principal in o.exempt[o.source.alias] | o.exempt[o.target.alias] | {MARKER_PRINCIPAL}
    return not (exempt or _is_own(entry.name) or _is_copy(o, entry))


def _is_own(name: str) -> bool:
    return name.startswith("__switchback") or name == EXEMPT_TOPIC or DRILL in name


def _is_copy(o: Observation, entry: AclEntry) -> bool:
    """Whether an entry is about mirrored topics, which have other names on the other cluster."""
    aliases = (f"{alias}{o.naming_separator}" for alias in (o.source.alias, o.target.alias))
    return o.naming_policy == "default" and entry.resource_type == "topic" and entry.name.startswith(tuple(aliases))


def _opened(o: Observation) -> frozenset[AclEntry]:
    """Return the target's ACL entries as open_target leaves them."""
    rules, fence = o.target.rules, o.target_fence
    principals = frozenset(entry.principal for entry in rules.entries)
    scopes = (FenceScope.writes(o.scope), FenceScope.group_reads(o.groups))
    denials = [entry for scope in scopes for entry in opening_entries(rules, scope, principals)]
    return rules.without_entries([*denials, *fence.adds]).with_entries(fence.removes).entries


class _Included:
    """Tells whether entries of one cluster include an entry of the other one."""

    def __init__(self, entries: Iterable[AclEntry]) -> None:
        self._literal: dict[tuple[str, ...], set[str]] = defaultdict(set)
        #: By the length of the prefix, so that a name is looked up once for each length.
        self._prefixes: dict[tuple[str, ...], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for entry in entries:
            key = self._key(entry, entry.principal, entry.host, entry.operation)
            if entry.pattern == "prefixed":
                self._prefixes[key][len(entry.name)].add(entry.name)
            else:
                self._literal[key].add(entry.name)

    @staticmethod
    def _key(entry: AclEntry, principal: str, host: str, operation: str) -> tuple[str, ...]:
        return entry.permission, entry.resource_type, principal, host, operation

    def includes(self, entry: AclEntry) -> bool:
        """Whether one other entry, for as many principals, hosts, operations and names or more, has the same effect."""
        stronger = {entry.operation, "all"}
        if entry.permission == "allow":
            stronger |= {o for o in _IMPLYING if implied_by(o, (entry.operation,))}
        return any(
            self._covers(self._key(entry, principal, host, operation), entry)
            for principal in {entry.principal, ANY_PRINCIPAL}
            for host in {entry.host, ANY_HOST}
            for operation in stronger
        )

    def _covers(self, key: tuple[str, ...], entry: AclEntry) -> bool:
        literal = self._literal.get(key, ())
        if ANY_NAME in literal or (entry.pattern == "literal" and entry.name in literal):
            return True
        if key not in self._prefixes or (entry.pattern == "literal" and entry.name == ANY_NAME):
            return False
        return any(entry.name[:length] in prefixes for length, prefixes in self._prefixes[key].items())
