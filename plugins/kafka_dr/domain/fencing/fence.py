"""Which ACL entries fence clients from a cluster, and which open the cluster to clients.

`exempt` are the principals that a fence leaves alone: MirrorMaker 2's, the orchestrator's and the exempt principals of
the topology. All other principals are clients.

Invariants
1. No DENY entry names MirrorMaker 2, the orchestrator or an exempt principal. Against an ALLOW entry for User:*, DENY
   entries for User:* are added, one for each fenced topic: never one that covers MirrorMaker 2's internal topics.
2. A fence takes away no right but its own operation. If everyone may use a topic because it has no ACL entry, the fence
   also adds ALLOW entries for everyone: with a DENY as the topic's only ACL entry, no client could read the topic.
3. A fence lists only ACL entries that the cluster lacks; therefore lifting it restores the earlier ACL entries exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_PRINCIPAL, AclEntry, AclRules

#: Stands for any principal that no ACL entry names.
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
        """Return the scope of a fence that denies writes to these topics."""
        return cls("topic", "write", frozenset(topics))

    @classmethod
    def group_reads(cls, groups: Iterable[str]) -> FenceScope:
        """Return the scope of a fence that denies joining these groups and committing positions for them."""
        return cls("group", "read", frozenset(groups))


def granting_entries(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[AclEntry]:
    """Return the ALLOW entries that give clients the scope's operation on at least one of its names, sorted.

    Args:
        exempt: principals that are no clients, such as MirrorMaker 2's and the orchestrator's.
    """
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
    """Return the clients' principals that an ALLOW entry gives the scope's operation on at least one of its names."""
    return frozenset(e.principal for e in granting_entries(rules, scope, exempt))


def fence_entries(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[AclEntry]:
    """Return the ACL entries that the cluster lacks to refuse the scope's operation to every client."""
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
    """Yield the DENY entries against one ALLOW entry.

    Against an ALLOW entry for User:* each DENY entry covers one name, so that MirrorMaker 2's topics stay writable.
    """
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
    """Return the DENY entries that refuse the scope's operation on its names to these principals, sorted.

    DENY entries against a single host are not returned, because no fence adds such entries.
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
    """Return which clients may still do the scope's operation, as `principal: name`; empty if all are fenced."""
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
    """Return which clients may not do the scope's operation, as `principal: name`; empty if all may on every name."""
    clients = (principals - {ANY_PRINCIPAL}) | ({ANYONE} if ANY_PRINCIPAL in principals else set())
    return [
        f"{p}: {n}"
        for p in sorted(clients)
        for n in sorted(scope.names)
        if not rules.may(p, scope.operation, scope.resource_type, n)
    ]
