"""One Spark task of the comparison of both clusters, and the summary of all tasks' rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_dr_spark.contract.digests import rows_digest
from kafka_dr_spark.contract.private_files import private_file
from kafka_dr_spark.contract.schemas import arrow_schema, column_names
from kafka_dr_spark.contract.task_rows import Key, pack_table, unpack_table
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.present_logs import PresentReader
from kafka_dr_spark.reading.record_files import name_of, sha256_of
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.reconciliation.details import Detail, Place, parts_that_differ, read_details
from kafka_dr_spark.reconciliation.differences import Differences
from kafka_dr_spark.reconciliation.log_comparison import CHUNK, windows_of
from kafka_dr_spark.reconciliation.partition import Attempt, Compared
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.translation.case import SOURCE, TARGET, Limits
from kafka_dr_spark.translation.task import drive_searches, task_portions

#: Folder with one list of differences per partition that has any.
DIFFERENCES = "differences"
#: Most records of both clusters that a task compares at once: a record takes some 100 bytes while being compared.
COMPARED_AT_ONCE = 4_000_000
#: Most differences of a partition in its list, and most of them that are read again for their details.
MOST_LISTED, MOST_DETAILED = 1_000_000, 1_000
#: Most samples of one kind and partition in the summary.
_SAMPLES = 3
_KINDS = ("missing", "extra", "altered", "repeated")
_COUNTS = "source_records target_records equal missing extra altered repeated moved behind older cut superseded".split()
_RECONCILED = "reconciled"
_PLACES = ("file", "sha256", "samples")
_SCHEMA = arrow_schema(DIFFERENCES)


def weight_of(bounds: LogBounds) -> int:
    """Return how many records of both clusters are read at most for a partition."""
    return sum(max(window.end - window.start, 0) for window in windows_of(bounds))


def size_of(bounds: LogBounds) -> int:
    """Return how many records of a partition are in memory at once, at most: of a large one some chunks."""
    return min(weight_of(bounds), 4 * CHUNK)


class ReconcileTask:
    """Compares one Spark task's partitions. Instances, with client settings, go to workers."""

    def __init__(
        self,
        bounds: dict[Key, LogBounds],
        judged: dict[Key, Judged],
        limits: Limits,
        access: KafkaAccess,
        folder: str,
        shows_keys: bool = True,
    ) -> None:
        """Store what the task needs.

        Args:
            bounds: ranges of both logs, by partition.
            judged: which records are judged, by partition.
            limits: read limits.
            access: client settings of both clusters.
            folder: folder with the subfolder differences, to which the lists are written; all workers and the driver
                must have access to this folder.
            shows_keys: whether the lists have the SHA-256 of each key, by which a short key is found.
        """
        self._bounds, self._judged, self._limits, self._access = bounds, judged, limits, access
        self._folder, self._shows_keys = Path(folder), shows_keys

    def __call__(self, keys: list[Key]) -> bytes:
        """Return the packed rows (schema reconciled) of the given partitions, whose lists are then written."""
        rows: list[dict[str, Any]] = []
        waiting = {key: Attempt(self._bounds[key], self._judged[key]) for key in keys}
        with PresentReader(self._access, self._limits) as reader:
            while waiting:
                again: dict[Key, Attempt] = {}
                # Wider ranges are a portion of their own: those of all partitions together may not fit into memory.
                weights = {key: size_of(attempt.bounds) for key, attempt in waiting.items()}
                for portion in task_portions(weights, COMPARED_AT_ONCE):
                    results = compare_together({key: waiting[key] for key in portion}, reader)
                    again |= {key: one for key, one in results.items() if isinstance(one, Attempt)}
                    rows += self._finished({key: one for key, one in results.items() if isinstance(one, Compared)})
                waiting = again
        return pack_table(pa.Table.from_pylist(rows, schema=arrow_schema(_RECONCILED)))

    def _finished(self, compared: dict[Key, Compared]) -> Iterator[dict[str, Any]]:
        """Write the lists of the partitions; yield their rows."""
        lists = {key: listed_rows(one.bounds, one.differences) for key, one in compared.items()}
        places = [place for key, rows in lists.items() for place in places_of(compared[key].bounds, rows)]
        details = read_details(self._access, self._limits, places) if places else {}
        for key, one in compared.items():
            listed = with_details(one.bounds, lists[key], details, self._shows_keys)
            yield row_of(one, listed) | self._written(key, listed)

    def _written(self, key: Key, listed: pa.Table) -> dict[str, Any]:
        if not len(listed):
            return {"file": None, "sha256": None}
        path = self._folder / DIFFERENCES / name_of(*key)
        pq.write_table(listed, private_file(path), compression="zstd")
        return {"file": path.name, "sha256": sha256_of(path)}


def compare_together(attempts: dict[Key, Attempt], reader: PresentReader) -> dict[Key, Compared | Attempt]:
    """Return the comparisons of partitions that are read together, or what to read of a partition instead."""
    results = drive_searches([attempt.compare() for attempt in attempts.values()], reader.read)
    now = {key: attempt.after(reader.risen) for key, attempt in attempts.items()}
    return {
        key: result if now[key] == attempts[key] else now[key] for key, result in zip(attempts, results, strict=True)
    }


