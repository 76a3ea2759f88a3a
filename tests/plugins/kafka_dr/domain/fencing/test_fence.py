"""Which entries fence clients, which open a cluster, and that lifting leaves what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.fencing.fence import (
    FenceChanges,
    FenceMode,
    FenceScope,
    client_principals,
    fence_changes,
    opening_entries,
    refused_to_clients,
    still_allowed,
)
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

from tests.support.examples import examples

IMPLYING = {"describe": ("read", "write", "delete", "alter"), "describe_configs": ("alter_configs",)}


def authorize(
    entries: Iterable[Any],
    super_users: Iterable[str],
    allow_everyone: bool,
    principal: str,
    host: str,
    operation: str,
    resource_type: str,
    name: str,
) -> bool:
    """What Kafka's StandardAuthorizer answers for one host, in plain lines that share nothing with the product."""
    if principal in super_users:
        return True
    covering = [
        e
        for e in entries
        if e.resource_type == resource_type
        and (name.startswith(e.name) if e.pattern == "prefixed" else e.name in (name, "*"))
    ]
    if not covering:
        return allow_everyone
    mine = [e for e in covering if e.principal in (principal, "User:*") and e.host in (host, "*")]
    if any(e.permission == "deny" and e.operation in (operation, "all") for e in mine):
        return False
    giving = (operation, "all", *IMPLYING.get(operation, ()))
    return any(e.permission == "allow" and e.operation in giving for e in mine)


EXEMPT = frozenset({"User:mm2", "User:orchestrator"})
SUPER = frozenset({"User:admin"})
CLIENTS = ("User:app-a", "User:app-b", "User:*")
TOPICS = ("orders", "orders-eu", "payments", "audit")
OPERATIONS = ("read", "write", "describe", "delete", "alter", "alter_configs", "describe_configs", "all")


def acl(
    permission: str,
    principal: str,
    operation: str = "write",
    name: str = "orders",
    pattern: str = "literal",
    resource_type: str = "topic",
    host: str = "*",
) -> AclEntry:
    """One entry; a test states only what differs."""
    return AclEntry(resource_type, name, pattern, principal, host, operation, permission)


def names(resource_type: str) -> st.SearchStrategy[tuple[str, str]]:
    """Names with their pattern, wildcard and prefixes among them."""
    literal = st.sampled_from([*TOPICS, "*"]).map(lambda name: (name, "literal"))
    return literal | st.sampled_from(["o", "orders", "orders-", "pay", "x"]).map(lambda name: (name, "prefixed"))


def entries(principals: tuple[str, ...], resource_type: str = "topic") -> st.SearchStrategy[frozenset[AclEntry]]:
    """Random sets of entries of these principals."""
    one = st.builds(
        lambda who, name, host, operation, permission: AclEntry(
            resource_type, name[0], name[1], who, host, operation, permission
        ),
        st.sampled_from(principals),
        names(resource_type),
        st.sampled_from(["*", "*", "10.0.0.1"]),
        st.sampled_from(OPERATIONS),
        st.sampled_from(["allow", "allow", "deny"]),
    )
    return st.frozensets(one, max_size=12)


def rules_of(principals: tuple[str, ...], resource_type: str = "topic") -> st.SearchStrategy[AclRules]:
    """Random rules; `allow.everyone.if.no.acl.found` on or off."""
    return st.builds(
        lambda found, everyone: AclRules(found, SUPER, everyone), entries(principals, resource_type), st.booleans()
    )


SCOPES = st.frozensets(st.sampled_from(TOPICS), min_size=1).map(FenceScope.writes)
GROUP_SCOPES = st.frozensets(st.sampled_from(TOPICS), min_size=1).map(FenceScope.group_reads)
EVERYBODY = (*CLIENTS, *EXEMPT, *SUPER)
HOSTS = ("10.0.0.1", "10.0.0.2")


def fenced_rules(rules: AclRules, scope: FenceScope, exempt: frozenset[str] = EXEMPT) -> AclRules:
    """The rules behind the fence."""
    changes = fence_changes(rules, scope, exempt, TOPICS)
    return rules.with_entries(changes.added).without_entries(changes.replaced)


def answers(rules: AclRules, scope: FenceScope) -> dict[tuple[str, str, str, str], bool]:
    """What Kafka's authorizer answers to everybody, one unknown among them: any operation, any name, any host."""
    principals = (*EVERYBODY, "User:never-seen")
    operations = (*scope.other_operations, scope.operation)
    return {
        (p, o, n, h): authorize(rules.entries, rules.super_users, rules.allow_everyone, p, h, o, scope.resource_type, n)
        for p in principals
        if p != "User:*"
        for o in operations
        for n in TOPICS
        for h in HOSTS
    }


