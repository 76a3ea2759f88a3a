"""Readiness checks of clients' rights: the opened target must give clients every right that the source gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_dr.domain.fencing.fence import ANYONE, FenceScope, client_principals, opening_entries
from kafka_dr.domain.kafka_model.acl import ANY_PRINCIPAL
from kafka_dr.domain.logins.client_login import NO_SASL, SCRAM
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker
from kafka_dr.domain.readiness.observation import Observation

#: What open_target opens to clients: resource type and operation.
_OPENED = frozenset({("topic", "write"), ("group", "read")})


def clients_may_work_on_target(o: Observation) -> Iterator[Blocker]:
    """Yield blockers for clients' rights to write, read, commit or use transactions that only the source gives."""
    exempt = o.exempt[o.source.alias]
    for scope, renamed in _rights(o):
        lacking = _lost_rights(o, scope, renamed, client_principals(o.source.rules, scope, exempt))
        if lacking:
            yield Blocker(
                "clients_may_work_on_target",
                f"Clients lack {scope.operation} on {scope.resource_type}s of the target",
                first_few(lacking, MOST_LISTED),
                "Grant the same rights on the target, and remove DENY entries against them: MirrorMaker 2 copies no"
                " WRITE, group or transactional-id rights.",
            )


def _rights(o: Observation) -> Iterator[tuple[FenceScope, Mapping[str, str]]]:
    """Yield the operations and names that clients may need, each with a map of source name -> name on the target."""
    same_names = {topic: topic for topic in o.scope}
    yield FenceScope.writes(o.scope), same_names
    yield FenceScope("topic", "read", frozenset(o.scope)), o.scope
    yield FenceScope("topic", "read", frozenset(o.scope)), same_names
    yield FenceScope.group_reads(o.groups), {group: group for group in o.groups}
    ids = frozenset(
        e.name for e in o.source.rules.entries if e.resource_type == "transactional_id" and e.permission == "allow"
    )
    yield FenceScope("transactional_id", "write", ids), {name: name for name in ids}


def _lost_rights(
    o: Observation, scope: FenceScope, renamed: Mapping[str, str], principals: frozenset[str]
) -> list[str]:
    """Return `principal: name` for each right of the scope that the source gives and the opened target does not.

    Args:
        renamed: name on the source -> name on the target.
        principals: the clients' principals.
    """
    target_scope = FenceScope(scope.resource_type, scope.operation, frozenset(renamed.values()))
    # open_target removes no other DENY entry: one against reading topics would still stand.
    opens = (scope.resource_type, scope.operation) in _OPENED
    denials = opening_entries(o.target.rules, target_scope, principals) if opens else []
    fence = o.target_fence
    opened = o.target.rules.without_entries([*denials, *fence.adds]).with_entries(fence.removes)
    on_source = o.source.rules.rights(scope.operation, scope.resource_type, scope.names)
    on_target = opened.rights(scope.operation, scope.resource_type, target_scope.names)
    lost = []
    for principal in sorted({ANYONE if principal == ANY_PRINCIPAL else principal for principal in principals}):
        allowed = frozenset(on_target.names_allowed(principal))
        names = (renamed[name] for name in on_source.names_allowed(principal))
        lost += [f"{principal}: {name}" for name in names if name not in allowed]
    return lost


def users_of_other_logins(o: Observation) -> list[str]:
    """Return the clients' SCRAM users that the target need not have, because clients log in there by other means."""
    return _users_lacking(o) if _has_other_logins(o) else []


def _has_other_logins(o: Observation) -> bool:
    """Whether Switchback logs in to the target otherwise than by SCRAM, and no client has a SCRAM user there."""
    login = o.cluster_logins.get(o.target.alias)
    if login is None or login.mechanism in SCRAM or (login.mechanism == NO_SASL and not login.secured):
        return False
    return not _scram_clients(o) & (o.target.users or frozenset())


def _users_lacking(o: Observation) -> list[str]:
    if o.source.users is None or o.target.users is None:
        return []
    return sorted(_scram_clients(o) - o.target.users)


def _scram_clients(o: Observation) -> frozenset[str]:
    """Return the clients that are SCRAM users of the source."""
    exempt = o.exempt[o.source.alias]
    users = {
        p.removeprefix("User:") for scope, _ in _rights(o) for p in client_principals(o.source.rules, scope, exempt)
    }
    return frozenset(users & (o.source.users or frozenset()))


def users_exist_on_target(o: Observation) -> Iterator[Blocker]:
    """Yield blockers for clients' SCRAM users that the target lacks, or has with other mechanisms alone.

    Nothing if users cannot be listed.

    A target where Switchback logs in otherwise, and that has no client's user, has other logins for clients: a note
    says so (`users_of_other_logins`).
    """
    lacking = _users_lacking(o)
    if lacking and not _has_other_logins(o):
        yield Blocker(
            "users_exist_on_target",
            "Users of clients do not exist on the target",
            first_few(lacking, MOST_LISTED),
            "Create these users on the target: MirrorMaker 2 copies no users.",
        )
    here, there = o.source.scram or {}, o.target.scram or {}
    other = [
        f"{user}: {', '.join(sorted(here[user]))} on {o.source.alias}, {', '.join(sorted(there[user]))} on"
        f" {o.target.alias}"
        for user in sorted(_scram_clients(o) & here.keys() & there.keys())
        if not here[user].keys() & there[user].keys()
    ]
    if other:
        yield Blocker(
            "users_exist_on_target",
            "Users of clients have other SCRAM mechanisms on the target than on the source",
            first_few(other, MOST_LISTED, separator="; "),
            "Create credentials of the source's mechanism for these users on the target, because clients log in by one"
            " mechanism.",
        )
