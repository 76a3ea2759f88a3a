"""Kafka's own tool for transactions: the Python client can neither describe nor end another's transaction."""

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
from kafka_dr.hooks.brokers.java_tool import KafkaTool

#: A transactional id of our own: ending its transaction, which does not exist, shows that others could be ended.
OWN_ID = "__switchback_check"


class TransactionTool(KafkaTool):
    """What is open on a partition, what coordinators know, and the ending of a transaction."""

    main = "org.apache.kafka.tools.TransactionsCommand"
    rights = "DESCRIBE and WRITE on transactional ids, ALTER on the cluster"

    def check(self) -> None:
        """Show that transactions can be listed and ended: Java, jars, version, connection and rights."""
        self.known()
        self.end(OWN_ID)

    def known(self) -> list[KnownTransaction]:
        """Every transactional id whose state we may see."""
        return known_transactions(self._run("list"))

    def open_on(self, partition: TopicPartition) -> list[OpenTransaction]:
        """Transactions that are open on a partition, without what only their coordinators know."""
        return open_on(
            partition,
            self._run("describe-producers", f"--topic={partition.topic}", f"--partition={partition.partition}"),
        )

    def producers_on(self, partition: TopicPartition) -> list[Producer]:
        """Every producer that a partition still remembers, the one that wrote last first."""
        return producers_of(
            self._run("describe-producers", f"--topic={partition.topic}", f"--partition={partition.partition}")
        )

    def started_and_timeout(self, transactional_id: str) -> tuple[int | None, int | None]:
        """Read when a transaction began (ms since 1970), and after how many ms its coordinator ends it."""
        return started_and_timeout(self._run("describe", f"--transactional-id={transactional_id}"))

    def end(self, transactional_id: str) -> None:
        """Abort a transaction through its coordinator and fence off its producer, which cannot commit any more."""
        self._run("forceTerminateTransaction", f"--transactionalId={transactional_id}")

    def abort(self, partition: TopicPartition, start_offset: int) -> None:
        """Abort a transaction on one partition, without a coordinator: only for those that no coordinator knows."""
        self._run(
            "abort",
            f"--topic={partition.topic}",
            f"--partition={partition.partition}",
            f"--start-offset={start_offset}",
        )
