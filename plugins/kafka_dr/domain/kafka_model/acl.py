"""Kafka ACL entries, and the operations that they allow: the rules of Kafka's StandardAuthorizer.

Invariants
1. A matching DENY beats every ALLOW.
2. READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS; ALL implies everything.
3. `User:*` matches every principal; the literal name `*` matches every resource of its type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

ANY_PRINCIPAL = "User:*"
ANY_NAME = "*"
ANY_HOST = "*"

_IMPLIED = {
    "describe": {"read", "write", "delete", "alter"},
    "describe_configs": {"alter_configs"},
}


@dataclass(frozen=True, order=True)
class AclEntry:
    """One ACL binding; values in lower case as Kafka's tools print them.

    Attributes:
        resource_type: topic, group, transactional_id or cluster.
        name: resource name, or a prefix, or `*`.
        pattern: literal or prefixed.
        principal: such as `User:orders-app`.
        host: `*` or an address.
        operation: read, write, describe, ... or all.
        permission: allow or deny.
    """

    resource_type: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def covers(self, name: str) -> bool:
        """Whether the entry's resource pattern matches a resource name."""
        if self.pattern == "prefixed":
            return name.startswith(self.name)
        return self.name in (ANY_NAME, name)

    def concerns(self, principal: str) -> bool:
        """Whether the entry names this principal or every principal."""
        return self.principal in (ANY_PRINCIPAL, principal)

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.principal} {self.operation} {self.resource_type} {self.pattern} {self.name!r}"
            f" from {self.host}"
        )


@dataclass(frozen=True)
class AclRules:
    """All ACL entries of one cluster, and its authorizer's settings.

    Attributes:
        super_users: principals to whom the authorizer allows everything.
        allow_everyone: whether everyone may use a resource that no entry covers.
        authorizer: whether the cluster has an authorizer; without one everything is allowed.
    """

    entries: frozenset[AclEntry]
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    authorizer: bool = True

    def may(self, principal: str, operation: str, resource_type: str, name: str) -> bool:
        """Whether a principal may do an operation from at least one host; a DENY for a single host does not count."""
        if not self.authorizer or principal in self.super_users:
            return True
        matching = [e for e in self._by_type.get(resource_type, ()) if e.covers(name)]
        if not matching:
            return self.allow_everyone
        principal_entries = [e for e in matching if e.concerns(principal)]
        if any(
            e.permission == "deny" and e.host == ANY_HOST and e.operation in (operation, "all")
            for e in principal_entries
        ):
            return False
        granting = {operation, "all"} | _IMPLIED.get(operation, set())
        return any(e.permission == "allow" and e.operation in granting for e in principal_entries)

    def found_any(self, resource_type: str, name: str) -> bool:
        """Whether any ACL entry covers a resource; if none does, `allow_everyone` decides who may use it."""
        return any(e.covers(name) for e in self._by_type.get(resource_type, ()))

    @cached_property
    def _by_type(self) -> dict[str, list[AclEntry]]:
        """ACL entries by resource type: checks of ten thousand groups need not read ACL entries of other types."""
        by_type: dict[str, list[AclEntry]] = {}
        for entry in self.entries:
            by_type.setdefault(entry.resource_type, []).append(entry)
        return by_type

    def with_entries(self, added: Iterable[AclEntry]) -> AclRules:
        """Return a copy of the rules with additional ACL entries."""
        return AclRules(self.entries | frozenset(added), self.super_users, self.allow_everyone, self.authorizer)
