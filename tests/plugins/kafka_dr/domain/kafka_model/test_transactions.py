"""What Kafka's own tool prints, and which of the transactions it shows may be ended."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import (
    KnownTransaction,
    OpenTransaction,
    Producer,
    known_transactions,
    may_be_ended,
    open_on,
    producers_of,
    sees_every_transaction,
    started_and_timeout,
)
from kafka_dr.errors import BadInput

ORDERS = TopicPartition("orders", 0)
LISTED = (
    "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\napp-a          \t1          \t0         \tOngoing   "
    "      \t\napp b          \t1          \t1         \tCompleteCommit  \t\n"
)
PRODUCERS = (
    "ProducerId\tProducerEpoch\tLatestCoordinatorEpoch\tLastSequence\tLastTimestamp\tCurrentTransactionStartOffset\t\n"
    "1         \t0            \t-1                    \t2           \t1795310605910\t3                            \t\n"
    "0         \t0            \t0                     \t2           \t1795310616786\tNone                         \t\n"
    "7         \t0            \t-1                    \t2           \t-1           \t0                            \t\n"
)
DESCRIBED = (
    "CoordinatorId\tTransactionalId\tProducerId\tProducerEpoch\tTransactionState\tTransactionTimeoutMs\tCurrentTransactionStartTimeMs\tTransactionDurationMs\tTopicPartitions\t\n1"
    "            \tapp-a          \t0         \t0            \tOngoing         \t60000               \t1795310605709   "
    "             \t3607                 \ttx-1,tx-0      \t\n"
)


def test_ids_are_read_with_their_blanks_and_states() -> None:
    """A blank inside an id belongs to it, those that fill the column do not; a finished transaction is not open."""
    found = [(k.transactional_id, k.producer_id, k.open) for k in known_transactions(LISTED)]
    assert found == [("app-a", 0, True), ("app b", 1, False)]


def test_open_ones_are_read_oldest_first() -> None:
    """A producer without a current transaction is left out; its timestamp is when it was last heard of."""
    assert open_on(ORDERS, PRODUCERS) == [
        OpenTransaction("orders", 0, 0, 7, since_ms=-1),
        OpenTransaction("orders", 0, 3, 1, since_ms=1795310605910),
    ]


def test_producers_are_read_newest_first() -> None:
    """Also those without a transaction; one without a timestamp last."""
    assert producers_of(PRODUCERS) == [Producer(0, 1795310616786), Producer(1, 1795310605910), Producer(7, None)]
    assert [one.named(name) for one, name in zip(producers_of(PRODUCERS)[1:], ("app b", None))] == [
        "producer 1, transactional id 'app b', newest record 2026-11-22T01:23:25.910+00:00",
        "producer 7, newest record no timestamp",
    ]


def test_an_empty_table_is_nothing_and_anything_else_is_refused() -> None:
    """A heading alone says that there is none; another tool's or version's output is not taken for that."""
    assert known_transactions(LISTED.split("\n", maxsplit=1)[0] + "\n") == []
    torn = LISTED.replace("Ongoing         \t", "Ongoing")
    for printed in ("", "Topic\tPartition\t\n", "something happened\n", torn):
        with pytest.raises(BadInput, match="is not the expected table"):
            known_transactions(printed)


def test_the_coordinators_times_are_read() -> None:
    """When it began and how long it may last; unknown for one that has none."""
    assert started_and_timeout(DESCRIBED) == (1795310605709, 60000)
    assert started_and_timeout(DESCRIBED.replace("1795310605709", "None         ")) == (None, 60000)


def test_a_transaction_is_named_by_what_is_known() -> None:
    """Without the tool only where it begins and its age; with it all the rest."""
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
