"""Lists and aborts the transactions of other clients, which librdkafka cannot do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, OpenTransaction, Producer, open_on
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.broker_requests import READS, REQUEST_SECONDS, raise_code, require_answer
from kafka_dr.hooks.brokers.every_broker import EveryBroker

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import TransactionalIdNotFoundError, UnknownError, for_code
    from kafka.protocol.admin.transactions import DescribeTransactionsRequest
    from kafka.protocol.producer.transaction import InitProducerIdRequest, WriteTxnMarkersRequest

#: Each partition of this topic is a part of the transactional ids; the partition's leader coordinates them.
_COORDINATORS = "__transaction_state"
_TRANSACTIONAL_ID = 1
#: Newer versions need two-phase commit.
_INIT_PRODUCER_ID = 5
_ALTER = "ALTER on the cluster (before Kafka 3.8 CLUSTER_ACTION)"


class ClusterTransactions(EveryBroker):
    """Lists and aborts the transactions of one cluster, by partition and by transaction coordinator.

    Each call connects, and disconnects at its end. It repeats requests after errors that may pass.
    """

    sends = READS | {"InitProducerIdRequest", "WriteTxnMarkersRequest"}

    def check(self) -> None:
        """Prove that transactions can be listed and aborted, before any fence.

        Every broker answers and knows the requests, and the principal may abort a transaction by its transactional id.
        """
        self.known()
        self.end(OwnNames().check if self._scope is None else self._scope.own.check)

    def known(self) -> list[KnownTransaction]:
        """Return every transactional id that the connection's principal has the right to describe, with its state.

        Raises:
            KafkaUnavailable: a broker does not answer, or is older than Kafka 3.0; or a part of the transactional ids
                has no coordinator, and would be missing.
        """
        return self._repeated(self._known_now)

    def open_on(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Return the open transactions of partitions, as the partitions' leaders list them; by partition oldest first.

        Fields that only the transaction coordinator knows, such as the transactional id, are unset.
        """
        return [
            transaction
            for partition, producers in self.producers_on(partitions).items()
            for transaction in open_on(partition, producers)
        ]

    def producers_on(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[Producer]]:
        """Return every producer that each partition's leader still lists, the latest writer first."""
        wanted = list(partitions)
        return self._repeated(lambda: self._producers_now(wanted)) if wanted else {}

    def starts_and_timeouts(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int | None, int | None]]:
        """Return by transactional id its transaction's start (ms since 1970) and timeout (ms).

        Each is None if the coordinator lacks it.
        """
        wanted = list(transactional_ids)
        return self._repeated(lambda: self._described_now(wanted)) if wanted else {}

    def end(self, transactional_id: str) -> None:
        """Abort a transactional id's transaction by its coordinator; the id's producer can no longer commit.

        Kafka's coordinator does so before it gives the id to another producer, for which this request asks.
        """
        what = f"aborting the transaction of {transactional_id!r}"
        if self._scope is not None:
            self._scope.require_transactional_id(transactional_id, what)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            # Of the id's next transaction, for which its producer sets its own timeout.
            transaction_timeout_ms=int(REQUEST_SECONDS * 1000),
            producer_id=-1,
            producer_epoch=-1,
            max_version=_INIT_PRODUCER_ID,
        )
        needs = f"WRITE on the transactional id {transactional_id!r}"

        def attempt() -> None:
            coordinator = self._coordinator_of(transactional_id)
            self._all(what, {coordinator: request}, _no_error_in, REQUEST_SECONDS, needs)

        self._repeated(attempt)

    def abort(self, partition: TopicPartition, start_offset: int) -> None:
        """Abort a transaction on one partition only: for a hanging transaction, which no coordinator lists.

        Raises:
            KafkaUnavailable: no transaction is open on the partition from this offset on; or the partition's leader
                refuses, or does not answer.
        """
        what = f"aborting the transaction on {partition} from offset {start_offset}"
        if self._scope is not None:
            self._scope.require_topic(partition.topic, what)

        def attempt() -> None:
            leader = self._leaders([partition])[partition]
            listed = self.producers({partition: leader})[partition]
            producer = next((one for one in listed if one.transaction_start == start_offset), None)
            if producer is None:
                raise KafkaUnavailable(
                    f"{what} of {self._alias} failed",
                    f"broker {leader} lists no transaction that is open from this offset on",
                    "look at the partition again: the transaction has ended meanwhile, or began at another offset",
                )
            request = _abort_marker(partition, producer)
            self._all(what, {leader: request}, _no_errors_in_markers, REQUEST_SECONDS, _ALTER)

        self._repeated(attempt)

    def _known_now(self) -> list[KnownTransaction]:
        before = self._metadata([_COORDINATORS])
        leaders = before.leaders.get(_COORDINATORS, {})
        if missing := sorted(number for number, leader in leaders.items() if leader is None):
            raise KafkaUnavailable(
                f"listing transactional ids of {self._alias} failed",
                f"no broker coordinates a part of them: {_COORDINATORS} has no leader for the partitions"
                f" {first_few(missing)}",
                f"start the brokers of {self._alias} that hold these partitions",
                may_pass=True,
            )
        known = self.transactional_ids(before.brokers)
        if self._metadata([_COORDINATORS]).leaders.get(_COORDINATORS, {}) != leaders:
            raise KafkaUnavailable(
                f"listing transactional ids of {self._alias} failed",
                "their coordinators moved to other brokers meanwhile, and may be missing in the list",
                f"wait until the brokers of {self._alias} are up, and try again",
                may_pass=True,
            )
        return known

    def _producers_now(self, partitions: list[TopicPartition]) -> dict[TopicPartition, list[Producer]]:
        found = self.producers(self._leaders(partitions))
        return {partition: found[partition] for partition in partitions}

    def _described_now(self, transactional_ids: list[str]) -> dict[str, tuple[int | None, int | None]]:
        by_coordinator: dict[int, list[str]] = {}
        for transactional_id in transactional_ids:
            by_coordinator.setdefault(self._coordinator_of(transactional_id), []).append(transactional_id)
        requests = {
            coordinator: DescribeTransactionsRequest(transactional_ids=ids)
            for coordinator, ids in by_coordinator.items()
        }
        needs = f"DESCRIBE on the transactional ids {first_few(transactional_ids)}"
        found: dict[str, tuple[int | None, int | None]] = {}
        for answer in self._all("describing transactions", requests, _described_in, REQUEST_SECONDS, needs):
            found |= answer
        return found

    def _leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the broker id of each partition's leader; raise KafkaUnavailable if a partition has none."""
        wanted = list(partitions)
        leaders = self._metadata({tp.topic for tp in wanted}).leaders
        led = {tp: leaders.get(tp.topic, {}).get(tp.partition) for tp in wanted}
        if missing := sorted(tp for tp, leader in led.items() if leader is None):
            raise KafkaUnavailable(
                f"reading producers of {self._alias} failed",
                f"partitions without leader, or that do not exist: {first_few(missing)}",
                f"start the brokers of {self._alias} that hold these partitions",
                may_pass=True,
            )
        return {tp: leader for tp, leader in led.items() if leader is not None}

    def _coordinator_of(self, transactional_id: str) -> int:
        needs = f"DESCRIBE on the transactional id {transactional_id!r}"
        return self._coordinator(transactional_id, _TRANSACTIONAL_ID, needs)


def _abort_marker(partition: TopicPartition, producer: Producer) -> Any:
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    return WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=False,
                topics=[marker.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
                # The leader refuses an epoch below the last marker's; before the first marker it knows none.
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
        ]
    )


def _no_error_in(answer: Any) -> None:
    raise_code(require_answer(answer))


def _no_errors_in_markers(answer: Any) -> None:
    results = [
        partition
        for marker in require_answer(answer).markers
        for topic in marker.topics
        for partition in topic.partitions
    ]
    if not results:
        raise UnknownError("the broker's answer names no partition")
    for partition in results:
        raise_code(partition)


def _described_in(answer: Any) -> dict[str, tuple[int | None, int | None]]:
    found: dict[str, tuple[int | None, int | None]] = {}
    for transaction in require_answer(answer).transaction_states:
        if for_code(transaction.error_code) is TransactionalIdNotFoundError:
            found[transaction.transactional_id] = (None, None)
            continue
        raise_code(transaction)
        started = transaction.transaction_start_time_ms
        found[transaction.transactional_id] = (
            None if started < 0 else started,
            transaction.transaction_timeout_ms,
        )
    return found