def changed_for(rules: AclRules, scope: FenceScope, exempt: frozenset[str]) -> set[tuple[str, str, str, str]]:
    """Which answers the fence changes."""
    before, after = answers(rules, scope), answers(fenced_rules(rules, scope, exempt), scope)
    return {asked for asked in before if before[asked] != after[asked]}


@examples(300)
@given(
    rules_of(EVERYBODY) | rules_of(EVERYBODY, "group"),
    st.frozensets(st.sampled_from(TOPICS), min_size=1),
    st.sampled_from([EXEMPT, EXEMPT | SUPER, SUPER, frozenset()]),
    st.booleans(),
)
def test_a_fence_changes_clients_use_of_its_names_and_nothing_else(
    rules: AclRules, scope_names: frozenset[str], exempt: frozenset[str], groups: bool
) -> None:
    """Invariant 1, by an authorizer of the tests: everybody, all operations, all names, all hosts."""
    scope = FenceScope.group_reads(scope_names) if groups else FenceScope.writes(scope_names)
    spared = exempt | rules.super_users
    for principal, operation, name, _ in changed_for(rules, scope, exempt):
        assert principal not in spared and operation == scope.operation and name in scope.names
    after = answers(fenced_rules(rules, scope, exempt), scope)
    let_in = [a for a, yes in after.items() if yes and a[0] not in spared and a[1] == scope.operation]
    assert not [a for a in let_in if a[2] in scope.names]


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_no_client_gets_through_the_fence(rules: AclRules, scope: FenceScope) -> None:
    """The product's own judge agrees."""
    assert still_allowed(fenced_rules(rules, scope), scope, EXEMPT) == []


@examples(60)
@given(rules_of(EVERYBODY, "group"), GROUP_SCOPES)
def test_no_client_reads_with_a_fenced_group(rules: AclRules, scope: FenceScope) -> None:
    """The same holds for a group's reads."""
    assert still_allowed(fenced_rules(rules, scope), scope, EXEMPT) == []


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_lifting_leaves_the_very_set_that_was_found(rules: AclRules, scope: FenceScope) -> None:
    """Invariant 2: the replaced entries again, and none of the added ones, is what was there."""
    changes = fence_changes(rules, scope, EXEMPT, TOPICS)
    assert len(changes.added) == len(set(changes.added)) and not set(changes.added) & rules.entries
    lifted = fenced_rules(rules, scope).with_entries(changes.replaced).without_entries(changes.added)
    assert lifted == rules


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_a_second_fence_changes_nothing(rules: AclRules, scope: FenceScope) -> None:
    """A fence on fenced rules is empty."""
    again = fence_changes(fenced_rules(rules, scope), scope, EXEMPT, TOPICS)
    assert (again.added, again.replaced) == ((), ())


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_a_fence_that_was_cut_short_is_completed(rules: AclRules, scope: FenceScope) -> None:
    """Killed before the replaced entries were removed: the next try ends where the first would have ended."""
    changes = fence_changes(rules, scope, EXEMPT, TOPICS)
    assert fenced_rules(rules.with_entries(changes.added), scope) == fenced_rules(rules, scope)


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_nobody_is_refused_between_the_two_requests_but_clients(rules: AclRules, scope: FenceScope) -> None:
    """With all added and nothing removed yet, exempt principals and everybody's other rights are as before."""
    before = answers(rules, scope)
    between = answers(rules.with_entries(fence_changes(rules, scope, EXEMPT, TOPICS).added), scope)
    lost = [asked for asked, yes in before.items() if yes and not between[asked]]
    assert not [a for a in lost if a[0] in EXEMPT | SUPER or a[1] != scope.operation or a[2] not in scope.names]


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_every_refusal_is_literal_and_in_scope(rules: AclRules, scope: FenceScope) -> None:
    """Invariant 3; and unless every exempt principal is a super user, none is for everyone."""
    changes = fence_changes(rules, scope, EXEMPT, TOPICS)
    denied = [e for e in changes.added if e.permission == "deny"]
    assert all(e.pattern == "literal" and e.name in scope.names and e.host == "*" for e in denied)
    assert not {e.principal for e in denied} & (EXEMPT | SUPER | {"User:*"})
    assert {e.principal for e in changes.replaced} <= {"User:*"}


def changes_of(rules: AclRules, *names: str, exempt: frozenset[str] = EXEMPT) -> FenceChanges:
    """The fence of writes to these topics."""
    return fence_changes(rules, FenceScope.writes(names), exempt, TOPICS)


def test_super_users_are_spared_by_any_denial() -> None:
    """Where every exempt principal is a super user, one DENY for everyone fences a topic."""
    rules = AclRules(frozenset({acl("allow", "User:app-a", name="*")}), SUPER)
    found = changes_of(rules, "orders", "audit", exempt=SUPER)
    assert found.added == (acl("deny", "User:*", name="audit"), acl("deny", "User:*", name="orders"))
    assert (found.replaced, found.modes) == ((), {FenceMode.DENY_EVERYONE: 2})


