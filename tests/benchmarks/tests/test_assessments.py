"""What the benchmarks of the loss assessment give the job, and how they run it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.task_rows import FLOOR, SEEN, STRETCH, SYNC
from kafka_dr_spark.export.place import ExportPlace
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.loss.inventory import summarise_inventory, write_inventory
from kafka_dr_spark.loss.task import AssessmentTask
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.translation.case import SOURCE, TARGET, Limits

from lab.install.jars import PROJECT
from tests.benchmarks import metadata, read_both, stranded
from tests.benchmarks.passes.contestants import ColdRun
from tests.spark.mock_clusters import MockCluster, bounds_row

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_metadata_tell_of_every_partition_and_nothing_is_read(tmp_path: Path) -> None:
    """The job's own code on the benchmark's input, without Spark: where nobody listens, a read would fail."""
    given = metadata.write_job(tmp_path / "in", 300, 5)
    limits, bounds = sources.load_limits(given, None, None), sources.load_bounds(given, False)
    rows = sources.tagged_rows(given, needed=(SYNC, SEEN), optional=(FLOOR, STRETCH))
    packed = sources.packed_for_tasks(rows, sources.spread_partitions(dict.fromkeys(bounds, 1), 2), 2)
    made = [
        AssessmentTask(bounds, limits, KafkaAccess(None, NOBODY), ExportPlace(str(tmp_path)))(one) for one in packed
    ]
    inventory = write_inventory(made, given, tmp_path)
    summary = summarise_inventory(inventory, len(bounds), "")
    assert set(inventory.loss["from_offset"].to_pylist()) == {5 * metadata.GROWTH}
    assert summary["records_per_second"] == 300 * metadata.GROWTH / 10
    assert summary["groups_ahead"] > 0
    found = metadata.since_spark_is_up(
        ColdRun(9.0, summary | {"seconds": {"start": 5.0, "plan": 0.5, "assess": 2.0}}, 0, 0), 300
    )
    assert found == 2.5


@pytest.mark.parametrize("other", [{"partitions": 299}, {"losing": 299}, {"records_read": {"source": 0, "target": 1}}])
def test_an_assessment_of_something_else_is_not_counted(other: dict) -> None:
    """Fewer partitions, or records that were read after all."""
    summary = {
        "partitions": 300,
        "losing": 300,
        "records_read": {"source": 0, "target": 0},
        "seconds": {"start": 1.0},
    } | other
    with pytest.raises(RuntimeError, match="not an assessment of 300 partitions"):
        metadata.since_spark_is_up(ColdRun(9.0, summary, 0, 0), 300)


def test_stranded_records_are_of_one_size_and_all_different() -> None:
    """In turn on all partitions."""
    made = list(islice(stranded.records(100, 10**6), 3 * stranded.PARTITIONS))
    assert {len(key) + len(value) for _, _, key, value in made} == {stranded.RECORD_BYTES}
    assert len({(key, value) for _, _, key, value in made}) == len(made)
    assert [partition for _, partition, *_ in made] == [*range(stranded.PARTITIONS)] * 3


@pytest.mark.parametrize(("count", "size"), [(9, 4_500), (10, 4_999), (11, 5_500)])
def test_a_pass_that_read_something_else_is_not_counted(count: int, size: int) -> None:
    """Ten records were stranded."""
    stranded.all_of_it("nobody", 10, 5_000, 10)
    with pytest.raises(RuntimeError, match="nobody read"):
        stranded.all_of_it("nobody", count, size, 10)


@pytest.mark.parametrize(
    "job", ["translate_offsets", "assess_data_loss", "find_stranded_records", "tests.benchmarks.read_both"]
)
def test_a_warm_pass_begins_the_job(job: str, tmp_path: Path) -> None:
    """As far as its input, which is not there."""
    (logins := tmp_path / "logins.json").write_text(json.dumps({"source": None}))
    line = [sys.executable, "-m", "tests.benchmarks.passes.job_passes", job, str(tmp_path), str(logins)]
    done = subprocess.run(
        line, input=f"{tmp_path}\n", capture_output=True, text=True, cwd=PROJECT, timeout=120, check=False
    )
    assert done.returncode == 1 and f"job.json: missing in {tmp_path}" in done.stderr, done.stderr[-1000:]


def test_both_sides_are_read_whole() -> None:
    """By as many records as there are, of every partition."""
    source, target = MockCluster(), MockCluster()
    for partition, (ours, theirs) in enumerate([(30, 20), (7, 0)]):
        source.write("orders", partition, [b"id-%d" % number for number in range(ours)])
        target.write("orders", partition, [b"id-%d" % number for number in range(theirs)])
    bounds = {("orders", p): LogBounds(**bounds_row("orders", p, *ends)) for p, ends in enumerate([(30, 20), (7, 0)])}
    read = read_both.Reading(bounds, Limits(deadline_seconds=20), KafkaAccess(source.config, target.config))
    assert read(list(bounds)) == {SOURCE: 37, TARGET: 20}
    assert [read_both.weight_of(one) for one in bounds.values()] == [50, 7]
