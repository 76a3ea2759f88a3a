"""The job as its callers start it: arguments in, files out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.digests import rows_digest
from kafka_dr_spark.contract.schemas import arrow_schema, check_columns, check_fields, check_values

from tests.file_modes import PRIVATE, modes_in, umask
from tests.spark.mock_clusters import MockCluster, bounds_row, returned_row, write_input
from tests.support.spark_jobs import run_plain, submit

JOB = "find_stranded_records"


@pytest.fixture
def clusters() -> tuple[MockCluster, MockCluster]:
    """The target lacks the last forty records of three partitions, and got twenty others twice."""
    source, target = MockCluster(), MockCluster()
    for partition in range(3):
        values = [b"%d-%03d" % (partition, number) for number in range(100)]
        source.write("orders", partition, values)
        target.write("orders", partition, values[:60] + values[30:50])
    return source, target


def given(folder: Path, **job: object) -> Path:
    """The job's input."""
    bounds = [bounds_row("orders", partition, 100, 80, drained=False) for partition in range(3)]
    write_input(folder, [], [("orders", p, 50, 50, p) for p in range(3)], bounds, **job)
    more = {"replicated": 40, "copied_back": False, "decided_to": 0, "deleted_to": None, "written_from": None}
    rows = [returned_row("orders", p, 100, 80, **more) for p in range(3)]
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema("returned")), folder / "returned.parquet")
    kept = [{"topic": "orders", "partition": 1, "offset": offset} for offset in (70, 65)]
    pq.write_table(pa.Table.from_pylist(kept, schema=arrow_schema("kept")), folder / "kept.parquet")
    return folder


def test_what_was_left_comes_from_its_file(tmp_path: Path) -> None:
    """By partition, ascending; a run before which nothing was left has no such file."""
    folder = given(tmp_path / "in")
    bounds = sources.load_bounds(folder, True)
    found = {key: one.kept.tolist() for key, one in sources.load_returned(folder, bounds).items()}
    assert found == {("orders", 0): [], ("orders", 1): [65, 70], ("orders", 2): []}
    (folder / "kept.parquet").unlink()
    assert all(not len(one.kept) for one in sources.load_returned(folder, bounds).values())


@pytest.mark.spark
def test_round_trip(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """Rows, figures and records; a second run does nothing."""
    folder, output = given(tmp_path / "in"), tmp_path / "out"
    with umask(0):
        done = submit(JOB, folder, output, *clusters)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert modes_in(output) == PRIVATE
    rows, summary = (
        pq.read_table(output / "stranded_summary.parquet"),
        check_fields("stranded_figures", json.loads((output / "summary.json").read_text())),
    )
    check_columns("stranded_summary", rows.schema)
    check_values("stranded_summary", rows)
    assert [
        (row["partition"], row["frontier"], row["resumes"], row["records"], row["exact"]) for row in rows.to_pylist()
    ] == [(p, 60, 100, 40, True) for p in range(3)]
    found = (summary["records"], summary["stranding"], summary["lacking"], summary["inexact"], summary["records_read"])
    assert found == (120, 3, 0, 0, {"source": 300, "target": 240})
    assert summary["digest"] == rows_digest(
        rows.drop_columns(["file", "sha256", "uncommitted_sha256", "older_file", "older_sha256"])
    )
    for p, name in enumerate(rows["file"].to_pylist()):
        assert pq.read_table(output / "stranded" / name)["value"].to_pylist() == [
            b"%d-%03d" % (p, number) for number in range(60, 100)
        ]
    written = (output / "summary.json").read_bytes()
    again = run_plain(JOB, folder, output, *clusters)
    assert again.returncode == 0 and "exists already" in again.stderr
    assert (output / "summary.json").read_bytes() == written


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (None, "ERROR returned.parquet: missing in"),
        (2, "ERROR returned: 2 rows for 3 partitions of bounds; each of these partitions must have exactly one row"),
    ],
)
def test_without_what_is_known_of_each_partition_it_says_so(
    rows: int | None, told: str, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """One line, and nothing is left behind."""
    folder = given(tmp_path / "in")
    known = pq.read_table(folder / "returned.parquet")
    (folder / "returned.parquet").unlink()
    if rows is not None:
        pq.write_table(known.slice(0, rows), folder / "returned.parquet")
    done = run_plain(JOB, folder, tmp_path / "out", *clusters)
    assert done.returncode == 2 and told in done.stderr
    assert not (tmp_path / "out").exists()
