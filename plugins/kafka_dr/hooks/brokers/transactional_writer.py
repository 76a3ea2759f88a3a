"""Writing records in transactions: all of one are there, or none for whoever reads committed records only.

A transactional id is one writer's at a time. `fence` makes it this process's: whatever an older one, frozen or
orphaned, has under way is aborted, and it can neither write nor commit any more. The broker sees to that; no clock and
no lease is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_dr.errors import BadInput, KafkaUnavailable, NotReady, Superseded, SwitchbackError
from kafka_dr.hooks.brokers.client import client_config, describe_error, kafka_border

#: How long an unfinished transaction of a writer that died keeps readers of committed records waiting, where nobody
#: fences it earlier.
TRANSACTION_SECONDS = 30
_ABORT_SECONDS = 10.0
#: INVALID_TXN_STATE: another one, or the coordinator, has ended this writer's transaction.
_FENCED = frozenset(
    getattr(KafkaError, name)
    for name in "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE".split()
)
#: The broker will say the same again.
_NEVER = frozenset(
    getattr(KafkaError, name)
    for name in (
        "MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD INVALID_MSG INVALID_TIMESTAMP POLICY_VIOLATION"
        " TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION"
    ).split()
)
#: The client's largest; what is too large, the topic's own limit decides.
_LARGEST_MESSAGE = 1_000_000_000
_QUEUED_KBYTES = 2_097_151


class Outgoing(NamedTuple):
    """A record to be written; None and empty are different things in key, value and header values.

    Attributes:
        timestamp: milliseconds since 1970; None for the time of writing. The client takes 0 for none, too.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class RecordReplay:
    """The writer under one transactional id."""

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str,
        transactional_id: str,
        batch_bytes: int = 1_000_000,
        timeout: float = 60.0,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            config: librdkafka keys of the connection.
            alias: what the topology calls the cluster; stands in every error.
            batch_bytes: of one batch, unless a single record is larger; no more than any of the topics takes.
            timeout: of fencing and of one transaction, in seconds.
        """
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
            # Without a callback the client raises a fatal error in the middle of its own.
            "error_cb": self._complain,
        }
        self._producer: Producer | None = None
        self._failed: list[KafkaError] = []
        self._fatal: KafkaError | None = None

    def __repr__(self) -> str:
        return f"RecordReplay({self._alias!r}, {self._id!r})"

    def fence(self) -> None:
        """Take over the transactional id. On return, older writers' transactions are committed or aborted for good.

        Raises:
            KafkaUnavailable: not in time, or without the right to it.
        """
        self.close()
        self._fatal = None
        with kafka_border(self._alias, "making a transactional producer"):
            producer = Producer(self._settings)
        self._until(producer.init_transactions, "taking the transactional id", time.monotonic() + self._timeout)
        self._producer = producer

    def write(self, records: Iterable[Outgoing], still_allowed: Callable[[], object] = lambda: None) -> None:
        """Write records in one transaction, in order within each partition.

        Args:
            still_allowed: asked when all are written and none is committed; what it raises aborts them.

        Raises:
            Superseded: another writer has taken the transactional id, or the coordinator gave up on this one.
            NotReady: the cluster will never take one of the records as it is; none of them is there.
            KafkaUnavailable: no answer in time; whether they are there is known after the next `fence`.
        """
        producer = self._producer
        if producer is None:
            raise BadInput(f"{self._id} was not taken before writing to {self._alias}", "no fence", "call fence first")
        ends_at = time.monotonic() + self._timeout
        self._until(lambda _: producer.begin_transaction(), "beginning a transaction", ends_at)
        try:
            self._send(producer, records, ends_at)
            still_allowed()
            self._until(producer.commit_transaction, "committing a transaction", ends_at)
        except BaseException:
            self._abort(producer)
            raise

    def close(self) -> None:
        """Let go of the client; what it has not committed is aborted by the next writer, or by the coordinator."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _send(self, producer: Producer, records: Iterable[Outgoing], ends_at: float) -> None:
        self._failed.clear()
        for record in records:
            stamp: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
            try:
                producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    on_delivery=self._delivered,
                    **stamp,
                )
            except KafkaException as error:
                raise self._refusal("writing", (self._failed or [error.args[0]])[0]) from None
            except (TypeError, ValueError, BufferError) as error:
                raise BadInput(f"a record cannot be written to {record.topic!r} of {self._alias}", str(error)) from None
        try:
            left = producer.flush(max(0.1, ends_at - time.monotonic()))
        except (KafkaException, SystemError) as error:
            raise self._refusal("writing", _told_by(error)) from None
        if self._failed:
            raise self._refusal("writing", self._failed[0])
        if left:
            raise KafkaUnavailable(
                f"writing to {self._alias} failed",
                f"{left} records were not acknowledged within {self._timeout:g} s",
                f"look at the brokers of {self._alias}",
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _complain(self, error: KafkaError) -> None:
        """A fatal error is the reason of all that follow."""
        if error.fatal() and self._fatal is None:
            self._fatal = error

    def _until(self, call: Callable[[float], object], what: str, ends_at: float) -> None:
        """Call again as long as the client says that this may help."""
        while True:
            try:
                call(max(0.1, ends_at - time.monotonic()))
            except (KafkaException, SystemError) as error:
                found = _told_by(error)
                if not found.retriable() or time.monotonic() >= ends_at:
                    raise self._refusal(what, found) from None
                time.sleep(0.05)
            else:
                return

    def _abort(self, producer: Producer) -> None:
        """Leave nothing open; a client that cannot do that any more is given up."""
        try:
            producer.abort_transaction(_ABORT_SECONDS)
        except KafkaException:
            with suppress(KafkaException):
                self.close()

    def _told_since(self) -> KafkaError | None:
        """Read the reason of a fatal error, which polling reports by callback or exception; None without one."""
        try:
            if self._producer is not None:
                self._producer.poll(0)
        except (KafkaException, SystemError) as error:
            return _told_by(error)
        return self._fatal

    def _refusal(self, what: str, seen: KafkaError) -> SwitchbackError:
        error = self._fatal or self._told_since() or seen
        if error.code() in _FENCED:
            return Superseded(
                f"{what} on {self._alias} was refused",
                f"{describe_error(error)}: another process has taken {self._id}, or it was given up meanwhile",
                "Nothing: what was not committed is not there",
            )
        if error.code() in _NEVER:
            return NotReady(
                f"{self._alias} does not take a record",
                describe_error(error),
                "see what its topic takes (max.message.bytes, message.timestamp.before.max.ms, cleanup.policy), or"
                " whether it is there",
            )
        unavailable = KafkaUnavailable(
            f"{what} on {self._alias} failed",
            describe_error(error),
            f"look at the brokers of {self._alias} and at our rights there: WRITE on its topics and on"
            " transactional ids",
        )
        unavailable.from_broker = error.code() > 0
        return unavailable


def _told_by(error: Exception) -> KafkaError:
    """Extract the KafkaError; a fatal one raised among callbacks is the `__cause__` of Python's SystemError."""
    cause = error if isinstance(error, KafkaException) else error.__cause__
    if not isinstance(cause, KafkaException):
        raise error
    reason: KafkaError = cause.args[0]
    return reason
