"""Transactions that are open behind the fence: named, waited for, and ended where the approved plan says so."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_dr.actions.fencing.rules import source_rules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import (
    KnownTransaction,
    OpenTransaction,
    may_be_ended,
    sees_every_transaction,
)
from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.hooks.brokers.transactions import TransactionTool
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TransactionsOpen, TransactionsToAbort, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

#: Most transactions end within moments: Kafka's tool, which takes a second or two each time, is asked about those that
#: do not.
ASK_AFTER_SECONDS = 3.0
#: How long a transaction is left to its application and its broker after it was named, before it may be ended by
#: decision.
END_AFTER_SECONDS = 5.0
_NAMED_AT_ONCE = 10
_NOTED_AT_ONCE = 200

Key = tuple[str, int, int]


def transaction_tool(procedure: Run) -> TransactionTool | None:
    """Kafka's own tool on the source; None where the topology names none."""
    jars, alias = procedure.topology.kafka_tools, procedure.request.source
    return (
        TransactionTool(jars, procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection), alias)
        if jars
        else None
    )


class OpenTransactions:
    """Open transactions on the fenced source; named ones are in the journal, where a woken step goes on."""

    def __init__(self, procedure: Run, step: str) -> None:
        self._procedure, self._step = procedure, step
        self._tool = transaction_tool(procedure)
        self._said: list[str] = []

    def look(self, waiting: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> str:
        """Name what is open, end what may be ended, and say both.

        Args:
            waiting: partitions whose last stable offset, which is given, lies below the log end.
            ends: their log ends.
        """
        self._said = []
        named = self._named()
        oldest = {tp: named.get((tp.topic, tp.partition, offset)) for tp, offset in sorted(waiting.items())}
        new = [tp for tp, known in oldest.items() if known is None][:_NOTED_AT_ONCE]
        self._note(self._from_log({tp: OffsetSpan(waiting[tp], ends[tp]) for tp in new}))
        asked = [
            tp
            for tp, known in oldest.items()
            if known and known[1].producer_id is None and time.time() - known[0] >= ASK_AFTER_SECONDS
        ]
        self._note(self._from_tool(asked[:_NAMED_AT_ONCE]))
        still = self._still_open(waiting)
        if still and self._procedure.progress.move().planned.abort_open_transactions:
            self._end(still)
        now_ms = int(time.time() * 1000)
        names = [transaction.named(now_ms) for _, transaction in still[:_NAMED_AT_ONCE]]
        return "; ".join([f"{len(waiting)} partitions hold open transactions", *names, *dict.fromkeys(self._said)])

    # -- naming --------------------------------------------------------------------------------------------------

    def _note(self, found: list[OpenTransaction]) -> None:
        if found:
            record_fact(self._procedure.authority, self._step, TransactionsOpen(open_transactions=found))

    def _from_tool(self, partitions: list[TopicPartition]) -> list[OpenTransaction]:
        if self._tool is None or not partitions:
            return []
        try:
            found = [transaction for tp in partitions for transaction in self._tool.open_on(tp)]
            # After the partitions: what was open there then and is still open now is among these.
            known: dict[int | None, KnownTransaction] = {k.producer_id: k for k in self._tool.known() if k.open}
            told = {
                k.transactional_id: self._tool.started_and_timeout(k.transactional_id)
                for t in found
                if (k := known.get(t.producer_id))
            }
        except (SystemUnavailable, BadInput) as error:
            self._said.append(str(error))
            return []
        return [_with_coordinators_words(t, known.get(t.producer_id), told) for t in found]

    def _from_log(self, spans: Mapping[TopicPartition, OffsetSpan]) -> list[OpenTransaction]:
        """Where a partition's oldest transaction begins, and when its first record there was written."""
        if not spans:
            return []
        try:
            records = self._procedure.systems.reader(self._procedure.request.source).ranges(spans, limit=1)
        except (SystemUnavailable, BadInput) as error:
            self._said.append(str(error))
            records = {}
        return [
            OpenTransaction(
                tp.topic, tp.partition, span.start, since_ms=next((r.timestamp for r in records.get(tp, [])), None)
            )
            for tp, span in sorted(spans.items())
        ]

    def _named(self) -> dict[Key, tuple[float, OpenTransaction]]:
        """When each transaction was first named, in seconds since 1970, and what it was called last."""
        named: dict[Key, tuple[float, OpenTransaction]] = {}
        notes = self._procedure.journal.entries(self._procedure.id, self._step, Entry.NOTE)
        for entry, note in facts_of(notes, TransactionsOpen):
            for transaction in note.open_transactions:
                first, _ = named.get(_key(transaction), (entry.at.timestamp(), None))
                named[_key(transaction)] = (first, transaction)
        return named

    def _still_open(self, waiting: Mapping[TopicPartition, int]) -> list[tuple[float, OpenTransaction]]:
        """Everything before a partition's last stable offset has ended."""
        named = sorted(self._named().items())
        return [
            said
            for (topic, partition, start), said in named
            if start >= waiting.get(TopicPartition(topic, partition), start + 1)
        ]

    # -- ending --------------------------------------------------------------------------------------------------

    def _end(self, still: list[tuple[float, OpenTransaction]]) -> None:
        due = [transaction for at, transaction in still if time.time() - at >= END_AFTER_SECONDS]
        if not due or self._tool is None:
            return
        try:
            known = self._tool.known()
            seen = sees_every_transaction(
                source_rules(self._procedure),
                self._procedure.topology.cluster(self._procedure.request.source).principals.orchestrator,
            )
            ending = [t for t in due if may_be_ended(t, known, seen)]
            self._intend(ending)
            self._act(self._tool, ending)
        except (SystemUnavailable, BadInput) as error:
            self._said.append(str(error))
            return
        if not seen and any(t.transactional_id is None for t in due):
            self._said.append("one that no coordinator shows is ended only when we may DESCRIBE every transactional id")

    def _intend(self, ending: list[OpenTransaction]) -> None:
        meant = {_key(t) for t in aborted_transactions(self._procedure, self._step)}
        new = [t for t in ending if _key(t) not in meant]
        if new:
            record_fact(self._procedure.authority, self._step, TransactionsToAbort(aborts_transactions=new))

    def _act(self, tool: TransactionTool, ending: list[OpenTransaction]) -> None:
        for transactional_id in dict.fromkeys(t.transactional_id for t in ending if t.transactional_id is not None):
            self._procedure.authority.hold()
            tool.end(transactional_id)
        for transaction in (t for t in ending if t.transactional_id is None):
            self._procedure.authority.hold()
            tool.abort(transaction.at, transaction.start_offset)


def _with_coordinators_words(
    transaction: OpenTransaction, known: KnownTransaction | None, told: Mapping[str, tuple[int | None, int | None]]
) -> OpenTransaction:
    if known is None:
        return transaction
    since, timeout = told[known.transactional_id]
    return replace(
        transaction,
        transactional_id=known.transactional_id,
        state=known.state,
        since_ms=since or transaction.since_ms,
        timeout_ms=timeout,
    )


def _key(transaction: OpenTransaction) -> Key:
    return transaction.topic, transaction.partition, transaction.start_offset


def named_transactions(procedure: Run, step: str) -> list[OpenTransaction]:
    """Every transaction that a step named as open, in the order it met them."""
    return _once(t for note in procedure.progress.facts(TransactionsOpen, step) for t in note.open_transactions)


def aborted_transactions(procedure: Run, step: str) -> list[OpenTransaction]:
    """Every transaction that a step meant to end, by its intents in the journal."""
    return _once(
        t for intent in procedure.progress.facts(TransactionsToAbort, step) for t in intent.aborts_transactions
    )


def _once(transactions: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    return list({_key(t): t for t in transactions}.values())
