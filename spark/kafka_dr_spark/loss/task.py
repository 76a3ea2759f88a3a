"""One Spark task of the loss assessment: its partitions' loss, and the lost records if the source can be read."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema
from kafka_dr_spark.contract.task_rows import (
    NO_OFFSET,
    POSITION,
    SEEN,
    STRETCH,
    Key,
    Kinds,
    TaskRows,
    pack_table,
    split_by_partition,
    unpack_table,
)
from kafka_dr_spark.export.place import ExportPlace
from kafka_dr_spark.export.store import NotStored
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.loss.partition_loss import Loss, PartitionLastSeen, Unbroken, loss_of, loss_with_source
from kafka_dr_spark.loss.reread_bounds import rereads_before_translation
from kafka_dr_spark.reading.record_files import list_stranded
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader
from kafka_dr_spark.translation.case import SOURCE, TARGET, Case, Limits, ReadWindow, Search, target_known
from kafka_dr_spark.translation.partition import answers_without_reading, first_available
from kafka_dr_spark.translation.task import case_of, drive_searches

#: Figures of a partition that was read and holds no record beyond the replicated part.
NOTHING = {"records": 0, "bytes": 0, "aborted": 0, "undecided": 0}
#: Time span before the last sample over which a source's growth is measured.
RATE_MILLISECONDS = 60_000


class Seen(NamedTuple):
    """Facts on a partition from the flight recorder's last sample, Connect and the source; None if not stated.

    Attributes:
        source_end: the source's log end at the last sample.
        replicated: last replicated offset that Connect stores now or, if not read now, had stored at the last sample.
        sampled_at: start of the last sample, in milliseconds since 1970.
        stable_end: the source's last stable offset now; None if this partition of the source cannot be read.
        without_gaps: source ranges in which every offset had a record, in order.
    """

    source_end: int | None
    replicated: int | None
    sampled_at: int | None
    stable_end: int | None
    without_gaps: tuple[Unbroken, ...]


def seen_of(key: Key, kinds: Kinds) -> Seen:
    """Return what last_seen.parquet and stretches.parquet state of the partition ``key``.

    ``kinds`` are the partition's input rows.

    Raises:
        ContractBroken: last_seen.parquet does not have exactly one row of this partition.
    """
    rows = kinds[SEEN]
    if len(rows) != 1:
        raise ContractBroken(
            f"last_seen: {key[0]}-{key[1]} has {len(rows)} rows, must have one; a new try of the Airflow task writes"
            " all input files again"
        )
    source_end, replicated, sampled_at, stable_end = (
        None if (value := int(rows.numbers(name)[0])) == NO_OFFSET else value for name in "abcd"
    )
    stretches = sorted(map(Unbroken, *(kinds[STRETCH].numbers(name).tolist() for name in "abc")))
    return Seen(source_end, replicated, sampled_at, stable_end, tuple(stretches))


class AssessmentTask:
    """Assesses the data loss of one Spark task's partitions. Instances, with client settings, go to the workers."""

    def __init__(self, bounds: dict[Key, LogBounds], limits: Limits, access: KafkaAccess, place: ExportPlace) -> None:
        """Store what the task needs.

        Args:
            bounds: log starts and ends, by partition.
            limits: read limits.
            access: client settings of both clusters.
            place: where lost records are written if the source is readable, to the folders stranded and uncommitted.
        """
        self._bounds, self._limits, self._access, self._place = bounds, limits, access, place

    def __call__(self, packed: bytes) -> bytes:
        """Return the packed output rows of the task (columns `output_schema`) for its packed input rows (`TAGGED`)."""
        return pack_table(self.assess(unpack_table(packed)))

    def assess(self, rows: pa.Table) -> pa.Table:
        """Return one row per partition of the input rows; ``losing`` is true if the partition may lose records."""
        tables = split_by_partition(rows)
        seen = {key: seen_of(key, kinds) for key, kinds in tables.items()}
        cases = {key: self._case_of(key, kinds, seen[key]) for key, kinds in tables.items()}
        with WindowReader(self._access, self._limits) as reader:
            losses = dict(
                zip(cases, drive_searches([self._search(cases[key], seen[key]) for key in cases], reader.read))
            )
        read = {key: loss for key, loss in losses.items() if cases[key].limits.source_readable}
        listed = self._listed(read, seen) if read else {}
        made_rows = [
            row_of(key, cases[key], seen[key], losses[key], listed.get(key, {}))
            | rereads_of(cases[key], tables[key][POSITION])
            for key in cases
        ]
        return pa.Table.from_pylist(made_rows, schema=output_schema())

    def _case_of(self, key: Key, kinds: Kinds, seen: Seen) -> Case:
        """Return a partition's case; its source counts as readable only if the source was read there for the input.

        Raises:
            ContractBroken: such a partition has no log start or no cut-off.
        """
        bounds, readable = self._bounds[key], self._limits.source_readable and seen.stable_end is not None
        if readable and (bounds.source_start is None or bounds.cut_off is None):
            raise ContractBroken(
                f"bounds: {key[0]}-{key[1]} has a last stable offset, but no log start or no cut-off; a new try of the"
                " Airflow task writes all input files again"
            )
        return case_of(kinds, bounds, replace(self._limits, source_readable=readable))

    def _search(self, case: Case, seen: Seen) -> Search:
        if case.limits.source_readable:
            return loss_with_source(case, seen.replicated)
        return loss_of(case, PartitionLastSeen(seen.source_end, seen.replicated, seen.without_gaps))

    def _listed(self, losses: dict[Key, Loss], seen: dict[Key, Seen]) -> dict[Key, dict[str, Any]]:
        """Write the source records from the start of each loss on to files; return by partition its file's figures.

        If the store does not take the files, the figures name no file: clients wait for the assessment, and the source
        still has the records.
        """
        windows = {
            key: ReadWindow(SOURCE, *key, loss.from_offset, end)
            for key, loss in losses.items()
            if (end := self._bounds[key].cut_off) is not None and loss.from_offset < end
        }
        stable_ends = {window: seen[key].stable_end for key, window in windows.items()}
        with self._place.attempt() as files:
            written = list_stranded(self._access, self._limits, files, stable_ends)
            try:
                files.store_all()
            except NotStored as error:
                unnamed = dict.fromkeys(("file", "sha256", "uncommitted_sha256")) | {"not_stored": str(error)}
                written = {window: figures | unnamed for window, figures in written.items()}
        return {key: written[windows[key]] if key in windows else dict(NOTHING) for key in losses}