def listed_rows(bounds: LogBounds, found: Differences) -> pa.Table:
    """Return at most MOST_LISTED differences of a partition, kind by kind, without details."""
    parts = []
    for kind, ours, theirs in (
        ("missing", found.missing, None),
        ("extra", None, found.extra),
        ("altered", *found.altered),
        ("repeated", None, found.repeated),
    ):
        count = len(ours if ours is not None else theirs if theirs is not None else ())
        columns = {
            "topic": pa.repeat(bounds.topic, count),
            "partition": pa.repeat(pa.scalar(bounds.partition, pa.int32()), count),
            "kind": pa.repeat(kind, count),
            "source_offset": pa.nulls(count, pa.int64()) if ours is None else pa.array(ours),
            "target_offset": pa.nulls(count, pa.int64()) if theirs is None else pa.array(theirs),
        }
        more = {f.name: pa.nulls(count, f.type) for f in _SCHEMA if f.name not in columns}
        parts.append(pa.table({**columns, **more}, schema=_SCHEMA))
    return pa.concat_tables(parts).slice(0, MOST_LISTED)


def _detailed(listed: pa.Table) -> Iterator[int]:
    """Yield the rows of a list that get details: the first of each kind."""
    kinds = np.array(listed["kind"].to_pylist(), object)
    for kind in _KINDS:
        yield from np.flatnonzero(kinds == kind)[: MOST_DETAILED // len(_KINDS)].tolist()


def places_of(bounds: LogBounds, listed: pa.Table) -> Iterator[Place]:
    """Yield the places of the records of a list that get details."""
    for row in listed.take(pa.array(list(_detailed(listed)), pa.int64())).to_pylist():
        if row["source_offset"] is not None:
            yield SOURCE, bounds.topic, bounds.partition, row["source_offset"]
        if row["target_offset"] is not None:
            yield TARGET, bounds.target_topic, bounds.partition, row["target_offset"]


def with_details(
    bounds: LogBounds, listed: pa.Table, details: dict[Place, Detail], shows_keys: bool = True
) -> pa.Table:
    """Return a list with the details of the records that were read again, with their keys' SHA-256 on request."""
    ours = [details.get((SOURCE, *_place(bounds.topic, bounds, at))) for at in listed["source_offset"].to_pylist()]
    theirs = [
        details.get((TARGET, *_place(bounds.target_topic, bounds, at))) for at in listed["target_offset"].to_pylist()
    ]
    columns = {
        "source_timestamp": [one and one.timestamp for one in ours],
        "target_timestamp": [one and one.timestamp for one in theirs],
        "key_sha256": [
            (one.key if one else other and other.key) if shows_keys else None for one, other in zip(ours, theirs)
        ],
        "differs": [parts_that_differ(one, other) if one and other else None for one, other in zip(ours, theirs)],
    }
    for name, values in columns.items():
        listed = listed.set_column(
            _SCHEMA.get_field_index(name), _SCHEMA.field(name), pa.array(values, _SCHEMA.field(name).type)
        )
    return listed


def _place(topic: str, bounds: LogBounds, offset: int | None) -> tuple[str, int, int]:
    return topic, bounds.partition, -1 if offset is None else offset


def row_of(compared: Compared, listed: pa.Table) -> dict[str, Any]:
    """Return a partition's row of the schema reconciled, without the name of its list."""
    bounds, found = compared.bounds, compared.differences
    samples = [
        {name: value for name, value in row.items() if name not in ("topic", "partition")}
        for kind in _KINDS
        for row in listed.filter(pc.equal(listed["kind"], kind)).slice(0, _SAMPLES).to_pylist()
    ]
    return {
        "topic": bounds.topic,
        "partition": bounds.partition,
        "target_topic": bounds.target_topic,
        "judged_by": compared.judged_by,
        "source_from": bounds.source_start,
        "source_to": bounds.cut_off,
        "target_from": bounds.target_start,
        "target_to": bounds.boundary,
        "proven_to": found.proven_to,
        "source_records": compared.read[SOURCE],
        "target_records": compared.read[TARGET],
        "missing": len(found.missing),
        "extra": len(found.extra),
        "altered": len(found.altered.ours),
        "repeated": len(found.repeated),
        **{name: getattr(found, name) for name in ("equal", "moved", "behind", "older", "cut", "superseded")},
        "listed": len(listed),
        "samples": json.dumps(samples),
    }


def write_reconciled(made: Iterable[bytes], folder: Path) -> pa.Table:
    """Write reconciled.parquet from the packed rows of all tasks; return the rows sorted by partition."""
    rows = pa.concat_tables([unpack_table(packed) for packed in made]).sort_by(
        [("topic", "ascending"), ("partition", "ascending")]
    )
    pq.write_table(rows, private_file(folder / f"{_RECONCILED}.parquet"))
    return rows


def summarise_reconciled(rows: pa.Table, input_digest: str) -> dict[str, Any]:
    """Return the content of summary.json but for the seconds: digests and counts over all partitions."""
    digested = rows.select([name for name in column_names(_RECONCILED) if name not in _PLACES])
    differing = sum(any(row.values()) for row in rows.select(list(_KINDS)).to_pylist())
    return {
        "digest": rows_digest(digested),
        "input_digest": input_digest,
        "partitions": len(rows),
        "differing": differing,
        **{name: pc.sum(rows[name]).as_py() or 0 for name in (*_COUNTS, "listed")},
    }
