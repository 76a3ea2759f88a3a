"""Which ACL entries fence clients from a cluster, and which open the cluster to clients.

`exempt` are the principals that a fence leaves alone: MirrorMaker 2's, the orchestrator's and the exempt principals of
the topology. All other principals are clients. DENY beats ALLOW, so no ALLOW entry helps an exempt principal beside a
DENY entry for User:*.

Invariants
1. A fence changes one answer of the authorizer only: whether a client may do the scope's operation on the scope's
   names. Exempt principals keep every right, and every principal keeps all other operations and names; but names that
   are created while ALLOW entries for User:* are replaced refuse clients.
2. A fence adds only ACL entries that the cluster lacks, and removes only ALLOW entries for User:*; so lifting the fence
   restores the earlier ACL entries exactly.
3. Every entry that a fence adds to refuse an operation is literal on a name of the scope; but a group whose name has
   a slash is denied by the patterns of the client's own ALLOW entries, also on other groups under these patterns. A
   scope that is `literal` has no such exception.
4. An entry on a group whose name sorts below `*` is added after `SEARCH_END`, and removed before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafka_dr.domain.kafka_model.acl import (
    ANY_HOST,
    ANY_PRINCIPAL,
    AclEntry,
    AclRules,
    ResourceNames,
    implied_by,
)
from kafka_dr.domain.kafka_model.search_end import SEARCH_END, need_search_end, order_additions

#: Stands for any principal that no ACL entry names.
ANYONE = "User:anyone"
#: The principal of connections without a login.
ANONYMOUS = "User:ANONYMOUS"

#: All operations on a type of resource.
_OPERATIONS = {
    "topic": ("read", "write", "create", "delete", "alter", "describe", "alter_configs", "describe_configs"),
    "group": ("read", "delete", "describe", "alter_configs", "describe_configs"),
}


@dataclass(frozen=True)
class FenceScope:
    """What a fence denies: one operation on the named resources of one type.

    Attributes:
        literal: whether nothing may be denied on any other name.
    """

    resource_type: str
    operation: str
    names: frozenset[str]
    literal: bool = False

    @classmethod
    def writes(cls, topics: Iterable[str]) -> FenceScope:
        """Return the scope of a fence that denies writes to these topics."""
        return cls("topic", "write", frozenset(topics))

    @classmethod
    def group_reads(cls, groups: Iterable[str], literal: bool = False) -> FenceScope:
        """Return the scope of a fence that denies joining these groups and committing positions for them.

        Args:
            literal: whether no other group may be denied anything.
        """
        return cls("group", "read", frozenset(groups), literal)

    @property
    def other_operations(self) -> tuple[str, ...]:
        """All operations on the resource type but the one that the fence denies."""
        return tuple(operation for operation in _OPERATIONS[self.resource_type] if operation != self.operation)


class FenceMode(StrEnum):
    """How the use of a name is refused to clients; the values stand in plans."""

    #: Every exempt principal is a super user, whom no entry binds: a DENY entry for User:* refuses all others.
    DENY_EVERYONE = "denied to everyone but super users"
    #: Named principals have the right: a DENY entry for each of them.
    DENY_CLIENTS = "denied to each client by name"
    #: No entry covers the name, and the brokers then allow everything: the first ALLOW entry ends that.
    FIRST_ENTRY = "allowed to exempt principals only, by the first ACL entries"
    #: ALLOW entries for User:* give the right: entries for everything else take their place.
    REPLACE_GRANTS = "taken from everyone, by replacing ALLOW entries for User:*"


@dataclass(frozen=True)
class FenceChanges:
    """The ACL changes that fence a scope.

    Attributes:
        added: entries to add, which the cluster lacks; all entries of one resource stand together.
        replaced: ALLOW entries for User:* to remove as soon as `added` are read back.
        modes: number of the scope's names by mode; a name may need two modes.
    """

    added: tuple[AclEntry, ...] = ()
    replaced: tuple[AclEntry, ...] = ()
    modes: Mapping[FenceMode, int] = field(default_factory=dict)


def count_modes(fences: Iterable[FenceChanges]) -> dict[str, int]:
    """Return mode -> number of names in several fences."""
    counted: Counter[str] = Counter()
    for fence in fences:
        counted.update({mode.value: count for mode, count in fence.modes.items()})
    return dict(sorted(counted.items()))


def fence_changes(
    rules: AclRules, scope: FenceScope, exempt: frozenset[str], existing: Collection[str] = ()
) -> FenceChanges:
    """Return the ACL changes after which no client may do the scope's operation on the scope's names.

    If every exempt principal is a super user, whom no entry binds, one DENY entry for User:* fences a name. Otherwise
    each name is fenced by what now lets clients use it: no entry at all, entries for User:*, or entries for named
    principals.

    Args:
        existing: names of all resources of the scope's type on the cluster. On those outside the scope everyone keeps
            the operation when ALLOW entries for User:* are replaced.
    """
    if not rules.authorizer or not scope.names:
        return FenceChanges()
    unlisted = rules.rights(scope.operation, scope.resource_type, scope.names).names_without_entry()
    unlisted = unlisted if rules.allow_everyone else []
    spared = sorted(exempt - rules.super_users)
    if not spared:
        denied = [_deny(scope, name, ANY_PRINCIPAL) for name in sorted(scope.names)]
        added = _lacking(rules, [*_other_operations(scope, unlisted), *denied])
        return FenceChanges(added, modes={FenceMode.DENY_EVERYONE: len(denied)})
    replaced = grants_to_everyone(rules, scope)
    added = _lacking(
        rules,
        [
            *_other_operations(scope, unlisted),
            *(_allow(scope, name, principal) for name in unlisted for principal in spared),
            *(entry for grant in replaced for entry in _replacements(grant, scope, spared, existing)),
        ],
    )
    narrowed = rules.with_entries(added).without_entries(replaced)
    rights = narrowed.rights(scope.operation, scope.resource_type, scope.names)
    clients = rights.granted_principals() - exempt - rules.super_users - {ANY_PRINCIPAL}
    allowed = {client: rights.names_allowed(client) for client in sorted(clients)}
    denied = [entry for client, names in allowed.items() for entry in _denials(narrowed, scope, client, names)]
    named = {
        FenceMode.DENY_CLIENTS: len({name for names in allowed.values() for name in names}),
        FenceMode.FIRST_ENTRY: len(unlisted),
        FenceMode.REPLACE_GRANTS: len({name for grant in replaced for name in scope.names if grant.covers(name)}),
    }
    modes = {mode: count for mode, count in named.items() if count}
    return FenceChanges(_lacking(rules, [*added, *denied]), tuple(replaced), modes)


def client_principals(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> frozenset[str]:
    """Return the clients' principals that an ALLOW entry gives the scope's operation on at least one of its names.

    User:* is among them if everyone may use a name because no entry covers the name.

    Args:
        exempt: principals that are no clients, such as MirrorMaker 2's and the orchestrator's.
    """
    rights = rules.rights(scope.operation, scope.resource_type, scope.names)
    everyone = {ANY_PRINCIPAL} if rules.allow_everyone and rights.names_without_entry() else set()
    return (rights.granted_principals() | everyone) - exempt - rules.super_users


def grants_to_everyone(rules: AclRules, scope: FenceScope) -> list[AclEntry]:
    """Return the ALLOW entries for User:* that give the scope's operation on at least one of its names, sorted."""
    names = ResourceNames(scope.names)
    return sorted(
        e
        for e in rules.entries
        if (e.permission, e.resource_type, e.principal) == ("allow", scope.resource_type, ANY_PRINCIPAL)
        and e.operation in (scope.operation, "all")
        and names.covered_by(e)
    )


