"""The job as its callers start it: arguments in, files out."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.digests import input_digest, partition_digest, translation_digest
from kafka_dr_spark.contract.schemas import check_columns, check_fields, check_values, column_names

from tests.file_modes import PRIVATE, modes_in, umask
from tests.spark.mock_clusters import MockCluster, bounds_row, write_input
from tests.support.spark_jobs import run_here, run_plain, submit

JOB = "translate_offsets"


@pytest.fixture(scope="module")
def clusters() -> tuple[MockCluster, MockCluster]:
    """A thousand records of which fifty stand twice on the target, and a partition of equal records."""
    source, target = MockCluster(), MockCluster()
    values = [b"id-%d" % number for number in range(1000)]
    source.write("orders", 0, values)
    target.write("orders", 0, values[:600] + values[550:])
    source.write("orders", 1, [b"same"] * 50)
    target.write("orders", 1, [b"same"] * 50)
    return source, target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's input with groups at several places, one of them impossible."""
    positions = [(f"g\u00e9{p}", "orders", 0, p) for p in (0, 10, 545, 560, 700, 999, 1000, 1001)]
    positions += [("a", "orders", 1, 17), ("a", "orders", 0, 700), ("a", "elsewhere", 3, 5)]
    syncs = [("orders", 0, u, u, u) for u in range(0, 600, 101)] + [
        ("orders", 0, u, u + 50, 1000 + u) for u in range(606, 1000, 101)
    ]
    return write_input(
        tmp_path / "in", positions, syncs, [bounds_row("orders", 0, 1000, 1050), bounds_row("orders", 1, 50, 50)]
    )


@pytest.mark.spark
def test_round_trip(folder: Path, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """Every position gets its exact place, and the files keep the contract."""
    output = tmp_path / "out"
    with umask(0):
        done = submit(JOB, folder, output, *clusters)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert modes_in(output) == PRIVATE
    assert "INFO positions: 11 on 3 partitions; records to read at most: 2066" in done.stdout
    table = pq.read_table(output / "translation.parquet")
    summary = check_fields("summary", json.loads((output / "summary.json").read_text()))
    check_columns("translation", table.schema)
    check_values("translation", table)
    found = {
        (r["group"], r["topic"], r["partition"]): (r["target_position"], r["class"], r["exact"])
        for r in table.to_pylist()
    }
    assert found == {
        ("g\u00e90", "orders", 0): (0, "SYNC", True), ("g\u00e910", "orders", 0): (10, "CONTENT", True),
        ("g\u00e9545", "orders", 0): (545, "CONTENT", True), ("g\u00e9560", "orders", 0): (610, "CONTENT", True),
        ("g\u00e9700", "orders", 0): (750, "CONTENT", True), ("a", "orders", 0): (750, "CONTENT", True),
        ("g\u00e9999", "orders", 0): (1049, "CONTENT", True), ("g\u00e91000", "orders", 0): (1050, "END", True),
        ("g\u00e91001", "orders", 0): (None, "REFUSED", False), ("a", "orders", 1): (17, "CONTENT", True),
        ("a", "elsewhere", 3): (None, "REFUSED", False),
    }  # fmt: skip
    assert (summary["positions"], summary["exact"], summary["refused_count"]) == (11, 9, 2)
    assert summary["repeats"] == {"orders-0": 50}
    assert summary["digest"] == digest_by_hand(table)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def digest_by_hand(table: object) -> str:
    """Compute a translation's digest from the file alone."""
    table = table.select(column_names("translation")).sort_by(
        [("topic", "ascending"), ("partition", "ascending"), ("group", "ascending")]
    )
    keys = sorted({(row["topic"], row["partition"]) for row in table.select(["topic", "partition"]).to_pylist()})
    parts = []
    for topic, partition in keys:
        mask = [
            row == {"topic": topic, "partition": partition} for row in table.select(["topic", "partition"]).to_pylist()
        ]
        parts.append((topic, partition, partition_digest(table.filter(mask))))
    return translation_digest(parts)


@pytest.mark.spark
def test_spark_starts_while_its_input_is_written(
    folder: Path, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """The job waits for a late file and then translates; a file that never comes ends it with a clear line."""
    limits = (folder / "job.json").rename(tmp_path / "later")
    late = threading.Timer(1, lambda: limits.rename(folder / "job.json"))
    late.start()
    done = run_here(JOB, folder, tmp_path / "out", *clusters, more=("--wait-for-input", "120"))
    late.join()
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["positions"] == 11
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "failed").touch()
    refused = run_here(JOB, tmp_path / "nothing", tmp_path / "none", *clusters, more=("--wait-for-input", "120"))
    assert refused.returncode != 0
    assert (
        refused.stdout.strip().splitlines()[-1].endswith("could not be written; the log of the Airflow task states why")
    )
    assert not (tmp_path / "none").exists()


@pytest.mark.spark
def test_a_failure_is_one_clear_line_without_secrets(
    folder: Path, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """A log shorter than its bounds ends the job with the partition's name, without output or secret."""
    shorter = [bounds_row("orders", 0, 1000, 5000), bounds_row("orders", 1, 50, 50)]
    wrong = write_input(tmp_path / "wrong", [("g", "orders", 0, 990)], [], shorter)
    (tmp_path / "events").mkdir()
    done = submit(JOB, wrong, tmp_path / "out", *clusters, **{"client.id": "hunter2"})
    assert done.returncode != 0
    # spark-submit hands a Python driver's stderr on to its own stdout.
    assert done.stdout.strip().splitlines()[-1] == (
        "ERROR target orders-0: offset 4973 lies outside the log; if the log now starts above this offset, a new try of"
        " the Airflow task reads the log start again; if the log ends below this offset, find out whether the log was"
        " truncated or the topic recreated"
    )
    assert "hunter2" not in done.stderr + done.stdout
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]


def test_a_finished_output_is_left_alone(
    folder: Path, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """The same input again changes nothing, another input is refused, and so is a folder that is no translation."""
    output = tmp_path / "out"
    output.mkdir()
    refused = run_plain(JOB, folder, output, *clusters)
    assert refused.returncode == 2
    assert refused.stderr.strip().endswith(
        f"is not the finished output of a job; move {output} away or choose another --output"
    )
    digest = input_digest(folder, vars(sources.load_limits(folder, None, None)))
    (output / "summary.json").write_text(json.dumps({"input_digest": digest}))
    assert run_plain(JOB, folder, output, *clusters).returncode == 0
    (folder / "job.json").write_text('{"isolation": "read_committed", "source_readable": true}')
    other = run_plain(JOB, folder, output, *clusters)
    assert other.returncode == 2
    assert "holds the output of another input" in other.stderr


def test_input_that_breaks_the_contract_ends_before_spark_starts(
    folder: Path, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """A file with the wrong columns is refused by name, with no output begun."""
    shutil.copy(folder / "bounds.parquet", folder / "syncs.parquet")
    done = run_plain(JOB, folder, tmp_path / "out", *clusters)
    assert done.returncode == 2
    assert done.stderr.strip().startswith("ERROR syncs: column upstream is missing")
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_no_position_is_no_error(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """A flow without groups: nothing is read, and the files are there."""
    output = tmp_path / "out"
    given = write_input(tmp_path / "in", [], [], [bounds_row("orders", 1, 50, 50)])
    done = run_here(JOB, given, output, *clusters)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert len(pq.read_table(output / "translation.parquet")) == 0
    assert json.loads((output / "summary.json").read_text())["records_read"] == {"source": 0, "target": 0}
