"""What Kafka's StandardAuthorizer allows, as the fence computes it."""

from __future__ import annotations

import pytest
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

APP = "User:app"


def entry(
    permission: str = "allow",
    operation: str = "write",
    name: str = "orders",
    pattern: str = "literal",
    principal: str = APP,
    resource_type: str = "topic",
    host: str = "*",
) -> AclEntry:
    """One entry; a test states only what differs."""
    return AclEntry(resource_type, name, pattern, principal, host, operation, permission)


def rules(*entries: AclEntry, **settings: object) -> AclRules:
    """Rules of one cluster."""
    return AclRules(frozenset(entries), **settings)


def test_nothing_is_allowed_without_an_entry() -> None:
    """A principal without any entry is refused where no entry exists at all."""
    assert not rules().may(APP, "write", "topic", "orders")


def test_an_allow_grants_its_own_operation_only() -> None:
    """An ALLOW WRITE grants WRITE, and not READ."""
    seen = rules(entry())
    assert seen.may(APP, "write", "topic", "orders")
    assert not seen.may(APP, "read", "topic", "orders")


@pytest.mark.parametrize(
    "deny",
    [
        entry("deny"),
        entry("deny", operation="all"),
        entry("deny", principal="User:*"),
        entry("deny", name="*"),
        entry("deny", name="ord", pattern="prefixed"),
    ],
    ids=str,
)
def test_any_matching_deny_beats_every_allow(deny: AclEntry) -> None:
    """Invariant 1: whichever way a DENY matches, no ALLOW outweighs it."""
    others = [{"operation": "all"}, {"name": "*"}, {"principal": "User:*"}, {"name": "ord", "pattern": "prefixed"}]
    allows = [entry(), *(entry(**fields) for fields in others)]
    assert not rules(deny, *allows).may(APP, "write", "topic", "orders")


@pytest.mark.parametrize(
    "deny",
    [
        entry("deny", operation="read"),
        entry("deny", principal="User:other"),
        entry("deny", name="orders-eu"),
        entry("deny", name="ordersx", pattern="prefixed"),
        entry("deny", resource_type="group"),
    ],
    ids=str,
)
def test_a_deny_that_does_not_match_changes_nothing(deny: AclEntry) -> None:
    """A DENY of another operation, principal, name or resource type leaves the right alone."""
    assert rules(deny, entry()).may(APP, "write", "topic", "orders")


@pytest.mark.parametrize("implying", ["read", "write", "delete", "alter", "all", "describe"])
def test_describe_is_implied(implying: str) -> None:
    """Invariant 2: READ, WRITE, DELETE, ALTER and ALL imply DESCRIBE."""
    assert rules(entry(operation=implying)).may(APP, "describe", "topic", "orders")


@pytest.mark.parametrize("other", ["create", "alter_configs", "describe_configs", "cluster_action"])
def test_nothing_else_implies_describe(other: str) -> None:
    """Invariant 2 goes no further: these do not imply DESCRIBE."""
    assert not rules(entry(operation=other)).may(APP, "describe", "topic", "orders")


def test_alter_configs_implies_describe_configs_and_never_the_reverse() -> None:
    """Invariant 2: ALTER_CONFIGS implies DESCRIBE_CONFIGS, one way."""
    assert rules(entry(operation="alter_configs")).may(APP, "describe_configs", "topic", "orders")
    assert not rules(entry(operation="describe_configs")).may(APP, "alter_configs", "topic", "orders")


def test_a_deny_implies_nothing() -> None:
    """DENY WRITE refuses WRITE; DESCRIBE, granted by READ, stays."""
    seen = rules(entry("deny"), entry(operation="read"), entry())
    assert seen.may(APP, "describe", "topic", "orders")
    assert not seen.may(APP, "write", "topic", "orders")


def test_everyone_and_the_wildcard_name_match_everything() -> None:
    """Invariant 3: `User:*` matches every principal, the literal name `*` every resource of its type."""
    seen = rules(entry(principal="User:*", name="*"))
    assert seen.may("User:whoever", "write", "topic", "anything")
    assert not seen.may("User:whoever", "write", "group", "anything")


def test_a_prefixed_star_is_no_wildcard() -> None:
    """`*` under the prefixed pattern covers only names that begin with a star."""
    seen = rules(entry(name="*", pattern="prefixed", resource_type="group", operation="read"))
    assert seen.may(APP, "read", "group", "*strange")
    assert not seen.may(APP, "read", "group", "orders")


def test_super_users_pass_every_deny() -> None:
    """No ACL stops a super user."""
    assert rules(entry("deny"), super_users=frozenset({APP})).may(APP, "write", "topic", "orders")


def test_without_an_authorizer_everything_is_allowed() -> None:
    """A cluster that checks no rights lets everyone do everything."""
    assert AclRules(frozenset(), authorizer=False).may(APP, "write", "topic", "orders")


def test_allow_everyone_ends_with_the_first_entry_of_any_kind() -> None:
    """One lone DENY for one principal takes a topic away from everybody, also for other operations."""
    open_to_all = rules(allow_everyone=True)
    assert open_to_all.may("User:mm2", "read", "topic", "orders")
    closed = open_to_all.with_entries([entry("deny")])
    assert not closed.may("User:mm2", "read", "topic", "orders")
    assert closed.may("User:mm2", "read", "topic", "other")


def test_more_entries_keep_everything_else_of_the_rules() -> None:
    """Adding entries changes entries only."""
    before = AclRules(frozenset({entry()}), frozenset({"User:admin"}), True, True)
    after = before.with_entries([entry("deny")])
    assert after == AclRules(frozenset({entry(), entry("deny")}), frozenset({"User:admin"}), True, True)


def test_a_deny_from_one_host_does_not_refuse_a_principal() -> None:
    """A principal that is denied from one address still may act from every other."""
    assert rules(entry(), entry("deny", host="10.0.0.1")).may(APP, "write", "topic", "orders")