def _replacements(
    grant: AclEntry, scope: FenceScope, spared: Iterable[str], existing: Iterable[str]
) -> Iterator[AclEntry]:
    """Yield the ALLOW entries that keep all that an entry for User:* gave, but the operation on the scope's names."""
    for operation in implied_by(grant.operation, scope.other_operations):
        yield replace(grant, operation=operation)
    for principal in spared:
        yield replace(grant, operation=scope.operation, principal=principal)
    for name in sorted(set(existing) - scope.names):
        if grant.covers(name):
            yield replace(grant, operation=scope.operation, name=name, pattern="literal")


def _denials(rules: AclRules, scope: FenceScope, client: str, names: Iterable[str]) -> Iterator[AclEntry]:
    """Yield DENY entries against a client: literal on each name, but for names with a slash.

    A name with a slash is denied by the patterns of the client's ALLOW entries that cover the name, unless the scope is
    literal. The authorizer of brokers with ZooKeeper stores no literal entry for a group whose name has a slash.
    """
    names = set(names)
    with_slash = set() if scope.literal else {name for name in names if "/" in name}
    for name in sorted(names - with_slash):
        yield _deny(scope, name, client)
    for entry in sorted(rules.entries) if with_slash else ():
        if (
            (entry.permission, entry.resource_type, entry.principal) == ("allow", scope.resource_type, client)
            and entry.operation in (scope.operation, "all")
            and any(entry.covers(name) for name in with_slash)
        ):
            yield _deny(scope, entry.name, client, entry.pattern)


