"""One Spark task of the search for stranded records, and the summary of all tasks' rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_dr_spark.contract.digests import rows_digest
from kafka_dr_spark.contract.private_files import private_file
from kafka_dr_spark.contract.schemas import arrow_schema, column_names
from kafka_dr_spark.contract.task_rows import Key, Kinds, no_rows, pack_table, split_by_partition, unpack_table
from kafka_dr_spark.export.place import OLDER, STRANDED, UNCOMMITTED, AttemptFiles, ExportPlace
from kafka_dr_spark.logs.bounds import SourceBounds
from kafka_dr_spark.loss.inventory import sum_of
from kafka_dr_spark.reading.record_files import Chosen, list_stranded, write_records
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader
from kafka_dr_spark.stranded.search import Returned, StrandedRecords, stranded_of
from kafka_dr_spark.translation.case import SOURCE, TARGET, Case, Limits, ReadWindow
from kafka_dr_spark.translation.task import case_of, drive_searches, task_portions

#: Most records that a task compares at once: a record takes some 150 bytes while being read.
COMPARED_AT_ONCE = 2_000_000
_PLACES = ("file", "sha256", "uncommitted_sha256", "older_file", "older_sha256")
_NOTHING = {"records": 0, "bytes": 0, "aborted": 0, "undecided": 0}
_COUNTS = ("records", "bytes", "aborted", "undecided", "lacking", "older", "older_bytes")
_SUMMARY = "stranded_summary"


class SearchTask:
    """Searches one Spark task's partitions for stranded records. Instances, with client settings, go to workers."""

    def __init__(
        self,
        bounds: dict[Key, SourceBounds],
        returned: dict[Key, Returned],
        limits: Limits,
        access: KafkaAccess,
        place: ExportPlace,
    ) -> None:
        """Store what the task needs.

        Args:
            bounds: log starts and ends, by partition.
            returned: rows of returned.parquet and kept.parquet, by partition.
            limits: read limits.
            access: client settings of both clusters.
            place: where records are written, to the folders stranded, uncommitted and older.
        """
        self._bounds, self._returned, self._limits, self._access = bounds, returned, limits, access
        self._place = place

    def __call__(self, part: tuple[list[Key], bytes]) -> bytes:
        """Return the packed output rows (columns `output_schema`) of the partitions of ``part``.

        ``part`` has the partitions of this task and their packed input rows.
        """
        keys, packed = part
        return pack_table(self.search(keys, split_by_partition(unpack_table(packed))))

    def search(self, keys: list[Key], tables: dict[Key, Kinds]) -> pa.Table:
        """Write the stranded and the older records of the given partitions; return one row per partition."""
        cases = {key: case_of(tables.get(key) or no_rows(), self._bounds[key], self._limits) for key in keys}
        stranded: dict[Key, StrandedRecords] = {}
        with WindowReader(self._access, self._limits) as reader:
            for portion in task_portions(
                {key: weight_of(self._bounds[key], self._returned[key]) for key in keys}, COMPARED_AT_ONCE
            ):
                started = [stranded_of(cases[key], self._returned[key], self._limits.whole) for key in portion]
                stranded |= zip(portion, drive_searches(started, reader.read))
        with self._place.attempt() as files:
            listed, older = self._listed(files, stranded), self._older(files, stranded)
            files.store_all()
        rows = [
            row_of(key, cases[key], stranded[key], listed.get(key, _NOTHING), older.get(key, _NOTHING)) for key in keys
        ]
        return pa.Table.from_pylist(rows, schema=output_schema())

    @property
    def _uncommitted_limits(self) -> Limits:
        """The job's read limits with isolation read_uncommitted, because uncommitted records are listed, too."""
        return replace(self._limits, isolation="read_uncommitted")

    def _listed(self, files: AttemptFiles, stranded: dict[Key, StrandedRecords]) -> dict[Key, dict[str, Any]]:
        """Write the stranded records to files; return by partition its file's figures, if it has stranded records."""
        windows = {
            key: listed_window
            for key, records in stranded.items()
            if (listed_window := stranded_window(key, records, self._bounds[key])) is not None
        }
        chosen = {
            window: Chosen(stranded[key].missing, stranded[key].from_offset)
            for key, window in windows.items()
            if len(stranded[key].missing)
        }
        stable_ends = {window: self._returned[key].stable_end for key, window in windows.items()}
        figures = list_stranded(self._access, self._uncommitted_limits, files, stable_ends, chosen)
        return {
            key: figures[window] for key, window in windows.items() if _keep_if_filled(files, STRANDED, figures[window])
        }

    def _older(self, files: AttemptFiles, stranded: dict[Key, StrandedRecords]) -> dict[Key, dict[str, Any]]:
        """Write records that the target no longer has to files; return by partition its file's figures, if any."""
        windows = {
            key: ReadWindow(SOURCE, *key, int(records.older[0]), int(records.older[-1]) + 1)
            for key, records in stranded.items()
            if len(records.older)
        }
        # If a whole range is listed, nothing is selected, because comparing offsets would cost more than reading.
        chosen = {
            window: Chosen(stranded[key].older, window.end)
            for key, window in windows.items()
            if len(stranded[key].older) < window.end - window.start
        }
        figures = write_records(self._access, self._uncommitted_limits, files, OLDER, list(windows.values()), chosen)
        return {
            key: figures[window] for key, window in windows.items() if _keep_if_filled(files, OLDER, figures[window])
        }


