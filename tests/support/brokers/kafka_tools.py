"""What Kafka's own tools print about transactions and log directories, read as tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.environment.state import Lab
from tests.support.lab_clients import run_kafka_tool

_TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_LOG_DIRECTORIES = "org.apache.kafka.tools.LogDirsCommand"
Row = dict[str, str]


class KafkaTools:
    """Kafka's tools of the newest version on one cluster, as its administrator."""

    def __init__(self, lab: Lab, alias: str) -> None:
        self._lab, self._alias = lab, alias

    def known(self) -> set[tuple[str, int, str]]:
        """Return transactional id, producer id and state of every transactional id."""
        return {
            (row["TransactionalId"], int(row["ProducerId"]), row["TransactionState"])
            for row in self.transactions("list")
        }

    def started_and_timeout(self, name: str) -> tuple[int | None, int | None]:
        """Return a transaction's start and timeout in milliseconds."""
        (row,) = self.transactions("describe", f"--transactional-id={name}")
        return _number(row["CurrentTransactionStartTimeMs"]), _number(row["TransactionTimeoutMs"])

    def producers(self, topic: str, partition: int) -> set[tuple[int | None, ...]]:
        """Return what a partition's leader lists: id, epochs, last sequence, last timestamp, transaction's start."""
        columns = "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp".split()
        rows = self.transactions("describe-producers", f"--topic={topic}", f"--partition={partition}")
        return {
            (*(_number(row[column]) for column in columns), _number(row["CurrentTransactionStartOffset"]))
            for row in rows
        }

    def transactions(self, *arguments: str) -> list[Row]:
        """Return the rows of the table that the transaction tool prints; [] without a table."""
        printed = run_kafka_tool(self._lab, self._alias, "transactions", _TRANSACTIONS, *arguments)
        cells = [[cell.strip() for cell in line.split("\t")] for line in printed.splitlines() if "\t" in line]
        return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]

    def delete_position(self, group: str, topic: str, partition: int) -> str:
        """Delete one position of a group; return what the tool printed."""
        arguments = ("--delete-offsets", "--group", group, "--topic", f"{topic}:{partition}")
        return run_kafka_tool(self._lab, self._alias, "groups", _GROUPS, *arguments)

    def sizes(self, *topics: str) -> dict[tuple[str, int], int]:
        """Return the bytes of each partition on the cluster's only broker."""
        arguments = ("--describe", f"--topic-list={','.join(topics)}")
        printed = run_kafka_tool(self._lab, self._alias, "log-dirs", _LOG_DIRECTORIES, *arguments)
        told: Any = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
        ((broker, folders),) = ((one["broker"], one["logDirs"]) for one in told["brokers"])
        assert broker == 1 and all(Path(folder["logDir"]).is_absolute() for folder in folders)
        parts = [part for folder in folders for part in folder["partitions"]]
        return {(name, int(number)): part["size"] for part in parts for name, _, number in [_split(part["partition"])]}


def _split(partition: str) -> tuple[str, str, str]:
    return partition.rpartition("-")


def _number(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdigit() else None
