"""Which ACL entries fence clients from a cluster, and which open the cluster to clients.

Invariants
1. MirrorMaker 2, the orchestrator and exempt principals are never denied by name. A right of User:* can only be denied
   to User:*, and only topic by topic: never on topics that MirrorMaker 2 writes for its own use.
2. A fence never removes another right than its own operation: if a topic had no ACL and everyone was allowed, the
   same request allows everyone to go on reading (a lone DENY would end "no ACL found" and with it all reading).
3. A fence lists only entries that the cluster lacks, so that lifting the fence restores the earlier entries exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_PRINCIPAL, AclEntry, AclRules

#: Represents a principal that no ACL entry names.
ANYONE = "User:anyone"

_STILL_ALLOWED_TO_EVERYONE = {
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
        """Deny writes to these topics."""
        return cls("topic", "write", frozenset(topics))

    @classmethod
    def group_reads(cls, groups: Iterable[str]) -> FenceScope:
        """Deny joining these groups, and committing for them."""
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
    """Client principals that have the scope's operation."""
    return frozenset(e.principal for e in granting_entries(rules, scope, exempt))


def fence_entries(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[AclEntry]:
    """Entries to add so that no client may do the scope's operation, without entries that exist already."""
    entries = [deny for grant in granting_entries(rules, scope, exempt) for deny in _denying_entries(grant, scope)]
    if rules.allow_everyone:
        entries += [
            e
            for name in sorted(scope.names)
            if not rules.found_any(scope.resource_type, name)
            for e in _entries_without_acl(scope, name)
        ]
    return [e for e in dict.fromkeys(entries) if e not in rules.entries]


def _denying_entries(grant: AclEntry, scope: FenceScope) -> Iterator[AclEntry]:
    """DENY entries for a grant; for User:* only name by name, so that MirrorMaker 2's own topics stay writable."""
    if grant.principal == ANY_PRINCIPAL:
        yield from (_deny(scope, name, "literal", ANY_PRINCIPAL) for name in sorted(scope.names) if grant.covers(name))
    else:
        yield _deny(scope, grant.name, grant.pattern, grant.principal)


def _entries_without_acl(scope: FenceScope, name: str) -> Iterator[AclEntry]:
    for operation in _STILL_ALLOWED_TO_EVERYONE.get(scope.resource_type, ()):
        yield AclEntry(scope.resource_type, name, "literal", ANY_PRINCIPAL, "*", operation, "allow")
    yield _deny(scope, name, "literal", ANY_PRINCIPAL)


def _deny(scope: FenceScope, name: str, pattern: str, principal: str) -> AclEntry:
    return AclEntry(scope.resource_type, name, pattern, principal, "*", scope.operation, "deny")


def opening_entries(rules: AclRules, scope: FenceScope, principals: frozenset[str]) -> list[AclEntry]:
    """DENY entries that opening removes: entries that deny these principals the scope's operation on its names.

    Entries against a single host are never made by a fence and stay.
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
    """Principals and names that these rules still allow, as `principal: name`; empty means fenced by the rules."""
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
    """Clients that lack the scope's operation on a name, as `principal: name`; empty means every client is allowed."""
    clients = (principals - {ANY_PRINCIPAL}) | ({ANYONE} if ANY_PRINCIPAL in principals else set())
    return [
        f"{p}: {n}"
        for p in sorted(clients)
        for n in sorted(scope.names)
        if not rules.may(p, scope.operation, scope.resource_type, n)
    ]
