"""Jobs whose executors write to the store: on machines of their own, and with a store that fails."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.file_modes import PRIVATE, modes_in
from tests.spark.jobs import test_assess_data_loss as assess
from tests.spark.jobs import test_find_stranded_records as find
from tests.spark.mock_clusters import MockCluster
from tests.support.spark_jobs import JOBS, _environment, logins_file
from tests.support.stores.apart_executors import can_mount, python_without
from tests.support.stores.disturbing_proxy import Disturbance
from tests.support.stores.object_store import BUCKET, SECRET, disturbed, object_store
from tests.support.stores.spark_workers import spark_workers

clusters, lost = find.clusters, assess.clusters


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options of a running S3 server."""
    with object_store() as options:
        yield options


def submit(
    job: str,
    given: Path,
    output: Path,
    sides: tuple[MockCluster, ...],
    options: dict[str, Any],
    master: str,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run a job through spark-submit, with the options of the store among its logins."""
    environment = {**os.environ, **_environment(), **more}
    settings = ["--conf", "spark.executor.memory=600m", "--conf", "spark.ui.enabled=false"]
    line = [
        "spark-submit",
        "--master",
        master,
        *settings,
        str(JOBS / f"{job}.py"),
        "--input",
        str(given),
        "--output",
        str(output),
        "--logins",
        logins_file(*sides, store=options),
    ]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=500, check=False)


def stored(uri: str, options: dict[str, Any]) -> dict[str, bytes]:
    """What the store holds below a URI, by name relative to it."""
    files, root = fsspec.core.url_to_fs(uri, **options)
    return {path.removeprefix(f"{root}/"): files.cat_file(path) for path in files.find(root)}


@pytest.mark.spark
def test_executors_of_two_machines_write_to_a_store_that_is_far_away(
    tmp_path: Path, clusters: tuple[MockCluster, MockCluster], s3: dict[str, Any]
) -> None:
    """They see nothing of the driver's folder; 200 ms an answer, one in twenty fails; every file has its digest."""
    assert can_mount(), "this machine lets no user mount in a namespace of their own"
    evidence, uri = tmp_path / "evidence", f"s3://{BUCKET}/failback-r1/find_stranded_records-3"
    evidence.mkdir(mode=0o700)
    given, output = find.given(evidence / "in", export_to=uri), evidence / "out"
    disturbance = Disturbance(failing=0.05, seconds=0.2)
    with disturbed(s3, disturbance) as options:
        apart = python_without(evidence, tmp_path)
        with spark_workers(tmp_path, 2) as master:
            done = submit("find_stranded_records", given, output, clusters, options, master, **apart)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    assert SECRET not in done.stdout + done.stderr
    rows = pq.read_table(output / "stranded_summary.parquet").to_pylist()
    files = stored(uri, s3)
    assert {name: sha256(content).hexdigest() for name, content in files.items()} == {
        f"stranded/{row['file']}": row["sha256"] for row in rows
    }
    for row in rows:
        table = pq.read_table(pa.BufferReader(files[f"stranded/{row['file']}"]))
        values = [b"%d-%03d" % (row["partition"], number) for number in range(60, 100)]
        assert table["value"].to_pylist() == values and len(values) == row["records"]
    assert {path.name for path in output.iterdir()} == {"stranded_summary.parquet", "summary.json"}
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    assert summary["export"] == {"at": uri, "values": "keep", "keys": "keep"}
    assert not list(tmp_path.glob("local-*/**/*.parquet")), "files stayed on the executors' own disks"
    assert modes_in(evidence / "out") == PRIVATE and SECRET not in (output / "summary.json").read_text()


@pytest.mark.spark
def test_a_search_without_its_store_fails_and_an_assessment_goes_on_and_says_so(
    tmp_path: Path,
    clusters: tuple[MockCluster, MockCluster],
    lost: tuple[MockCluster, MockCluster],
    s3: dict[str, Any],
) -> None:
    """Before clients are touched a new try costs nothing; in an outage nobody waits; the source keeps all."""
    uri = f"s3://{BUCKET}/away"
    with disturbed(s3, Disturbance(failing=1.0)) as options:
        found = submit(
            "find_stranded_records",
            find.given(tmp_path / "in", export_to=uri),
            tmp_path / "out",
            clusters,
            options,
            "local[1]",
        )
        assessed = submit(
            "assess_data_loss",
            assess.given(tmp_path / "in2", export_to=uri),
            tmp_path / "out2",
            lost,
            options,
            "local[1]",
        )
    assert found.returncode != 0 and not (tmp_path / "out").exists()
    assert f"ERROR writing {uri}/stranded/orders-" in found.stdout + found.stderr
    assert assessed.returncode == 0, (assessed.stdout + assessed.stderr)[-2000:]
    assert SECRET not in found.stdout + found.stderr + assessed.stdout + assessed.stderr
    loss = pq.read_table(tmp_path / "out2" / "loss.parquet").to_pylist()
    assert [(row["records"], row["certain_to"], row["file"], row["sha256"]) for row in loss] == [
        (40, 100, None, None)
    ] * 3
    assert json.loads((tmp_path / "out2" / "summary.json").read_text())["not_exported"] == 3
    assert stored(uri, s3) == {}
