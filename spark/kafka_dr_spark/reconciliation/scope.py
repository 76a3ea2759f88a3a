"""What is judged of one partition, as the job's input states it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.schemas import ContractBroken, check_values, column_names
from kafka_dr_spark.contract.task_rows import Key
from kafka_dr_spark.logs.bounds import LogBounds


@dataclass(frozen=True)
class Judged:
    """Which records of one partition are judged; all offsets are the source's.

    Attributes:
        judged_from: differences of records below this offset are not stated.
        judged_to: differences of records from this offset on are not stated.
        replicated: every record below this offset has been replicated, as Connect states; None if Connect states
            nothing.
        source_low, source_high: start and end of the source's log, within which a range may be widened.
        target_low, target_high: likewise of the target's log; None if the target partition does not exist.
    """

    topic: str
    partition: int
    judged_from: int
    judged_to: int
    replicated: int | None
    source_low: int
    source_high: int
    target_low: int | None
    target_high: int | None

    @property
    def source_cut(self) -> bool:
        """Whether the source may lack older records whose copies the target still holds."""
        return self.source_low > 0

    @property
    def target_cut(self) -> bool:
        """Whether the target may lack copies of older records that the source still holds."""
        return bool(self.target_low)


def load_judged(folder: Path, bounds: dict[Key, LogBounds]) -> dict[Key, Judged]:
    """Return by partition what judged.parquet states.

    Raises:
        ContractBroken: judged.parquet does not have exactly one row for each partition of ``bounds``.
    """
    table = sources.open_dataset(folder, "judged").to_table(columns=column_names("judged"))
    check_values("judged", table)
    judged = {(row["topic"], row["partition"]): Judged(**row) for row in table.to_pylist()}
    if len(judged) != len(table) or judged.keys() != bounds.keys():
        raise ContractBroken(
            f"judged: {len(table)} rows for {len(bounds)} partitions of bounds; each of these partitions must have"
            " exactly one row, and no other partition a row"
        )
    return judged
