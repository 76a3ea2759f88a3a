"""Read a job's input, compare it with the schemas, and distribute the rows among tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.contract.schemas import ContractBroken, check_columns, check_fields, check_values, column_names
from kafka_dr_spark.contract.task_rows import FLOOR, NO_OFFSET, POSITION, SYNC, SYNC_BACK, TAGGED, TAKEN, Key, Packing
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.stranded.search import NONE_KEPT, Returned
from kafka_dr_spark.translation.by_segment import in_order
from kafka_dr_spark.translation.case import Limits

# Most rows in memory at once: a row takes some 100 bytes.
ROWS_HELD = 2_000_000
PARTITIONS_PER_TASK = 500


@dataclass(frozen=True)
class Extent:
    """A partition's positions to translate: number of positions, lowest and highest position (source offsets)."""

    rows: int
    lowest: int
    highest: int

    def with_more(self, other: Extent) -> Extent:
        """Return the extent that covers the positions of both extents."""
        return Extent(self.rows + other.rows, min(self.lowest, other.lowest), max(self.highest, other.highest))


def load_json(path: Path) -> Any:
    """Return a JSON file's content; raise ContractBroken if the file is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContractBroken(
            f"{path.name}: missing in {path.parent}; a new try of the Airflow task writes all input files again"
        ) from None
    except ValueError as error:
        raise ContractBroken(
            f"{path.name}: not JSON ({type(error).__name__}); a new try of the Airflow task writes all input files"
            " again"
        ) from None


def await_input(folder: Path, seconds: float) -> None:
    """Wait until the input folder has job.json, which is written last.

    Raises:
        ContractBroken: the Airflow task failed to write the input, or job.json is still missing after ``seconds``.
    """
    ends_at = time.monotonic() + seconds
    while not (folder / "job.json").exists():
        if (folder / "failed").exists():
            raise ContractBroken(f"the input in {folder} could not be written; the log of the Airflow task states why")
        if time.monotonic() > ends_at:
            raise ContractBroken(
                f"job.json: still missing in {folder} after {seconds:g} s: the Airflow task has not finished writing"
                " the input; find out from the log of the task which cluster answers slowly"
            )
        time.sleep(0.05)


def load_limits(folder: Path, content_limit: int | None, rows_per_read: int | None) -> Limits:
    """Return the read limits of job.json; ``content_limit`` and ``rows_per_read``, unless None, take precedence."""
    document = check_fields("job", load_json(folder / "job.json"))
    stated = {name: document[name] for name in Limits.__dataclass_fields__ if name in document}
    overrides = {"content_limit": content_limit, "rows_per_read": rows_per_read}
    return Limits(**stated | {name: value for name, value in overrides.items() if value is not None})


def open_dataset(folder: Path, name: str) -> ds.Dataset:
    """Return NAME.parquet of the input folder, a file or a folder of files, without reading its rows.

    Raises:
        ContractBroken: NAME.parquet is missing or is no Parquet file, or lacks a column of the schema.
    """
    path = folder / f"{name}.parquet"
    if not path.exists():
        raise ContractBroken(
            f"{name}.parquet: missing in {folder}; a new try of the Airflow task writes all input files again"
        )
    try:
        dataset = ds.dataset(path, format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise ContractBroken(
            f"{name}.parquet: not readable as Parquet ({type(error).__name__}); a new try of the Airflow task writes"
            " all input files again"
        ) from None
    if not name.startswith("syncs") or dataset.schema.names:
        check_columns(name, dataset.schema)
    return dataset


def load_bounds(folder: Path, source_readable: bool) -> dict[Key, LogBounds]:
    """Return by partition the log starts and log ends on both clusters, from bounds.parquet.

    Raises:
        ContractBroken: a partition has more than one row, or a readable source has no log start or cut-off.
    """
    table = open_dataset(folder, "bounds").to_table(columns=column_names("bounds"))
    check_values("bounds", table)
    if source_readable and (table["source_start"].null_count or table["cut_off"].null_count):
        raise ContractBroken(
            f"bounds: source_start is null in {table['source_start'].null_count} rows, cut_off in"
            f" {table['cut_off'].null_count}; both must be given if the source is readable; a new try of the Airflow"
            " task writes all input files again"
        )
    bounds = {(row["topic"], row["partition"]): LogBounds(**row) for row in table.to_pylist()}
    if len(bounds) != len(table):
        raise ContractBroken(
            f"bounds: {len(table)} rows for {len(bounds)} partitions; each partition must have exactly one row; a new"
            " try of the Airflow task writes all input files again"
        )
    return bounds


def load_segments(folder: Path) -> dict[Key, tuple[Segment, ...]]:
    """Return by partition the segments of its logs, oldest first.

    Partitions without rows in segments.parquet have no entry. {} if the input has no segments.parquet.
    """
    if not (folder / "segments.parquet").exists():
        return {}
    table = open_dataset(folder, "segments").to_table(columns=column_names("segments"))
    check_values("segments", table)
    numbered_segments: dict[Key, dict[int, Segment]] = {}
    for topic, partition, number, *offsets in zip(*(table[name].to_pylist() for name in column_names("segments"))):
        numbered_segments.setdefault((topic, partition), {})[number] = Segment(*offsets)
    if sum(map(len, numbered_segments.values())) != len(table):
        raise ContractBroken(
            "segments: a partition has two segments with the same number; a new try of the Airflow task writes all"
            " input files again"
        )
    return {key: in_order(key, numbered) for key, numbered in numbered_segments.items()}


def load_returned(folder: Path, bounds: dict[Key, LogBounds]) -> dict[Key, Returned]:
    """Return by partition what returned.parquet and kept.parquet state of the partition on the returned cluster.

    Raises:
        ContractBroken: returned.parquet does not have exactly one row for each partition of ``bounds``.
    """
    table = open_dataset(folder, "returned").to_table(columns=column_names("returned"))
    check_values("returned", table)
    kept_offsets = load_kept(folder)
    returned = {
        (row["topic"], row["partition"]): Returned(
            **row, kept=kept_offsets.get((row["topic"], row["partition"]), NONE_KEPT)
        )
        for row in table.to_pylist()
    }
    if len(returned) != len(table) or returned.keys() != bounds.keys():
        raise ContractBroken(
            f"returned: {len(table)} rows for {len(bounds)} partitions of bounds; each of these partitions must have"
            " exactly one row, and no other partition a row"
        )
    return returned


def load_kept(folder: Path) -> dict[Key, Ints]:
    """Return by partition the stranded records that earlier failbacks left on the returned cluster.

    The result has the records' offsets on the returned cluster, in ascending order.

    {} if the input has no kept.parquet.
    """
    if not (folder / "kept.parquet").exists():
        return {}
    table = open_dataset(folder, "kept").to_table(columns=column_names("kept"))
    check_values("kept", table)
    groups = table.to_pandas().groupby(["topic", "partition"])["offset"]
    return {
        (str(topic), int(partition)): np.unique(offsets.to_numpy(np.int64)) for (topic, partition), offsets in groups
    }


def measure_positions(rows: Iterable[pa.Table]) -> dict[Key, Extent]:
    """Return by partition how many positions it has to translate, and the lowest and the highest position.

    ``rows`` are tables in columns `TAGGED`; of these only the rows of kind POSITION are read.
    """
    extents: dict[Key, Extent] = {}
    for table in rows:
        positions = table.filter(pc.equal(table["kind"], POSITION))
        for row in (
            positions.group_by(["topic", "partition"])
            .aggregate([("a", "count"), ("a", "min"), ("a", "max")])
            .to_pylist()
        ):
            key, extent = (row["topic"], row["partition"]), Extent(row["a_count"], row["a_min"], row["a_max"])
            extents[key] = extent if key not in extents else extents[key].with_more(extent)
    return extents


def records_at_most(extent: Extent, bounds: LogBounds | None, limits: Limits) -> int:
    """Return how many records of each cluster a partition's translation reads at most, to match records by content.

    0 if the source is not readable, or the log start or log end of either cluster is missing.
    """
    if bounds is None or not bounds.target_exists or not limits.source_readable:
        return 0
    if bounds.source_start is None or bounds.cut_off is None:
        return 0
    return max(0, min(bounds.cut_off - max(extent.lowest, bounds.source_start), limits.content_limit))


def task_count(partitions: int, cores: int) -> int:
    """Return the number of Spark tasks: one per core, more above 500 partitions per core, at most one per partition."""
    return max(1, min(partitions, max(cores, partitions // PARTITIONS_PER_TASK)))


def spread_partitions(weights: dict[Key, int], tasks: int) -> dict[Key, int]:
    """Return by partition the number of its task, chosen so that all tasks weigh about the same.

    The partitions are assigned from the heaviest to the lightest, each to the task that is the lightest so far.
    """
    # Ties are broken by name, so that the same input always gives the same assignment.
    loads = np.zeros(tasks, np.int64)
    chosen = {}
    for key, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        chosen[key] = int(np.argmin(loads))
        loads[chosen[key]] += weight
    return chosen


class TaggedRows:
    """Iterates over the rows of a job's input files, as tables in columns `TAGGED` of the module `task_rows`.

    Each iteration reads the files again, one portion of rows at a time, so that not all rows are in memory at once.
    """

    def __init__(self, folder: Path, needed: Iterable[int], optional: Iterable[int]) -> None:
        present = [kind for kind in optional if (folder / f"{TAKEN[kind][0]}.parquet").exists()]
        files = {kind: open_dataset(folder, TAKEN[kind][0]) for kind in [*needed, *present]}
        # An empty file of syncs may have no columns.
        self._files = {kind: file for kind, file in files.items() if file.schema.names}
        self.count = sum(file.count_rows() for file in self._files.values())

    def __iter__(self) -> Iterator[pa.Table]:
        for kind, file in self._files.items():
            name, columns = TAKEN[kind]
            for portion in _portions(file, column_names(name)):
                check_values(name, portion)
                yield _tagged(portion, kind, **columns)


def _portions(dataset: ds.Dataset, columns: list[str]) -> Iterator[pa.Table]:
    for batch in dataset.to_batches(
        columns=columns, batch_size=ROWS_HELD // 4, batch_readahead=1, fragment_readahead=1
    ):
        if len(batch):
            yield pa.Table.from_batches([batch])


def tagged_rows(
    folder: Path, needed: Iterable[int] = (POSITION, SYNC), optional: Iterable[int] = (FLOOR, SYNC_BACK)
) -> Iterable[pa.Table]:
    """Return the rows of a job's input files as tables in columns `TAGGED`.

    The result is a list if all rows fit into memory, else an iterable that reads the files at each iteration.

    Args:
        folder: input folder.
        needed: kinds of rows (POSITION, SYNC ...) whose files must exist.
        optional: kinds of rows whose files can be missing: those of the flight recorder if there is no flight
            recorder, and SYNC_BACK if the replication direction never changed.
    """
    rows = TaggedRows(folder, needed, optional)
    return list(rows) if rows.count <= ROWS_HELD else rows


def _tagged(table: pa.Table, kind: int, **taken: str) -> pa.Table:
    """Return an input file's rows in columns `TAGGED`.

    A null number, or a number column that the file does not have, becomes NO_OFFSET; a missing text column is empty.

    Args:
        table: rows of the input file.
        kind: kind of these rows, such as POSITION.
        taken: by column of `TAGGED` the column of the file that fills it.
    """
    blank = {"kind": pa.scalar(kind, pa.int32()), "name": pa.scalar(""), "policy": pa.scalar("")}
    file_columns = {"topic": "topic", "partition": "partition", **taken}
    columns = [
        table[file_columns[f.name]]
        if f.name in file_columns
        else pa.repeat(blank.get(f.name, pa.scalar(NO_OFFSET)), len(table))
        for f in TAGGED
    ]
    filled = [
        pc.fill_null(column.cast(field.type), NO_OFFSET) if field.type == pa.int64() else column.cast(field.type)
        for column, field in zip(columns, TAGGED)
    ]
    return pa.table(filled, schema=TAGGED)


def packed_for_tasks(rows: Iterable[pa.Table], tasks_of: dict[Key, int], tasks: int) -> list[bytes]:
    """Return one packed table per task, with all rows of the task's partitions.

    Rows of partitions without a task are dropped. At no time is more than one portion of rows unpacked in the driver.
    """
    packing = [Packing() for _ in range(tasks)]
    for table in rows:
        task = _tasks_of(table, tasks_of)
        order = np.argsort(task, kind="stable")
        ordered, edges = table.take(pa.array(order)), np.searchsorted(task[order], np.arange(tasks + 1))
        for task_packing, start, end in zip(packing, edges.tolist(), edges[1:].tolist()):
            task_packing.add(ordered.slice(start, end - start))
    return [task_packing.packed() for task_packing in packing]


def _tasks_of(rows: pa.Table, tasks_of: dict[Key, int]) -> Ints:
    """Return per row the number of the Spark task that handles its partition; -1 for a partition without a task."""
    encoded = pc.dictionary_encode(rows["topic"].combine_chunks())
    topics = {topic: code for code, topic in enumerate(encoded.dictionary.to_pylist())}
    numbers, number_of = np.unique(rows["partition"].to_numpy(), return_inverse=True)
    codes = {number: code for code, number in enumerate(numbers.tolist())}
    table = np.full((len(topics), len(codes)), -1, np.int64)
    for (topic, partition), task in tasks_of.items():
        if topic in topics and partition in codes:
            table[topics[topic], codes[partition]] = task
    tasks_of_rows: Ints = table[encoded.indices.to_numpy(), number_of]
    return tasks_of_rows


def total_rows(extents: dict[Key, Extent]) -> int:
    """Return the number of positions to translate on all partitions together."""
    return sum(extent.rows for extent in extents.values())
