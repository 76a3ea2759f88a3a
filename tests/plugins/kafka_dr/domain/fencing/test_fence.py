"""Which entries fence clients, which open a cluster, and that lifting leaves what was found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.fencing.fence import (
    FenceScope,
    client_principals,
    fence_entries,
    opening_entries,
    refused_to_clients,
    still_allowed,
)
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

from tests.support.examples import examples

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
EVERYBODY = (*CLIENTS, *EXEMPT, *SUPER)


def rights(rules: AclRules, principals: tuple[str, ...], operations: tuple[str, ...]) -> set[tuple[str, str, str]]:
    """All that these principals may do on the topics."""
    return {(p, o, t) for p in principals for o in operations for t in TOPICS if rules.may(p, o, "topic", t)}


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_no_client_gets_through_the_fence(rules: AclRules, scope: FenceScope) -> None:
    """With the fence's entries, no client may do the scope's operation on any of its names, named or unheard of."""
    fenced = rules.with_entries(fence_entries(rules, scope, EXEMPT))
    assert still_allowed(fenced, scope, EXEMPT) == []
    clients = ("User:app-a", "User:app-b", "User:never-seen")
    assert not [(p, t) for p in clients for t in scope.names if fenced.may(p, "write", "topic", t)]


@examples(60)
@given(rules_of(EVERYBODY, "group"), st.frozensets(st.sampled_from(TOPICS), min_size=1).map(FenceScope.group_reads))
def test_no_client_reads_with_a_fenced_group(rules: AclRules, scope: FenceScope) -> None:
    """The same holds for a group's reads."""
    fenced = rules.with_entries(fence_entries(rules, scope, EXEMPT))
    assert still_allowed(fenced, scope, EXEMPT) == []


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_lifting_leaves_the_very_set_that_was_found(rules: AclRules, scope: FenceScope) -> None:
    """Invariant 3: removing exactly the added entries gives what was there; none of them was there before."""
    added = fence_entries(rules, scope, EXEMPT)
    assert len(added) == len(set(added))
    assert rules.with_entries(added).entries - frozenset(added) == rules.entries


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_a_second_fence_adds_nothing(rules: AclRules, scope: FenceScope) -> None:
    """A fence on fenced rules is empty."""
    fenced = rules.with_entries(fence_entries(rules, scope, EXEMPT))
    assert fence_entries(fenced, scope, EXEMPT) == []


@examples(60)
@given(entries(("User:app-a", "User:app-b", *EXEMPT, *SUPER)), SCOPES)
def test_exempt_principals_keep_every_right(found: frozenset[AclEntry], scope: FenceScope) -> None:
    """Invariant 1, where rights are granted by name: MirrorMaker 2, the orchestrator and super users lose nothing."""
    before = AclRules(found, SUPER)
    after = before.with_entries(fence_entries(before, scope, EXEMPT))
    kept = tuple(EXEMPT | SUPER)
    assert rights(before, kept, OPERATIONS) <= rights(after, kept, OPERATIONS)


@examples(60)
@given(entries(EVERYBODY), SCOPES)
def test_clients_keep_every_other_right(found: frozenset[AclEntry], scope: FenceScope) -> None:
    """Invariant 2: the fence takes the operation it names, and no other operation, from anybody."""
    before = AclRules(found, SUPER)
    after = before.with_entries(fence_entries(before, scope, EXEMPT))
    others = tuple(o for o in OPERATIONS if o not in ("write", "all"))
    everybody = (*EVERYBODY, "User:never-seen")
    assert rights(before, everybody, others) <= rights(after, everybody, others)


@examples(60)
@given(rules_of(EVERYBODY), SCOPES)
def test_exempt_principals_are_never_denied_by_name(rules: AclRules, scope: FenceScope) -> None:
    """Invariant 1: no DENY names an exempt principal or super user; one for everyone is literal, in scope."""
    denied = [e for e in fence_entries(rules, scope, EXEMPT) if e.permission == "deny"]
    assert not {e.principal for e in denied} & (EXEMPT | SUPER)
    assert all(e.pattern == "literal" and e.name in scope.names for e in denied if e.principal == "User:*")


MM2_TOPIC = "mm2-offset-syncs.standby.internal"


