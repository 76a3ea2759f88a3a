"""Transactions that are open on a partition, parsed from the output of Kafka's own tool.

Invariants
1. Only a transaction that its transaction coordinator does not know may be aborted on a single partition. If the
   coordinator still had it open, the application could later commit it without the records of that partition.
2. A transaction that is being committed or aborted is waited for; Switchback never aborts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_dr.domain.kafka_model.acl import ANY_NAME, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput

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
    """

    producer_id: int
    last_ms: int | None
    epoch: int = -1
    last_sequence: int = -1

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


def rows_of(printed: str, columns: Iterable[str]) -> list[dict[str, str]]:
    """Return the rows of a table that Kafka's tools printed, with columns separated by tabs and padded with blanks.

    Raises:
        BadInput: the text is no such table, or lacks one of the columns.
    """
    lines = [line for line in printed.splitlines() if "\t" in line]
    cells = [[cell.rstrip(" ") for cell in line.split("\t")] for line in lines]
    if not cells or set(columns) - set(cells[0]) or any(len(row) != len(cells[0]) for row in cells):
        raise BadInput(
            "The output of Kafka's tool is not the expected table",
            ascii(printed[:200]),
            f"a table with the columns {', '.join(columns)} was expected; set `kafka_tools` in the topology to the"
            " folder `libs` of the brokers' Kafka version",
        )
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def known_transactions(printed: str) -> list[KnownTransaction]:
    """Return the transactional ids in the output of `kafka-transactions list`."""
    rows = rows_of(printed, ("TransactionalId", "ProducerId", "TransactionState"))
    return [KnownTransaction(row["TransactionalId"], int(row["ProducerId"]), row["TransactionState"]) for row in rows]


def open_on(partition: TopicPartition, printed: str) -> list[OpenTransaction]:
    """Return a partition's open transactions in the output of `kafka-transactions describe-producers`, oldest first."""
    rows = rows_of(printed, ("ProducerId", "LastTimestamp", "CurrentTransactionStartOffset"))
    transactions = [
        OpenTransaction(
            partition.topic,
            partition.partition,
            int(row["CurrentTransactionStartOffset"]),
            int(row["ProducerId"]),
            since_ms=_number(row["LastTimestamp"]),
        )
        for row in rows
        if _number(row["CurrentTransactionStartOffset"]) is not None
    ]
    return sorted(transactions, key=lambda t: t.start_offset)


def producers_of(printed: str) -> list[Producer]:
    """Return a partition's producers in the output of `kafka-transactions describe-producers`, latest writer first."""
    rows = rows_of(printed, ("ProducerId", "LastTimestamp"))
    producers = [
        Producer(int(row["ProducerId"]), None if (at := _number(row["LastTimestamp"])) is None or at < 0 else at)
        for row in rows
    ]
    return sorted(producers, key=lambda producer: (-(producer.last_ms or 0), producer.producer_id))


def started_and_timeout(printed: str) -> tuple[int | None, int | None]:
    """Return start (ms since 1970) and timeout (ms) in the output of `kafka-transactions describe`; None if unknown."""
    rows = rows_of(printed, ("TransactionTimeoutMs", "CurrentTransactionStartTimeMs"))
    return (
        (_number(rows[0]["CurrentTransactionStartTimeMs"]), _number(rows[0]["TransactionTimeoutMs"]))
        if rows
        else (None, None)
    )


def _number(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdigit() else None


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