def test_super_users_and_topics_without_entries() -> None:
    """The same where no entry is found: reading goes on for everyone."""
    found = changes_of(AclRules(frozenset(), SUPER, allow_everyone=True), "orders", exempt=SUPER)
    assert acl("deny", "User:*") in found.added and acl("allow", "User:*", "read") in found.added
    assert found.modes == {FenceMode.DENY_EVERYONE: 1}


def test_named_clients_are_denied_topic_by_topic() -> None:
    """A grant on a prefix or on every topic is denied on the topics of the scope, and on no other."""
    granted = {acl("allow", "User:app-a", name="*"), acl("allow", "User:app-b", "all", "order", "prefixed")}
    found = changes_of(AclRules(frozenset(granted | {acl("allow", "User:mm2", "all", "*")})), "orders", "audit")
    assert set(found.added) == {
        acl("deny", "User:app-a", name="orders"),
        acl("deny", "User:app-a", name="audit"),
        acl("deny", "User:app-b", name="orders"),
    }
    assert (found.replaced, found.modes) == ((), {FenceMode.DENY_CLIENTS: 2})


def test_a_topic_without_entries_is_fenced_by_its_first_allow() -> None:
    """No DENY: MirrorMaker 2 may write, everyone may do all else, and nobody else may write."""
    found = changes_of(AclRules(frozenset(), allow_everyone=True), "orders")
    assert {e.permission for e in found.added} == {"allow"} and {e.name for e in found.added} == {"orders"}
    writers = {e.principal for e in found.added if e.operation in ("write", "all")}
    assert writers == EXEMPT and found.modes == {FenceMode.FIRST_ENTRY: 1}


def test_a_grant_to_everyone_is_replaced() -> None:
    """Its other operations, its other topics and MirrorMaker 2's writes stay; the grant itself goes last."""
    grant = acl("allow", "User:*", "all", "*")
    found = changes_of(AclRules(frozenset({grant})), "orders")
    assert found.replaced == (grant,)
    assert acl("allow", "User:*", "read", "*") in found.added
    assert acl("allow", "User:mm2", "write", "*") in found.added
    kept = {e.name for e in found.added if (e.principal, e.operation, e.pattern) == ("User:*", "write", "literal")}
    assert kept == set(TOPICS) - {"orders"}


def test_a_grant_to_everyone_from_one_host_is_replaced_for_this_host() -> None:
    """What takes its place is bound to the same host."""
    found = changes_of(AclRules(frozenset({acl("allow", "User:*", host="10.0.0.1")})), "orders")
    assert {e.host for e in found.added} == {"10.0.0.1"}


def test_a_grant_to_everyone_elsewhere_stays() -> None:
    """A grant that covers no topic of the scope is left alone."""
    rules = AclRules(frozenset({acl("allow", "User:*", name="pay", pattern="prefixed")}))
    assert changes_of(rules, "orders") == FenceChanges()


def test_a_client_that_is_denied_already_is_not_denied_again() -> None:
    """No entry where none is needed."""
    rules = AclRules(frozenset({acl("allow", "User:app-a"), acl("deny", "User:app-a", name="*")}))
    assert changes_of(rules, "orders") == FenceChanges()


def test_a_topic_with_any_acl_needs_no_closing() -> None:
    """Where an entry exists, `allow.everyone` no longer decides: nobody is let in by default, nothing is added."""
    rules = AclRules(frozenset({acl("allow", "User:app-a", "read")}), allow_everyone=True)
    assert changes_of(rules, "orders") == FenceChanges()


def test_an_all_grant_is_fenced_by_its_operation_only() -> None:
    """ALLOW ALL is answered with DENY WRITE, so that everything else stays."""
    assert changes_of(AclRules(frozenset({acl("allow", "User:app-a", "all")})), "orders").added == (
        acl("deny", "User:app-a"),
    )


def test_without_an_authorizer_nobody_is_fenced() -> None:
    """A cluster without an authorizer is never reported as fenced."""
    rules = AclRules(frozenset(), authorizer=False)
    assert still_allowed(rules, FenceScope.writes(["orders", "a"]), EXEMPT) == ["anyone: a", "anyone: orders"]


def test_a_deny_from_one_host_is_no_fence() -> None:
    """A client that is denied from one address only is still let through."""
    rules = AclRules(frozenset({acl("allow", "User:app-a"), acl("deny", "User:app-a", host="10.0.0.1")}))
    assert still_allowed(rules, FenceScope.writes(["orders"]), EXEMPT) == ["User:app-a: orders"]


