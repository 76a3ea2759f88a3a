"""Transactions that are open on a partition, and which of them Switchback may abort.

Invariants
1. Only a transaction that its transaction coordinator does not know may be aborted on a single partition. If the
   coordinator still had it open, the application could later commit it without the records of that partition.
2. A transaction that is being committed or aborted is waited for; Switchback never aborts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kafka_dr.domain.kafka_model.acl import ANY_NAME, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

#: The coordinator's state of a transaction that its application may still continue.
ONGOING = "Ongoing"
_IDLE = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True)
class OpenTransaction:
    """One transaction that is open on one partition; unknown values are None.

    Attributes:
        start_offset: offset of the transaction's first record on the partition.
        since_ms: start of the transaction, in milliseconds since 1970.
        state: the coordinator's state; None if the coordinator does not know the transaction, or was not asked.
        timeout_ms: timeout after which the coordinator aborts the transaction.
    """

    topic: str
    partition: int
    start_offset: int
    producer_id: int | None = None
    transactional_id: str | None = None
    state: str | None = None
    since_ms: int | None = None
    timeout_ms: int | None = None

    @property
    def at(self) -> TopicPartition:
        """The partition on which the transaction is open."""
        return TopicPartition(self.topic, self.partition)

    def named(self, now_ms: int) -> str:
        """Return the transaction as text for people, with its age at `now_ms` (milliseconds since 1970)."""
        parts = [f"{self.topic}-{self.partition} from offset {self.start_offset}"]
        if self.producer_id is not None:
            parts.append(f"producer {self.producer_id}")
            parts.append(
                f"transactional id {self.transactional_id!r}"
                if self.transactional_id is not None
                else "no coordinator names its transactional id"
            )
        if self.since_ms is not None:
            parts.append(f"{max(0, now_ms - self.since_ms) / 1000:.0f} s old")
        if self.timeout_ms is not None:
            parts.append(f"aborted by the broker after {self.timeout_ms / 1000:.0f} s")
        return ", ".join(parts)


@dataclass(frozen=True)
class KnownTransaction:
    """One transactional id with the producer id and the state that its transaction coordinator has for it."""

    transactional_id: str
    producer_id: int
    state: str

    @property
    def open(self) -> bool:
        """Whether the transactional id has an open transaction now."""
        return self.state not in _IDLE


@dataclass(frozen=True)
class Producer:
    """One producer in a partition's producer state, in which brokers keep idempotent producers only.

    Attributes:
        last_ms: timestamp of the producer's newest record on the partition, in milliseconds since 1970; None if it has
            no timestamp.
        epoch, last_sequence: they change with each batch that the producer writes; -1 if unknown.
        coordinator_epoch: of the coordinator that ended the producer's last transaction here; -1 before its first end.
        transaction_start: offset of the first record of the transaction that is open here; None if none is open.
    """

    producer_id: int
    last_ms: int | None
    epoch: int = -1
    last_sequence: int = -1
    coordinator_epoch: int = field(default=-1, compare=False)
    transaction_start: int | None = field(default=None, compare=False)

    def named(self, transactional_id: str | None) -> str:
        """Return the producer as text for people; `transactional_id` is None if it is unknown."""
        newest_record = (
            "no timestamp"
            if self.last_ms is None
            else datetime.fromtimestamp(self.last_ms / 1000, UTC).isoformat(timespec="milliseconds")
        )
        return (
            f"producer {self.producer_id}"
            + (f", transactional id {transactional_id!r}" if transactional_id is not None else "")
            + f", newest record {newest_record}"
        )


def open_on(partition: TopicPartition, producers: Iterable[Producer]) -> list[OpenTransaction]:
    """Return a partition's open transactions, oldest first.

    Fields that only the transaction coordinator knows, such as the transactional id, are unset.

    Args:
        partition: whose leader lists the producers.
        producers: all producers of the partition.
    """
    transactions = [
        OpenTransaction(
            partition.topic,
            partition.partition,
            producer.transaction_start,
            producer.producer_id,
            since_ms=producer.last_ms,
        )
        for producer in producers
        if producer.transaction_start is not None
    ]
    return sorted(transactions, key=lambda t: t.start_offset)


def sees_every_transaction(rules: AclRules, principals: Iterable[str]) -> bool:
    """Whether one of the principals may describe all transactional ids: only then is a list of these ids complete."""
    if not rules.authorizer:
        return True
    entries = [e for e in rules.entries if e.resource_type == "transactional_id"]
    return any(
        any(
            e.permission == "allow"
            and e.concerns(p)
            and e.name == ANY_NAME
            and e.pattern == "literal"
            and e.operation in ("describe", "read", "write", "all")
            for e in entries
        )
        and not any(e.permission == "deny" and e.concerns(p) for e in entries)
        for p in principals
    )


def may_be_ended(transaction: OpenTransaction, known: Iterable[KnownTransaction], all_seen: bool) -> bool:
    """Whether Switchback may abort an open transaction now.

    Args:
        known: the transactional ids that the transaction coordinators list now.
        all_seen: whether that list is complete, because Switchback's principal may describe every transactional id.
    """
    open_of_producer = [k for k in known if k.producer_id == transaction.producer_id and k.open]
    if transaction.transactional_id is not None:
        return any(k.transactional_id == transaction.transactional_id and k.state == ONGOING for k in open_of_producer)
    return transaction.producer_id is not None and all_seen and not open_of_producer
