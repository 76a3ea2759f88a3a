"""The job as its callers start it: arguments in, files out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract.schemas import arrow_schema, check_columns, check_fields, check_values

from tests.file_modes import PRIVATE, modes_in, umask
from tests.spark.mock_clusters import MockCluster, bounds_row, write_input
from tests.support.spark_jobs import run_here, run_plain, submit

JOB = "assess_data_loss"


@pytest.fixture
def clusters() -> tuple[MockCluster, MockCluster]:
    """A source whose last forty records the target never got, on each of three partitions."""
    source, target = MockCluster(), MockCluster()
    for partition in range(3):
        values = [b"%d-%d" % (partition, number) for number in range(100)]
        source.write("orders", partition, values)
        target.write("orders", partition, values[:60])
    return source, target


def given(folder: Path, **job: object) -> Path:
    """The job's input."""
    bounds = [bounds_row("orders", partition, 100, 60, drained=False) for partition in range(3)]
    write_input(folder, [("billing", "orders", 0, 75)], [("orders", p, 50, 50, p) for p in range(3)], bounds, **job)
    seen = [
        {"topic": "orders", "partition": p, "source_end": 100, "replicated": 40, "sampled_at": 1_000, "stable_end": 100}
        for p in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(seen, schema=arrow_schema("last_seen")), folder / "last_seen.parquet")
    return folder


@pytest.mark.spark
def test_round_trip(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """Loss, groups ahead, records and figures; a second run does nothing."""
    folder, output = given(tmp_path / "in", source_final=True), tmp_path / "out"
    with umask(0):
        done = submit(JOB, folder, output, *clusters)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert modes_in(output) == PRIVATE
    loss, summary = (
        pq.read_table(output / "loss.parquet"),
        check_fields("loss_summary", json.loads((output / "summary.json").read_text())),
    )
    check_columns("loss", loss.schema)
    check_values("loss", loss)
    assert [
        (row["partition"], row["from_offset"], row["certain_to"], row["records"], row["exact"])
        for row in loss.to_pylist()
    ] == [(p, 60, 100, 40, True) for p in range(3)]
    assert (summary["certain"], summary["possible"], summary["records"], summary["groups_ahead"]) == (120, 120, 120, 1)
    assert pq.read_table(output / "ahead.parquet").to_pylist() == [
        {"group": "billing", "topic": "orders", "partition": 0, "position": 75, "beyond": 15}
    ]
    assert sorted(path.name for path in (output / "stranded").iterdir()) == sorted(loss["file"].to_pylist())
    assert not (output / "translate_offsets").exists()
    written = (output / "summary.json").read_bytes()
    again = run_plain(JOB, folder, output, *clusters)
    assert again.returncode == 0 and "exists already" in again.stderr
    assert (output / "summary.json").read_bytes() == written


@pytest.mark.spark
@pytest.mark.parametrize("whole", [True, False])
def test_positions_are_translated_by_the_same_start_of_spark(
    whole: bool, tmp_path: Path, clusters: tuple[MockCluster, MockCluster]
) -> None:
    """A translation that cannot be made takes nothing from the assessment."""
    folder, output = given(tmp_path / "in"), tmp_path / "out"
    bounds = [bounds_row("orders", partition, 60, 60) for partition in range(3)]
    write_input(
        folder / "translate_offsets",
        [("billing", "orders", 0, 57)],
        [("orders", 0, 50, 50, 0)] if whole else [],
        bounds,
    )
    if not whole:
        (folder / "translate_offsets" / "syncs.parquet").unlink()
    done = run_here(JOB, folder, output, *clusters)
    assert done.returncode == 0 and len(pq.read_table(output / "loss.parquet")) == 3, (done.stdout + done.stderr)[
        -2000:
    ]
    assert ("the positions were not translated: syncs.parquet: missing" in done.stdout + done.stderr) is not whole, (
        done.stdout[-500:]
    )
    assert (output / "translate_offsets").exists() is whole
    if whole:
        assert pq.read_table(output / "translate_offsets" / "translation.parquet")["target_position"].to_pylist() == [
            57
        ]
        check_fields("summary", json.loads((output / "translate_offsets" / "summary.json").read_text()))


def test_without_what_was_seen_last_it_says_so(tmp_path: Path, clusters: tuple[MockCluster, MockCluster]) -> None:
    """One line, and nothing is left behind."""
    folder = given(tmp_path / "in")
    (folder / "last_seen.parquet").unlink()
    done = run_plain(JOB, folder, tmp_path / "out", *clusters)
    assert done.returncode == 2 and "ERROR last_seen.parquet: missing in" in done.stderr
    assert not (tmp_path / "out").exists()