def test_opening_removes_what_keeps_clients_out() -> None:
    """Opening names the denials of these clients and of everyone on the scope's names, and no others."""
    ours = [acl("deny", "User:*", name="*"), acl("deny", "User:app-a")]
    others = [
        acl("deny", "User:app-b"),
        acl("deny", "User:app-a", "read"),
        acl("deny", "User:app-a", name="audit"),
        acl("deny", "User:app-a", resource_type="group"),
    ]
    rules = AclRules(frozenset([*ours, *others]))
    assert opening_entries(rules, FenceScope.writes(["orders"]), frozenset({"User:app-a"})) == sorted(ours)


def test_opening_leaves_a_blocked_host_blocked() -> None:
    """A DENY from one address is somebody's security rule: opening does not remove it."""
    rules = AclRules(frozenset({acl("deny", "User:app-a", host="10.6.6.6")}))
    assert opening_entries(rules, FenceScope.writes(["orders"]), frozenset({"User:app-a"})) == []


def test_opening_an_unfenced_target_removes_nothing() -> None:
    """Without denials there is nothing to open."""
    found = opening_entries(
        AclRules(frozenset({acl("allow", "User:app-a")})), FenceScope.writes(["orders"]), frozenset({"User:app-a"})
    )
    assert found == []


def test_everyones_missing_right_is_named_for_anyone() -> None:
    """Clients that live on a grant to everyone are asked about as one that no entry names."""
    rules = AclRules(frozenset({acl("allow", "User:app-a")}))
    assert refused_to_clients(rules, FenceScope.writes(["orders"]), frozenset({"User:*"})) == ["User:anyone: orders"]
    everyone = rules.with_entries([acl("allow", "User:*")])
    assert refused_to_clients(everyone, FenceScope.writes(["orders"]), frozenset({"User:*"})) == []


def test_clients_that_lack_a_right_are_named() -> None:
    """Whoever may not write is named with the topic; whoever may is not."""
    rules = AclRules(frozenset({acl("allow", "User:app-a")}))
    scope = FenceScope.writes(["orders"])
    assert refused_to_clients(rules, scope, frozenset({"User:app-a", "User:app-b"})) == ["User:app-b: orders"]


def test_only_clients_with_the_right_count_as_clients() -> None:
    """Exempt principals, super users and readers are not among those that write."""
    held = {
        acl("allow", "User:app-a"),
        acl("allow", "User:mm2"),
        acl("allow", "User:admin"),
        acl("allow", "User:app-b", "read"),
    }
    assert client_principals(AclRules(frozenset(held), SUPER), FenceScope.writes(["orders"]), EXEMPT) == {"User:app-a"}


def test_an_empty_scope_fences_nothing() -> None:
    """No names, no entries."""
    rules = AclRules(frozenset({acl("allow", "User:*", name="*")}), allow_everyone=True)
    assert changes_of(rules) == FenceChanges()


def test_everyone_is_a_client_of_a_topic_without_entries() -> None:
    """But only where the brokers allow what no entry covers."""
    scope = FenceScope.writes(["orders"])
    assert client_principals(AclRules(frozenset(), allow_everyone=True), scope, EXEMPT) == {"User:*"}
    assert client_principals(AclRules(frozenset()), scope, EXEMPT) == frozenset()


def test_a_group_with_a_slash_is_denied_by_the_clients_own_patterns() -> None:
    """ZooKeeper's authorizer takes no literal entry for such a name; other groups get literal entries."""
    granted = {
        acl("allow", "User:app-a", "read", "*", resource_type="group"),
        acl("allow", "User:app-b", "all", "team/", "prefixed", "group"),
        acl("allow", "User:app-b", "read", "billing", resource_type="group"),
    }
    rules, scope = AclRules(frozenset(granted)), FenceScope.group_reads(["team/1", "billing"])
    found = fence_changes(rules, scope, EXEMPT)
    assert set(found.added) == {
        acl("deny", "User:app-a", "read", "*", resource_type="group"),
        acl("deny", "User:app-a", "read", "billing", resource_type="group"),
        acl("deny", "User:app-b", "read", "team/", "prefixed", "group"),
        acl("deny", "User:app-b", "read", "billing", resource_type="group"),
    }
    assert still_allowed(rules.with_entries(found.added), scope, EXEMPT) == []


def test_a_literal_scope_denies_no_other_group() -> None:
    """Where other clients stay; brokers with ZooKeeper refuse such an entry, and the fence is then not proven."""
    rules = AclRules(frozenset({acl("allow", "User:app-a", "read", "*", resource_type="group")}))
    found = fence_changes(rules, FenceScope.group_reads(["team/1", "billing"], literal=True), EXEMPT)
    assert set(found.added) == {
        acl("deny", "User:app-a", "read", name, resource_type="group") for name in ("team/1", "billing")
    }
