"""Runs Kafka's tool for transactions, because the Python client cannot abort other clients' transactions."""

from __future__ import annotations

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import (
    KnownTransaction,
    OpenTransaction,
    Producer,
    known_transactions,
    open_on,
    producers_of,
    started_and_timeout,
)
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.hooks.brokers.java_tool import KafkaTool


class TransactionTool(KafkaTool):
    """Lists and aborts the transactions of one cluster, by partition and by transaction coordinator."""

    main = "org.apache.kafka.tools.TransactionsCommand"
    rights = "DESCRIBE and WRITE on transactional ids, ALTER on the cluster"
    commands = {
        **dict.fromkeys(("list", "describe", "describe-producers"), ""),
        "forceTerminateTransaction": "--transactionalId",
        "abort": "--topic",
    }

    def check(self) -> None:
        """Prove that transactions can be listed and aborted, before any fence.

        Java and Kafka's jars are installed, the tool's version has both commands, the cluster answers, and the
        principal has the rights.
        """
        self.known()
        self.end(OwnNames().check if self._scope is None else self._scope.own.check)

    def known(self) -> list[KnownTransaction]:
        """Return every transactional id that the connection's principal has the right to describe, with its state."""
        return known_transactions(self._run("list"))

    def open_on(self, partition: TopicPartition) -> list[OpenTransaction]:
        """Return a partition's open transactions, oldest first, as the partition's leader lists them.

        Fields that only the transaction coordinator knows, such as the transactional id, are unset.
        """
        return open_on(
            partition,
            self._run("describe-producers", f"--topic={partition.topic}", f"--partition={partition.partition}"),
        )

    def producers_on(self, partition: TopicPartition) -> list[Producer]:
        """Return every producer that a partition's leader still lists, the latest writer first."""
        return producers_of(
            self._run("describe-producers", f"--topic={partition.topic}", f"--partition={partition.partition}")
        )

    def started_and_timeout(self, transactional_id: str) -> tuple[int | None, int | None]:
        """Return a transaction's start (ms since 1970) and timeout (ms); each is None if the coordinator lacks it."""
        return started_and_timeout(self._run("describe", f"--transactional-id={transactional_id}"))

    def end(self, transactional_id: str) -> None:
        """Abort a transactional id's transaction by its coordinator; the id's producer can no longer commit."""
        self._run("forceTerminateTransaction", f"--transactionalId={transactional_id}")

    def abort(self, partition: TopicPartition, start_offset: int) -> None:
        """Abort a transaction on one partition only: for a hanging transaction, which no coordinator lists."""
        self._run(
            "abort",
            f"--topic={partition.topic}",
            f"--partition={partition.partition}",
            f"--start-offset={start_offset}",
        )
