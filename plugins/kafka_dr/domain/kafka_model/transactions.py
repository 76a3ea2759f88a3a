"""Transactions that are open on a partition, read from what Kafka's own tool prints.

Invariants
1. Only a transaction that its coordinator does not know may be ended on a partition alone. Ended there while the
   coordinator still holds it open, the application's commit would succeed afterwards, without the records of that
   partition.
2. A transaction that is being committed or aborted is waited for, never ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_dr.domain.kafka_model.acl import ANY_NAME, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput

#: The coordinator's word for a transaction that its application may still go on with.
ONGOING = "Ongoing"
_IDLE = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True)
class OpenTransaction:
    """One transaction that is open on one partition; what is not known is None.

    Attributes:
        start_offset: its first record on the partition.
        since_ms: when it began, in milliseconds since 1970.
        state: its coordinator's word for it; None where the coordinator does not know it, or was not asked.
        timeout_ms: after which its coordinator ends it.
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
        """The partition it is open on."""
        return TopicPartition(self.topic, self.partition)

    def named(self, now_ms: int) -> str:
        """As a person reads it."""
        parts = [f"{self.topic}-{self.partition} from offset {self.start_offset}"]
        if self.producer_id is not None:
            parts.append(f"producer {self.producer_id}")
            parts.append(
                f"transactional id {self.transactional_id!r}"
                if self.transactional_id is not None
                else "no transactional id that its coordinator names"
            )
        if self.since_ms is not None:
            parts.append(f"{max(0, now_ms - self.since_ms) / 1000:.0f} s old")
        if self.timeout_ms is not None:
            parts.append(f"ended by the broker after {self.timeout_ms / 1000:.0f} s")
        return ", ".join(parts)


@dataclass(frozen=True)
class KnownTransaction:
    """What the coordinators know of one transactional id."""

    transactional_id: str
    producer_id: int
    state: str

    @property
    def open(self) -> bool:
        """Whether it holds a transaction now."""
        return self.state not in _IDLE


@dataclass(frozen=True)
class Producer:
    """A producer that a partition still remembers; one that is not idempotent leaves no trace.

    Attributes:
        last_ms: timestamp of its newest record there, in milliseconds since 1970.
    """

    producer_id: int
    last_ms: int | None

    def named(self, transactional_id: str | None) -> str:
        """As a person reads it."""
        at = (
            "no timestamp"
            if self.last_ms is None
            else datetime.fromtimestamp(self.last_ms / 1000, UTC).isoformat(timespec="milliseconds")
        )
        return (
            f"producer {self.producer_id}"
            + (f", transactional id {transactional_id!r}" if transactional_id is not None else "")
            + f", newest record {at}"
        )


def rows_of(printed: str, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a table as Kafka's tools print them: columns parted by tabs and filled up with blanks.

    Raises:
        BadInput: it is not such a table, or lacks one of the columns.
    """
    lines = [line for line in printed.splitlines() if "\t" in line]
    cells = [[cell.rstrip(" ") for cell in line.split("\t")] for line in lines]
    if not cells or set(columns) - set(cells[0]) or any(len(row) != len(cells[0]) for row in cells):
        raise BadInput(
            "Kafka's tool printed something else than expected",
            ascii(printed[:200]),
            f"a table with the columns {', '.join(columns)} was expected; look at the tool's version",
        )
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def known_transactions(printed: str) -> list[KnownTransaction]:
    """What `list` prints."""
    rows = rows_of(printed, ("TransactionalId", "ProducerId", "TransactionState"))
    return [KnownTransaction(row["TransactionalId"], int(row["ProducerId"]), row["TransactionState"]) for row in rows]


def open_on(partition: TopicPartition, printed: str) -> list[OpenTransaction]:
    """The open ones of what `describe-producers` prints for a partition, oldest first."""
    rows = rows_of(printed, ("ProducerId", "LastTimestamp", "CurrentTransactionStartOffset"))
    found = [
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
    return sorted(found, key=lambda t: t.start_offset)


def producers_of(printed: str) -> list[Producer]:
    """Every producer of what `describe-producers` prints for a partition, the one that wrote last first."""
    rows = rows_of(printed, ("ProducerId", "LastTimestamp"))
    found = [
        Producer(int(row["ProducerId"]), None if (at := _number(row["LastTimestamp"])) is None or at < 0 else at)
        for row in rows
    ]
    return sorted(found, key=lambda one: (-(one.last_ms or 0), one.producer_id))


def started_and_timeout(printed: str) -> tuple[int | None, int | None]:
    """When a transaction began and after how many milliseconds it is ended, of what `describe` prints."""
    rows = rows_of(printed, ("TransactionTimeoutMs", "CurrentTransactionStartTimeMs"))
    return (
        (_number(rows[0]["CurrentTransactionStartTimeMs"]), _number(rows[0]["TransactionTimeoutMs"]))
        if rows
        else (None, None)
    )


def _number(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdigit() else None


def sees_every_transaction(rules: AclRules, principals: Iterable[str]) -> bool:
    """Tell whether one of our principals may describe every transactional id: then what is not shown is not open."""
    if not rules.authorizer:
        return True
    kind = [e for e in rules.entries if e.resource_type == "transactional_id"]
    return any(
        any(
            e.permission == "allow"
            and e.concerns(p)
            and e.name == ANY_NAME
            and e.pattern == "literal"
            and e.operation in ("describe", "read", "write", "all")
            for e in kind
        )
        and not any(e.permission == "deny" and e.concerns(p) for e in kind)
        for p in principals
    )


def may_be_ended(transaction: OpenTransaction, known: Iterable[KnownTransaction], all_seen: bool) -> bool:
    """Whether a transaction, as it was named, may be ended by decision now.

    Args:
        known: what the coordinators know now.
        all_seen: whether they show us all they know.
    """
    mine = [k for k in known if k.producer_id == transaction.producer_id and k.open]
    if transaction.transactional_id is not None:
        return any(k.transactional_id == transaction.transactional_id and k.state == ONGOING for k in mine)
    return transaction.producer_id is not None and all_seen and not mine
