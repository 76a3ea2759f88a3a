"""Which transactions are open on a partition, and which of them may be ended."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import (
    KnownTransaction,
    OpenTransaction,
    Producer,
    may_be_ended,
    open_on,
    sees_every_transaction,
)

ORDERS = TopicPartition("orders", 0)


def test_open_ones_are_listed_oldest_first() -> None:
    """A producer without a current transaction is left out; its timestamp is when it was last heard of."""
    producers = [
        Producer(1, 1795310605910, transaction_start=3),
        Producer(0, 5),
        Producer(7, None, transaction_start=0),
    ]
    assert open_on(ORDERS, producers) == [
        OpenTransaction("orders", 0, 0, 7, since_ms=None),
        OpenTransaction("orders", 0, 3, 1, since_ms=1795310605910),
    ]


def test_a_producer_is_named_with_its_newest_record() -> None:
    """And with its transactional id, if it has one."""
    assert Producer(1, 1795310605910).named("app b") == (
        "producer 1, transactional id 'app b', newest record 2026-11-22T01:23:25.910+00:00"
    )
    assert Producer(7, None).named(None) == "producer 7, newest record no timestamp"


def test_the_end_of_a_transaction_is_no_write_of_its_producer() -> None:
    """Producers that are compared before and after a fence have written only if a batch of theirs came."""
    before = Producer(1, 5, 0, 2, -1, transaction_start=3)
    assert before == Producer(1, 5, 0, 2, 0) != Producer(1, 5, 0, 3, 0)


def test_a_transaction_is_named_by_what_is_known() -> None:
    """By its log alone only where it begins and its age; by brokers all the rest."""
    assert OpenTransaction("orders", 0, 17, since_ms=1_000).named(33_000) == "orders-0 from offset 17, 32 s old"
    full = OpenTransaction("orders", 0, 17, 4, "app-a", "Ongoing", 1_000, 60_000).named(33_000)
    assert (
        full
        == "orders-0 from offset 17, producer 4, transactional id 'app-a', 32 s old, aborted by the broker after 60 s"
    )
    assert "no coordinator names its transactional id" in OpenTransaction("orders", 0, 17, 4).named(0)


KNOWN = [
    KnownTransaction("app-a", 0, "Ongoing"),
    KnownTransaction("app-p", 2, "PrepareCommit"),
    KnownTransaction("app-done", 3, "CompleteAbort"),
]


@pytest.mark.parametrize(
    ("producer", "named", "all_seen", "wanted"),
    [
        (0, "app-a", False, True),
        (2, "app-p", True, False),
        (0, "app-other", True, False),
        (9, "app-a", True, False),
        (0, None, True, False),
        (3, None, True, True),
        (9, None, True, True),
        (9, None, False, False),
        (None, None, True, False),
    ],
)
def test_only_what_its_coordinator_holds_open_or_nobody_knows_may_be_ended(
    producer: int | None, named: str | None, all_seen: bool, wanted: bool
) -> None:
    """A commit under way is waited for; one that is merely not shown to us is never taken for one that nobody knows."""
    transaction = OpenTransaction("orders", 0, 5, producer, named)
    assert may_be_ended(transaction, KNOWN, all_seen) is wanted


def entry(
    name: str = "*", operation: str = "describe", permission: str = "allow", principal: str = "User:dr", **other: Any
) -> AclEntry:
    """A right on transactional ids."""
    kind, pattern = other.get("kind", "transactional_id"), other.get("pattern", "literal")
    return AclEntry(kind, name, pattern, principal, "*", operation, permission)


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([entry()], True),
        ([entry(operation="write")], True),
        ([entry(principal="User:*")], True),
        ([entry(operation="all")], True),
        ([], False),
        ([entry(name="app")], False),
        ([entry(pattern="prefixed")], False),
        ([entry(principal="User:app")], False),
        ([entry(operation="describe_configs")], False),
        ([entry(kind="topic")], False),
        ([entry(), entry(name="app", permission="deny")], False),
        ([entry(), entry(name="app", permission="deny", principal="User:app")], True),
    ],
)
def test_all_transactions_are_seen_only_by_a_right_on_all_ids(entries: list[AclEntry], wanted: bool) -> None:
    """A right on some ids, or one that somebody took back, leaves transactions that we are not shown."""
    assert sees_every_transaction(AclRules(frozenset(entries)), ["User:dr", "User:dr2"]) is wanted
    assert sees_every_transaction(AclRules(frozenset(), authorizer=False), [])
