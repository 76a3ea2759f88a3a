"""Writes records in transactions: read_committed readers see all records of a transaction or none.

A transactional id belongs to one writer at a time. `fence` takes the id over: the broker aborts the open transaction of
an older writer, which can neither write nor commit any more, even if it was only frozen. Neither clocks nor leases are
needed for this. This is Kafka's fencing of producers, not the fence of a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import BadInput, KafkaUnavailable, NotReady, Superseded, SwitchbackError
from kafka_dr.hooks.brokers.client import client_config, describe_error, kafka_border

#: Transaction timeout in seconds: for so long at most, a dead writer's open transaction holds back read_committed
#: readers; less if another writer takes over its transactional id.
TRANSACTION_SECONDS = 30
_ABORT_SECONDS = 10.0
#: Errors of a writer that was fenced; INVALID_TXN_STATE: another writer or the coordinator has ended its transaction.
_FENCED = frozenset(
    getattr(KafkaError, name)
    for name in "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE".split()
)
#: Permanent refusals: the broker would refuse the same record again.
_PERMANENT = frozenset(
    getattr(KafkaError, name)
    for name in (
        "MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD INVALID_MSG INVALID_TIMESTAMP POLICY_VIOLATION"
        " TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION"
    ).split()
)
#: The client's greatest possible limit: a large record shall be refused only by its topic's own limit.
_LARGEST_MESSAGE = 1_000_000_000
_QUEUED_KBYTES = 2_097_151


class Outgoing(NamedTuple):
    """A record to be written. In key, value and header values, None (null) is not the same as empty.

    Attributes:
        timestamp: milliseconds since 1970; None or 0 for the time of writing (librdkafka makes no difference).
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class RecordReplay:
    """Writes records to one cluster in transactions, under one transactional id."""

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str,
        transactional_id: str,
        batch_bytes: int = 1_000_000,
        timeout: float = 60.0,
        scope: DrillScope | None = None,
    ) -> None:
        """Check the configuration; no connection is opened yet.

        Args:
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
            transactional_id: the writer's transactional id.
            batch_bytes: maximum size of a batch; a larger record is a batch of its own. Give at most the smallest
                max.message.bytes of the topics.
            timeout: limit of one `fence`, and of one transaction, in seconds.
            scope: in a drill, the topics and transactional ids that the writer may use.
        """
        if scope is not None:
            scope.require_transactional_id(transactional_id, "writing in transactions")
        self._scope = scope
        self._alias, self._id, self._timeout = alias, transactional_id, timeout
        self._settings = {
            **client_config(config, alias),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "message.max.bytes": _LARGEST_MESSAGE,
            "queue.buffering.max.kbytes": _QUEUED_KBYTES,
            "batch.size": batch_bytes,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
            # Without this callback, the client would raise a fatal error in the middle of its other callbacks.
            "error_cb": self._complain,
        }
        self._producer: Producer | None = None
        self._delivery_errors: list[KafkaError] = []
        self._fatal: KafkaError | None = None

    def __repr__(self) -> str:
        return f"RecordReplay({self._alias!r}, {self._id!r})"

    def fence(self) -> None:
        """Take over the transactional id; on return, every older transaction under the id is committed or aborted.

        Raises:
            KafkaUnavailable: not done in time, or the connection lacks rights on the transactional id.
        """
        self.close()
        self._fatal = None
        with kafka_border(self._alias, "creating a transactional producer"):
            producer = Producer(self._settings)
        self._repeat_until(producer.init_transactions, "initializing transactions", time.monotonic() + self._timeout)
        self._producer = producer

    def write(self, records: Iterable[Outgoing], still_allowed: Callable[[], object] = lambda: None) -> None:
        """Write records in one transaction, in order within each partition.

        Args:
            still_allowed: called after all records are written, before the commit; an exception aborts the transaction.

        Raises:
            OutsideDrill: a record's topic is not in the drill's scope; no record is written.
            Superseded: another writer has taken the transactional id, or the coordinator aborted the transaction.
            NotReady: the cluster will never accept one of the records; no record is committed.
            KafkaUnavailable: no answer in time; only after the next `fence` can a reader tell whether the records are
                committed.
        """
        producer = self._producer
        if producer is None:
            raise BadInput(
                f"{self._id} was not initialized before writing to {self._alias}",
                "the method fence was not called before the method write",
                "report this message as a defect of Switchback; nothing was written",
            )
        if self._scope is not None:
            records = list(records)
            for record in records:
                self._scope.require_topic(record.topic, "writing a record in a transaction")
        ends_at = time.monotonic() + self._timeout
        self._repeat_until(lambda _: producer.begin_transaction(), "beginning a transaction", ends_at)
        try:
            self._send(producer, records, ends_at)
            still_allowed()
            self._repeat_until(producer.commit_transaction, "committing a transaction", ends_at)
        except BaseException:
            self._abort(producer)
            raise

    def close(self) -> None:
        """Drop the client; the next `fence`, or the coordinator at the timeout, aborts its open transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _send(self, producer: Producer, records: Iterable[Outgoing], ends_at: float) -> None:
        self._delivery_errors.clear()
        for record in records:
            stamp: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
            try:
                producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    on_delivery=self._on_delivery,
                    **stamp,
                )
            except KafkaException as error:
                raise self._refusal("writing", (self._delivery_errors or [error.args[0]])[0]) from None
            except (TypeError, ValueError, BufferError) as error:
                raise BadInput(
                    f"a record cannot be written to {record.topic!r} of {self._alias}: the Kafka client refuses the"
                    " record",
                    str(error),
                    "the text states which part of the record the client refuses; report this message as a defect of"
                    " Switchback. No record of this transaction is committed: the transaction is aborted at once, or by"
                    f" its coordinator after {TRANSACTION_SECONDS} s",
                ) from None
        try:
            unacknowledged = producer.flush(max(0.1, ends_at - time.monotonic()))
        except (KafkaException, SystemError) as error:
            raise self._refusal("writing", _kafka_error_of(error)) from None
        if self._delivery_errors:
            raise self._refusal("writing", self._delivery_errors[0])
        if unacknowledged:
            raise KafkaUnavailable(
                f"writing to {self._alias} failed",
                f"{unacknowledged} records were not acknowledged within {self._timeout:g} s",
                f"make sure that the brokers of {self._alias} run, and have enough in-sync replicas. No record of this"
                " transaction is committed; the next attempt of the task writes these records again",
            )

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._delivery_errors.append(error)

    def _complain(self, error: KafkaError) -> None:
        """Store the client's first fatal error, which is the reason of all later errors."""
        if error.fatal() and self._fatal is None:
            self._fatal = error

    def _repeat_until(self, call: Callable[[float], object], what: str, ends_at: float) -> None:
        """Repeat a call until it succeeds; an error that is not retriable, or the error at the deadline, is raised.

        Args:
            call: the call; its argument is the time left, in seconds.
            what: the call, for the error's message.
            ends_at: the deadline, in monotonic seconds.
        """
        while True:
            try:
                call(max(0.1, ends_at - time.monotonic()))
            except (KafkaException, SystemError) as error:
                reason = _kafka_error_of(error)
                if not reason.retriable() or time.monotonic() >= ends_at:
                    raise self._refusal(what, reason) from None
                time.sleep(0.05)
            else:
                return

    def _abort(self, producer: Producer) -> None:
        """Abort the open transaction; if the abort fails, drop the client."""
        try:
            producer.abort_transaction(_ABORT_SECONDS)
        except KafkaException:
            with suppress(KafkaException):
                self.close()

    def _fatal_error(self) -> KafkaError | None:
        """Return the client's fatal error, whether it arrived in a callback or as an exception; None without one."""
        try:
            if self._producer is not None:
                self._producer.poll(0)
        except (KafkaException, SystemError) as error:
            return _kafka_error_of(error)
        return self._fatal

    def _refusal(self, what: str, seen: KafkaError) -> SwitchbackError:
        error = self._fatal or self._fatal_error() or seen
        if error.code() in _FENCED:
            return Superseded(
                f"{what} on {self._alias} was refused",
                f"{describe_error(error)}: another process uses the transactional id {self._id}, or the coordinator has"
                " aborted the transaction",
                "do nothing: the next attempt of the task reads which records are committed, and writes the others",
            )
        if error.code() in _PERMANENT:
            return NotReady(
                f"{self._alias} refuses a record",
                describe_error(error),
                f"no record of this transaction is committed. Read the settings of the record's topic on {self._alias}:"
                " the topic must exist, and its max.message.bytes, message.timestamp.before.max.ms and cleanup.policy"
                " must accept the record. Correct the setting that refuses the record",
            )
        unavailable = KafkaUnavailable(
            f"{what} on {self._alias} failed",
            describe_error(error),
            f"make sure that the brokers of {self._alias} run, and that the connection's principal has WRITE on the"
            f" topics and on the transactional id {self._id}; the next attempt reads which records are committed",
        )
        unavailable.from_broker = error.code() > 0
        return unavailable


def _kafka_error_of(error: Exception) -> KafkaError:
    """Return the KafkaError in a KafkaException, or in the KafkaException that caused another exception.

    If neither exists, the given exception is raised. (A fatal error that the client reports in a callback arrives as a
    SystemError of Python, caused by the KafkaException.)
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    if not isinstance(cause, KafkaException):
        raise error
    reason: KafkaError = cause.args[0]
    return reason
