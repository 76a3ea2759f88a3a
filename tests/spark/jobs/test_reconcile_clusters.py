"""The job as its callers start it: arguments in, files out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract.digests import rows_digest
from kafka_dr_spark.contract.schemas import arrow_schema, check_columns, check_fields, check_values

from tests.file_modes import PRIVATE, modes_in, umask
from tests.spark.mock_clusters import MockCluster, bounds_row, write_input
from tests.support.spark_jobs import run_here, run_plain, submit

JOB = "reconcile_clusters"
VALUES = [b"%03d" % number for number in range(100)]


@pytest.fixture
def clusters() -> tuple[MockCluster, MockCluster]:
    """Of partition 0 the target lacks two records, of 1 it has one changed, one foreign, and ten twice; 2 is equal."""
    source, target = MockCluster(), MockCluster()
    for partition in range(3):
        source.write("orders", partition, VALUES)
    target.write("orders", 0, VALUES[:20] + VALUES[22:])
    target.write("orders", 1, [*VALUES[:30], b"changed", *VALUES[31:60], b"foreign", *VALUES[50:]])
    target.write("orders", 2, VALUES)
    return source, target


def judged_row(topic: str, partition: int, **changes: Any) -> dict[str, Any]:
    """Return a row in which everything is judged and replicated unless changed."""
    known = {"judged_from": 0, "judged_to": 100, "replicated": 100, "source_low": 0, "source_high": 100}
    return {"topic": topic, "partition": partition, **known, "target_low": 0, "target_high": 0, **changes}


def given(folder: Path, ends: tuple[int, ...] = (98, 111, 100), **job: object) -> Path:
    """The job's input."""
    bounds = [bounds_row("orders", partition, 100, end) for partition, end in enumerate(ends)]
    write_input(folder, [], [], bounds, **job)
    rows = [judged_row("orders", partition, target_high=end) for partition, end in enumerate(ends)]
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema("judged")), folder / "judged.parquet")
    return folder


@pytest.mark.spark
def test_round_trip(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """Rows, figures and lists; a second run does nothing."""
    folder, output = given(tmp_path / "in"), tmp_path / "out"
    with umask(0):
        done = submit(JOB, folder, output, *clusters)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert modes_in(output) == PRIVATE
    rows, summary = (
        pq.read_table(output / "reconciled.parquet"),
        check_fields("reconciled_figures", json.loads((output / "summary.json").read_text())),
    )
    check_columns("reconciled", rows.schema)
    check_values("reconciled", rows)
    kinds = ("missing", "extra", "altered", "repeated", "equal")
    assert [tuple(row[kind] for kind in kinds) for row in rows.to_pylist()] == [
        (2, 0, 0, 0, 98),
        (0, 1, 1, 10, 99),
        (0, 0, 0, 0, 100),
    ]
    counted = ("partitions", "differing", *kinds, "source_records", "target_records", "listed")
    assert [summary[name] for name in counted] == [3, 2, 2, 1, 1, 10, 297, 300, 309, 14]
    assert summary["digest"] == rows_digest(rows.drop_columns(["file", "sha256", "samples"]))
    for row in rows.to_pylist():
        path = output / "differences" / str(row["file"])
        assert (row["file"] is None) == (row["partition"] == 2)
        assert row["file"] is None or hashlib.sha256(path.read_bytes()).hexdigest() == row["sha256"]
    written = (output / "summary.json").read_bytes()
    again = run_plain(JOB, folder, output, *clusters)
    assert again.returncode == 0 and "exists already" in again.stderr
    assert (output / "summary.json").read_bytes() == written


def test_the_list_names_each_record(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """With offsets, timestamps, the digest of the key, and what differs; contents stand nowhere."""
    folder, output = given(tmp_path / "in"), tmp_path / "out"
    done = run_here(JOB, folder, output, *clusters)
    assert done.returncode == 0, done.stdout
    listed = pq.read_table(output / "differences" / "orders-1.parquet")
    check_columns("differences", listed.schema)
    check_values("differences", listed)
    names = ("kind", "source_offset", "target_offset", "source_timestamp", "target_timestamp", "differs")
    rows = [tuple(row[name] for name in names) for row in listed.to_pylist()]
    assert rows[:2] == [
        ("extra", None, 60, None, 1007, None),
        ("altered", 30, 30, 1003, 1007, "value, timestamp"),
    ]
    assert rows[2:] == [("repeated", None, offset, None, 1003, None) for offset in range(61, 71)]
    assert set(listed["key_sha256"].to_pylist()) == {hashlib.sha256(b"k").hexdigest()}
    row = pq.read_table(output / "reconciled.parquet").to_pylist()[1]
    assert [sample["kind"] for sample in json.loads(row["samples"])] == ["extra", "altered", *["repeated"] * 3]


def test_a_partition_that_the_target_lacks(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """All that Connect states to be replicated is missing."""
    folder, output = tmp_path / "in", tmp_path / "out"
    bounds = [bounds_row("orders", 2, 100, 0) | {"target_start": None, "boundary": None}]
    write_input(folder, [], [], bounds)
    rows = [judged_row("orders", 2, replicated=60, target_low=None, target_high=None)]
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema("judged")), folder / "judged.parquet")
    done = run_here(JOB, folder, output, *clusters)
    assert done.returncode == 0, done.stdout
    row = pq.read_table(output / "reconciled.parquet").to_pylist()[0]
    assert (row["judged_by"], row["missing"], row["behind"], row["listed"]) == ("absent", 60, 40, 60)


def test_every_partition_must_be_judged(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """One line, and nothing is left behind."""
    folder = given(tmp_path / "in")
    pq.write_table(pq.read_table(folder / "judged.parquet").slice(0, 2), folder / "judged.parquet")
    done = run_plain(JOB, folder, tmp_path / "out", *clusters)
    assert done.returncode == 2
    assert "ERROR judged: 2 rows for 3 partitions of bounds; each of these partitions must have" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