@pytest.mark.parametrize(("name", "pattern"), [("orders", "literal"), ("*", "literal"), ("o", "prefixed")])
def test_exempt_principals_keep_writing_where_everyone_was_granted(name: str, pattern: str) -> None:
    """Invariant 1: a grant to everyone is taken topic by topic; reading and MirrorMaker 2's own topics stay."""
    before = AclRules(frozenset({acl("allow", "User:*", "all", name, pattern), acl("allow", "User:mm2", "all", "*")}))
    added = fence_entries(before, FenceScope.writes(["orders"]), EXEMPT)
    after = before.with_entries(added)
    assert added == [acl("deny", "User:*")]
    assert after.may("User:mm2", "write", "topic", MM2_TOPIC)
    assert all(after.may(p, "read", "topic", "orders") for p in ("User:mm2", "User:app-a"))
    assert not after.may("User:app-a", "write", "topic", "orders")


def test_exempt_principals_keep_writing_where_no_acl_was_found() -> None:
    """Invariant 1 under `allow.everyone.if.no.acl.found`: the one DENY is literal; reading stays."""
    before = AclRules(frozenset(), allow_everyone=True)
    added = fence_entries(before, FenceScope.writes(["orders"]), EXEMPT)
    after = before.with_entries(added)
    assert [e for e in added if e.permission == "deny"] == [acl("deny", "User:*")]
    assert {(e.name, e.pattern) for e in added} == {("orders", "literal")}
    assert after.may("User:mm2", "write", "topic", MM2_TOPIC)
    assert all(after.may(p, "read", "topic", "orders") for p in ("User:mm2", "User:app-a"))
    assert not after.may("User:app-a", "write", "topic", "orders")


@pytest.mark.parametrize("principal", ["User:mm2", "User:app-a"])
@pytest.mark.parametrize("operation", ["read", "describe", "describe_configs"])
def test_reading_stays_open_where_no_acl_was_found(principal: str, operation: str) -> None:
    """Invariant 2: the same request that closes a topic without ACLs allows everyone to go on reading it."""
    before = AclRules(frozenset(), allow_everyone=True)
    after = before.with_entries(fence_entries(before, FenceScope.writes(["orders"]), EXEMPT))
    assert after.may(principal, operation, "topic", "orders")
    assert not after.may("User:app-a", "write", "topic", "orders")


@pytest.mark.parametrize("operation", ["alter", "alter_configs", "delete", "create"])
def test_other_rights_stay_where_no_acl_was_found(operation: str) -> None:
    """Invariant 2: a write fence on a topic without ACLs takes no right but WRITE, also not from the orchestrator."""
    before = AclRules(frozenset(), allow_everyone=True)
    after = before.with_entries(fence_entries(before, FenceScope.writes(["orders"]), EXEMPT))
    assert after.may("User:orchestrator", operation, "topic", "orders")


def test_a_topic_with_any_acl_needs_no_closing() -> None:
    """Where an entry exists, `allow.everyone` no longer decides: nobody is let in by default, nothing is added."""
    rules = AclRules(frozenset({acl("allow", "User:app-a", "read")}), allow_everyone=True)
    assert fence_entries(rules, FenceScope.writes(["orders"]), EXEMPT) == []


def test_a_grant_to_everyone_is_denied_name_by_name() -> None:
    """A wildcard grant to everyone is not answered with a wildcard denial: other topics stay writable."""
    rules = AclRules(frozenset({acl("allow", "User:*", name="*")}))
    added = fence_entries(rules, FenceScope.writes(["orders", "payments"]), EXEMPT)
    assert added == [acl("deny", "User:*", name="orders"), acl("deny", "User:*", name="payments")]
    assert rules.with_entries(added).may("User:mm2", "write", "topic", "mm2-offset-syncs.standby.internal")


def test_an_all_grant_is_fenced_by_its_operation_only() -> None:
    """ALLOW ALL is answered with DENY WRITE, so that everything else stays."""
    rules = AclRules(frozenset({acl("allow", "User:app-a", "all")}))
    assert fence_entries(rules, FenceScope.writes(["orders"]), EXEMPT) == [acl("deny", "User:app-a")]


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
    assert fence_entries(rules, FenceScope.writes([]), EXEMPT) == []