def _keep_if_filled(files: AttemptFiles, kind: str, figures: dict[str, Any]) -> bool:
    """Return whether a written file holds any record; delete the file if not.

    A range of offsets may hold only transaction markers, which are no records.

    Args:
        files: the files of the attempt.
        kind: name of the file's folder, STRANDED or OLDER.
        figures: figures of the file, with its number of records and its name.
    """
    if not figures["records"]:
        (files.folder / kind / figures["file"]).unlink()
    return bool(figures["records"])


def weight_of(bounds: SourceBounds, known: Returned) -> int:
    """Return how many records of both clusters a task reads at most for a partition."""
    start, end = bounds.target_start, bounds.boundary
    target_records = 0 if start is None or end is None else end - start
    later_records = (
        0
        if known.deleted_to is None
        else known.deleted_to - bounds.cut_off + (known.target_end or 0) - (known.written_from or 0)
    )
    return max(bounds.cut_off - bounds.source_start, 0) + max(target_records, 0) + max(later_records, 0)


def stranded_window(key: Key, stranded: StrandedRecords, bounds: SourceBounds) -> ReadWindow | None:
    """Return the source range that holds all stranded records of a partition; None if there are certainly none."""
    last = int(stranded.missing[-1]) + 1 if len(stranded.missing) else 0
    window = ReadWindow(SOURCE, *key, stranded.frontier, last if stranded.rest == 0 else bounds.cut_off)
    return window if window.start < window.end else None


@lru_cache
def output_schema() -> pa.Schema:
    """Return the schema of a task's output: columns of the summary, and the numbers of records read."""
    return pa.schema(
        [*arrow_schema(_SUMMARY), *(pa.field(f"read_{side}", pa.int64(), False) for side in (SOURCE, TARGET))]
    )


def row_of(
    key: Key, case: Case, stranded: StrandedRecords, listed: dict[str, Any], older: dict[str, Any]
) -> dict[str, Any]:
    """Return a partition's row in the columns of `output_schema`, from its search and its written files' figures."""
    row = {
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
        )
    }
    row |= {
        "topic": key[0],
        "partition": key[1],
        "frontier": stranded.frontier,
        "resumes": case.bounds.cut_off,
        "from_offset": stranded.from_offset,
    }
    row |= {
        "lacking": stranded.lacking,
        "exact": stranded.exact or not listed["records"],
        "evidence": stranded.evidence,
    }
    row |= {
        "older": older["records"],
        "older_bytes": older["bytes"],
        "older_file": older.get("file"),
        "older_sha256": older.get("sha256"),
    }
    return row | {f"read_{side}": count for side, count in case.read.items()}


def write_findings(made: Iterable[bytes], folder: Path) -> pa.Table:
    """Write stranded_summary.parquet from the packed rows of all tasks; return the rows sorted by partition."""
    rows = pa.concat_tables([unpack_table(packed) for packed in made]).sort_by(
        [("topic", "ascending"), ("partition", "ascending")]
    )
    pq.write_table(rows.select(column_names(_SUMMARY)), private_file(folder / f"{_SUMMARY}.parquet"))
    return rows


def listed_files(rows: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield folder and name of each file of the export that counts."""
    for row in rows.select(list(_PLACES)).to_pylist():
        for kind, name, digest in (
            (STRANDED, row["file"], row["sha256"]),
            (UNCOMMITTED, row["file"], row["uncommitted_sha256"]),
            (OLDER, row["older_file"], row["older_sha256"]),
        ):
            if digest is not None:
                yield kind, name


def summarise_stranded(rows: pa.Table, input_digest: str) -> dict[str, Any]:
    """Return the content of summary.json: digests, counts, first and last timestamp (ms), and records read."""
    digested = rows.select([name for name in column_names(_SUMMARY) if name not in _PLACES])
    return {
        "digest": rows_digest(digested),
        "input_digest": input_digest,
        "partitions": len(rows),
        "stranding": sum_of(pc.cast(pc.greater(rows["records"], 0), pa.int64())),
        "inexact": sum_of(pc.cast(pc.invert(rows["exact"]), pa.int64())),
        **{name: sum_of(rows[name]) for name in _COUNTS},
        "first_at": pc.min(rows["first_at"]).as_py(),
        "last_at": pc.max(rows["last_at"]).as_py(),
        "records_read": {side: sum_of(rows[f"read_{side}"]) for side in (SOURCE, TARGET)},
    }
