"""Which ACL entries fence the clients of a cluster, and which open it.

Invariants
1. MirrorMaker 2, the orchestrator and exempt principals are never denied by name. A right that everyone holds can only
   be taken from everyone, and only topic by topic: never on topics that MirrorMaker 2 writes for its own use.
2. A fence never takes away another right than the one it names: where a topic had no ACL and everyone was allowed,
   the same request allows everyone to go on reading (a lone DENY would end "no ACL found" and with it all reading).
3. A fence lists only entries that are not there yet, so that lifting it leaves what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_PRINCIPAL, AclEntry, AclRules

#: Stands for a principal that no entry names.
ANYONE = "User:anyone"

_KEPT_FOR_EVERYONE = {
    "topic": ("read", "create", "delete", "alter", "describe", "alter_configs", "describe_configs"),
    "group": ("delete", "describe"),
}


@dataclass(frozen=True)
class FenceScope:
    """What a fence denies: one operation on the named resources of one type."""

    resource_type: str
    operation: str
    names: frozenset[str]

    @classmethod
    def writes(cls, topics: Iterable[str]) -> FenceScope:
        """Clients may not write to these topics."""
        return cls("topic", "write", frozenset(topics))

    @classmethod
    def group_reads(cls, groups: Iterable[str]) -> FenceScope:
        """Clients may not join these groups or commit for them."""
        return cls("group", "read", frozenset(groups))


def granting_entries(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[AclEntry]:
    """ALLOW entries that give clients the scope's operation on at least one of its names, sorted."""
    return sorted(
        e
        for e in rules.entries
        if e.permission == "allow"
        and e.resource_type == scope.resource_type
        and e.operation in (scope.operation, "all")
        and e.principal not in exempt | rules.super_users
        and any(e.covers(name) for name in scope.names)
    )


def client_principals(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> frozenset[str]:
    """Principals of clients that hold the scope's operation."""
    return frozenset(e.principal for e in granting_entries(rules, scope, exempt))


def fence_entries(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[AclEntry]:
    """Entries to add so that no client may do the scope's operation; those already there are left out."""
    wanted = [deny for grant in granting_entries(rules, scope, exempt) for deny in _denials(grant, scope)]
    if rules.allow_everyone:
        wanted += [
            e
            for name in sorted(scope.names)
            if not rules.found_any(scope.resource_type, name)
            for e in _closed(scope, name)
        ]
    return [e for e in dict.fromkeys(wanted) if e not in rules.entries]


def _denials(grant: AclEntry, scope: FenceScope) -> Iterator[AclEntry]:
    """A grant's mirror image; for everyone only name by name, so that MirrorMaker 2's own topics stay writable."""
    if grant.principal == ANY_PRINCIPAL:
        yield from (_deny(scope, name, "literal", ANY_PRINCIPAL) for name in sorted(scope.names) if grant.covers(name))
    else:
        yield _deny(scope, grant.name, grant.pattern, grant.principal)


def _closed(scope: FenceScope, name: str) -> Iterator[AclEntry]:
    for operation in _KEPT_FOR_EVERYONE.get(scope.resource_type, ()):
        yield AclEntry(scope.resource_type, name, "literal", ANY_PRINCIPAL, "*", operation, "allow")
    yield _deny(scope, name, "literal", ANY_PRINCIPAL)


def _deny(scope: FenceScope, name: str, pattern: str, principal: str) -> AclEntry:
    return AclEntry(scope.resource_type, name, pattern, principal, "*", scope.operation, "deny")


def opening_entries(rules: AclRules, scope: FenceScope, principals: frozenset[str]) -> list[AclEntry]:
    """DENY entries that keep these principals from the scope's operation on its names: what opening removes.

    Entries against a single host are somebody else's doing and stay.
    """
    return sorted(
        e
        for e in rules.entries
        if e.permission == "deny"
        and e.host == ANY_HOST
        and e.resource_type == scope.resource_type
        and e.operation == scope.operation
        and (e.principal in principals or e.principal == ANY_PRINCIPAL)
        and any(e.covers(name) for name in scope.names)
    )


def still_allowed(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[str]:
    """Principals and names that a fence with these rules would still let through; empty means fenced by the rules."""
    if not rules.authorizer:
        return [f"anyone: {name}" for name in sorted(scope.names)]
    suspects = {e.principal for e in rules.entries if e.permission == "allow"} - exempt - rules.super_users
    probes = sorted((suspects - {ANY_PRINCIPAL}) | {ANYONE})
    return [
        f"{p}: {n}"
        for p in probes
        for n in sorted(scope.names)
        if rules.may(p, scope.operation, scope.resource_type, n)
    ]


def refused_to_clients(rules: AclRules, scope: FenceScope, principals: frozenset[str]) -> list[str]:
    """Clients that lack the scope's operation on a name, as `principal: name`; empty means all are let in."""
    named = (principals - {ANY_PRINCIPAL}) | ({ANYONE} if ANY_PRINCIPAL in principals else set())
    return [
        f"{p}: {n}"
        for p in sorted(named)
        for n in sorted(scope.names)
        if not rules.may(p, scope.operation, scope.resource_type, n)
    ]