@lru_cache
def output_schema() -> pa.Schema:
    """Return the schema of a task's output: per partition its loss, the records read, and its groups' re-reads."""
    group_columns = [("groups", pa.string()), ("bounds", pa.int64()), ("moved", pa.bool_())]
    read_columns = [pa.field(f"read_{side}", pa.int64(), False) for side in (SOURCE, TARGET)]
    return pa.schema(
        [
            *arrow_schema("loss"),
            pa.field("losing", pa.bool_(), False),
            *read_columns,
            *(pa.field(name, pa.list_(kind), False) for name, kind in group_columns),
            pa.field("not_stored", pa.string()),
        ]
    )


def row_of(key: Key, case: Case, seen: Seen, loss: Loss, listed: dict[str, Any]) -> dict[str, Any]:
    """Return a partition's row in the columns of `output_schema`, without the groups' re-reads."""
    end = case.bounds.cut_off
    final = case.limits.source_final
    row = dict.fromkeys(output_schema().names) | {
        name: listed.get(name)
        for name in (
            "records",
            "bytes",
            "first_at",
            "last_at",
            "aborted",
            "undecided",
            "file",
            "sha256",
            "uncommitted_sha256",
            "not_stored",
        )
    }
    row |= {
        "topic": key[0],
        "partition": key[1],
        "from_offset": loss.from_offset,
        "certain_to": loss.certain_to,
        "evidence": loss.evidence,
    }
    row |= {
        "possible_to": end if final else None,
        "exact": case.limits.source_readable and loss.certain_to == end and not case.floors.fell,
        "sampled_at": seen.sampled_at,
    }
    row |= {
        "written_since": written_since(case.floors, loss.from_offset),
        "records_per_second": source_growth(case.floors),
    }
    row |= {"losing": not (final and end is not None and loss.from_offset >= end)}
    return row | {f"read_{side}": count for side, count in case.read.items()}


def rereads_of(case: Case, rows: TaskRows) -> dict[str, list[Any]]:
    """Return three columns of a partition's row: its groups, their bounds of re-reads (records), and ``moved``.

    A bound is None if the group may get no target position. ``moved`` is True if the group may have read on after
    its position was recorded.
    """
    positions, moved = rows.numbers("a"), rows.numbers("c") == 1
    # If the partition is not drained, its cut-off proves nothing about the target, as in the translation.
    settled = answers_without_reading(case, np.unique(positions)) if case.bounds.drained else {}
    bounds = (
        rereads_before_translation(case, first_available(case, positions), moved).tolist()
        if target_known(case) and not case.bounds.recreated
        else [None] * len(rows)
    )
    answers = [
        None if gone_on else settled.get(position) for position, gone_on in zip(positions.tolist(), moved.tolist())
    ]
    known_bounds = [bound if answer is None else answer.bound for bound, answer in zip(bounds, answers)]
    return {"groups": rows.column("name").to_pylist(), "bounds": known_bounds, "moved": moved.tolist()}


def written_since(floors: Floors, offset: int) -> int | None:
    """Return the time after which records from a source offset on were written, in milliseconds since 1970.

    This is the start of the newest sample whose source end is at or below the offset; None without such a sample.
    """
    index = floors.index_below(offset)
    return None if index < 0 else int(floors.sampled_at[index])


def source_growth(floors: Floors) -> float | None:
    """Return the source's growth in records per second over the last minute of samples.

    None if there are fewer than two samples, or no time lies between them.
    """
    if len(floors) < 2:
        return None
    first = min(
        int(np.searchsorted(floors.sampled_at, floors.sampled_at[-1] - RATE_MILLISECONDS, side="right")),
        len(floors) - 2,
    )
    milliseconds = int(floors.sampled_at[-1] - floors.sampled_at[first])
    return (
        round(int(floors.source_end[-1] - floors.source_end[first]) * 1000 / milliseconds, 3) if milliseconds else None
    )
