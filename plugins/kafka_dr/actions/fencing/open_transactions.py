"""Open transactions on the fenced source: describe them, wait for their end, abort them if the plan says so."""

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
from kafka_dr.errors import BadInput, NotReady, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TransactionsOpen, TransactionsToAbort, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

#: Seconds after a transaction's first description until brokers are asked about it: most transactions end sooner.
ASK_AFTER_SECONDS = 3.0
#: Seconds that application and broker have to end a transaction, from its first description in the journal on, before
#: the procedure aborts it.
END_AFTER_SECONDS = 5.0
_MOST_NAMED_PER_LOOK = 10
_MOST_NOTED_PER_LOOK = 200

Key = tuple[str, int, int]


class OpenTransactions:
    """Describes open transactions on the fenced source in the journal, and aborts them if the plan says so.

    A resumed step reads the descriptions from the journal and continues the wait.
    """

    def __init__(self, procedure: Run, step: str) -> None:
        self._procedure, self._step = procedure, step
        self._transactions = procedure.systems.transactions(procedure.request.source)
        self._reports: list[str] = []

    def look(self, waiting: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> str:
        """Describe open transactions in the journal; abort transactions still open 5 s after their first description.

        Transactions are aborted only if the plan has `abort_open_transactions`.

        Args:
            waiting: source partition -> last stable offset, of partitions with a log end above the last stable offset.
            ends: source partition -> log end, of at least these partitions.

        Returns:
            One line of text: the open transactions, and why some could not be described or aborted.
        """
        self._reports = []
        named = self._first_namings()
        oldest = {tp: named.get((tp.topic, tp.partition, offset)) for tp, offset in sorted(waiting.items())}
        unnamed = [tp for tp, first_naming in oldest.items() if first_naming is None][:_MOST_NOTED_PER_LOOK]
        self._record_names(self._describe_by_log({tp: OffsetSpan(waiting[tp], ends[tp]) for tp in unnamed}))
        now = self._procedure.progress.now()
        to_ask = [
            tp
            for tp, first_naming in oldest.items()
            if first_naming and first_naming[1].producer_id is None and now - first_naming[0] >= ASK_AFTER_SECONDS
        ]
        self._record_names(self._describe_by_brokers(to_ask[:_MOST_NAMED_PER_LOOK]))
        still_open = self._still_open(waiting)
        if still_open and self._procedure.progress.move().planned.abort_open_transactions:
            self._abort_due(still_open)
        now_ms = int(time.time() * 1000)
        names = [transaction.named(now_ms) for _, transaction in still_open[:_MOST_NAMED_PER_LOOK]]
        return "; ".join([f"{len(waiting)} partitions hold open transactions", *names, *dict.fromkeys(self._reports)])

    # -- naming --------------------------------------------------------------------------------------------------

    def _record_names(self, transactions: list[OpenTransaction]) -> None:
        if transactions:
            record_fact(self._procedure.authority, self._step, TransactionsOpen(open_transactions=transactions))

    def _describe_by_brokers(self, partitions: list[TopicPartition]) -> list[OpenTransaction]:
        if not partitions:
            return []
        try:
            transactions = self._transactions.open_on(partitions)
            # Asked after `open_on`, because `known` then lists every transaction that is still open on a partition.
            by_producer: dict[int | None, KnownTransaction] = {
                listed.producer_id: listed for listed in self._transactions.known() if listed.open
            }
            start_and_timeout = self._transactions.starts_and_timeouts(
                {
                    listed.transactional_id
                    for transaction in transactions
                    if (listed := by_producer.get(transaction.producer_id))
                }
            )
        except (SystemUnavailable, BadInput) as error:
            self._reports.append(f"the brokers could not describe the transactions: {error}")
            return []
        return [
            _with_coordinator_state(transaction, by_producer.get(transaction.producer_id), start_and_timeout)
            for transaction in transactions
        ]

    def _describe_by_log(self, spans: Mapping[TopicPartition, OffsetSpan]) -> list[OpenTransaction]:
        """Return each partition's oldest open transaction: start offset, and its first record's timestamp or None.

        Args:
            spans: source partition -> offsets from its last stable offset to its log end.
        """
        if not spans:
            return []
        try:
            reader = self._procedure.systems.reader(self._procedure.request.source)
            records = reader.ranges(spans, limit=1, take=digest_of)
        except (SystemUnavailable, BadInput) as error:
            self._reports.append(f"the first records of the transactions could not be read: {error}")
            records = {}
        return [
            OpenTransaction(
                tp.topic,
                tp.partition,
                span.start,
                since_ms=next((record.timestamp for record in records.get(tp, [])), None),
            )
            for tp, span in sorted(spans.items())
        ]

    def _first_namings(self) -> dict[Key, tuple[float, OpenTransaction]]:
        """Return (topic, partition, start offset) -> time of the first description, and the newest description.

        Descriptions are what this step's journal entries state about a transaction; times are seconds since 1970.
        """
        named: dict[Key, tuple[float, OpenTransaction]] = {}
        notes = self._procedure.journal.entries(self._procedure.id, self._step, Entry.NOTE)
        for entry, note in facts_of(notes, TransactionsOpen):
            for transaction in note.open_transactions:
                first, _ = named.get(_key(transaction), (entry.at.timestamp(), None))
                named[_key(transaction)] = (first, transaction)
        return named

    def _still_open(self, waiting: Mapping[TopicPartition, int]) -> list[tuple[float, OpenTransaction]]:
        """Return (time of first description in seconds since 1970, transaction) per described transaction still open.

        A transaction that began below its partition's last stable offset has ended.
        """
        named = sorted(self._first_namings().items())
        return [
            naming
            for (topic, partition, start), naming in named
            if start >= waiting.get(TopicPartition(topic, partition), start + 1)
        ]

    # -- aborting ------------------------------------------------------------------------------------------------

    def _abort_due(self, still_open: list[tuple[float, OpenTransaction]]) -> None:
        now = self._procedure.progress.now()
        due = [transaction for named_at, transaction in still_open if now - named_at >= END_AFTER_SECONDS]
        if not due:
            return
        try:
            listed = self._transactions.known()
            sees_all = sees_every_transaction(
                source_rules(self._procedure),
                self._procedure.topology.cluster(self._procedure.request.source).principals.orchestrator,
            )
            to_abort = [transaction for transaction in due if may_be_ended(transaction, listed, sees_all)]
            self._record_intent(to_abort)
            self._abort(to_abort)
        except (SystemUnavailable, BadInput) as error:
            self._reports.append(f"the abort of open transactions is not confirmed: {error}")
            return
        if not sees_all and any(transaction.transactional_id is None for transaction in due):
            self._reports.append(
                "a transaction that no coordinator lists is aborted only if the orchestrator's principal has the right"
                " DESCRIBE on every transactional id of the source"
            )

    def _record_intent(self, to_abort: list[OpenTransaction]) -> None:
        intended = {_key(transaction) for transaction in aborted_transactions(self._procedure, self._step)}
        new = [transaction for transaction in to_abort if _key(transaction) not in intended]
        if new:
            record_fact(self._procedure.authority, self._step, TransactionsToAbort(aborts_transactions=new))

    def _abort(self, to_abort: list[OpenTransaction]) -> None:
        for transactional_id in dict.fromkeys(
            candidate.transactional_id for candidate in to_abort if candidate.transactional_id is not None
        ):
            self._procedure.authority.hold()
            self._transactions.end(transactional_id)
        for transaction in (candidate for candidate in to_abort if candidate.transactional_id is None):
            self._procedure.authority.hold()
            self._transactions.abort(transaction.at, transaction.start_offset)


def _with_coordinator_state(
    transaction: OpenTransaction,
    listed: KnownTransaction | None,
    start_and_timeout: Mapping[str, tuple[int | None, int | None]],
) -> OpenTransaction:
    if listed is None:
        return transaction
    since, timeout = start_and_timeout[listed.transactional_id]
    return replace(
        transaction,
        transactional_id=listed.transactional_id,
        state=listed.state,
        since_ms=since or transaction.since_ms,
        timeout_ms=timeout,
    )


def _key(transaction: OpenTransaction) -> Key:
    return transaction.topic, transaction.partition, transaction.start_offset


def named_transactions(procedure: Run, step: str) -> list[OpenTransaction]:
    """Return every transaction that `step` described as open on the source, in the order of first descriptions."""
    return _unique(
        transaction
        for note in procedure.progress.facts(TransactionsOpen, step)
        for transaction in note.open_transactions
    )


def aborted_transactions(procedure: Run, step: str) -> list[OpenTransaction]:
    """Return every transaction on the source that `step` aborted or meant to abort, by its intents in the journal."""
    return _unique(
        transaction
        for intent in procedure.progress.facts(TransactionsToAbort, step)
        for transaction in intent.aborts_transactions
    )


def _unique(transactions: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    return list({_key(transaction): transaction for transaction in transactions}.values())


def transactions_can_be_ended(procedure: Run) -> None:
    """If param abort_open_transactions is set, prove, before any fence, that open transactions can be aborted.

    Raises:
        NotReady: transactions on the source cannot be listed or aborted.
    """
    if not procedure.request.abort_open_transactions:
        return
    try:
        procedure.systems.transactions(procedure.request.source).check()
    except SwitchbackError as error:
        raise NotReady(
            "Open transactions cannot be aborted on the source",
            str(error),
            f"The source is not fenced. Correct what this error names on {procedure.request.source} and start a new"
            " run; or start a new run without abort_open_transactions, which waits until open transactions end.",
        ) from None