def _other_operations(scope: FenceScope, names: Iterable[str]) -> Iterator[AclEntry]:
    """Yield entries that let everyone go on with all operations but the scope's on names without any entry."""
    for name in names:
        for operation in scope.other_operations:
            yield AclEntry(scope.resource_type, name, "literal", ANY_PRINCIPAL, ANY_HOST, operation, "allow")


def _lacking(rules: AclRules, entries: Iterable[AclEntry]) -> tuple[AclEntry, ...]:
    """Return the entries that the cluster lacks, each once, those of one resource together; `SEARCH_END` first."""
    wanted = list(entries)
    if need_search_end(wanted):
        wanted.append(SEARCH_END)
    ordered = order_additions(sorted(wanted, key=lambda e: (e.name, e.pattern)))
    return tuple(e for e in ordered if e not in rules.entries)


def _allow(scope: FenceScope, name: str, principal: str) -> AclEntry:
    return AclEntry(scope.resource_type, name, "literal", principal, ANY_HOST, scope.operation, "allow")


def _deny(scope: FenceScope, name: str, principal: str, pattern: str = "literal") -> AclEntry:
    return AclEntry(scope.resource_type, name, pattern, principal, ANY_HOST, scope.operation, "deny")


def opening_entries(rules: AclRules, scope: FenceScope, principals: frozenset[str]) -> list[AclEntry]:
    """Return the DENY entries that refuse the scope's operation on its names to these principals, sorted.

    DENY entries against a single host are not returned, because no fence adds such entries.
    """
    names = ResourceNames(scope.names)
    return sorted(
        e
        for e in rules.entries
        if (e.permission, e.host, e.resource_type) == ("deny", ANY_HOST, scope.resource_type)
        and e.operation == scope.operation
        and (e.principal in principals or e.principal == ANY_PRINCIPAL)
        and names.covered_by(e)
    )


def still_allowed(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> list[str]:
    """Return which clients may still do the scope's operation, as `principal: name`; empty if all are fenced."""
    if not rules.authorizer:
        return [f"anyone: {name}" for name in sorted(scope.names)]
    rights = rules.rights(scope.operation, scope.resource_type, scope.names)
    clients = (rights.granted_principals() - exempt - rules.super_users - {ANY_PRINCIPAL}) | {ANYONE}
    return [f"{client}: {name}" for client in sorted(clients) for name in rights.names_allowed(client)]


def refused_to_clients(rules: AclRules, scope: FenceScope, principals: frozenset[str]) -> list[str]:
    """Return which clients may not do the scope's operation, as `principal: name`; empty if all may on every name."""
    rights = rules.rights(scope.operation, scope.resource_type, scope.names)
    clients = (principals - {ANY_PRINCIPAL}) | ({ANYONE} if ANY_PRINCIPAL in principals else set())
    return [f"{client}: {name}" for client in sorted(clients) for name in rights.names_refused(client)]
