"""Jobs on a Spark cluster of two workers: only the Spark connection differs, and what they find is the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from kafka_dr.actions import spark_jobs

from lab.environment.spark_cluster import master_url
from lab.environment.state import Lab
from lab.rehearsal.planned import rehearsal_under_load
from tests.benchmarks import anti_join
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.passes.contestants import JOBS, Job
from tests.file_modes import PRIVATE, modes_in
from tests.support.rehearsals import SEED, concluded_without_findings

FIND = "find_stranded_records"


def test_translated_on_a_master_with_two_workers(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Executors of both workers ran the tasks without a secret in their output, and the check finds nothing."""
    state = fresh_lab("identity", spark_workers=2)
    with rehearsal_under_load(state, tmp_path, SEED, rate=2_000) as rehearsal:
        concluded_without_findings(rehearsal)
    lab = Lab(state)
    outputs = {path: path.read_text() for path in (lab.home / "spark").glob("*/app-*/*/std*")}
    assert {path.relative_to(lab.home / "spark").parts[0] for path in outputs} == {"spark-worker-0", "spark-worker-1"}
    assert any("Finished task" in text for text in outputs.values())
    assert not any(password in text for text in outputs.values() for password in lab.load().passwords.values())


def test_stranded_records_are_found_alike_on_two_workers_and_in_the_driver(
    fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """The same rows, the same digest and the same records in every file."""
    site = Clusters(fresh_lab("identity", airflow=False, spark_workers=2))
    anti_join.fill(site, 20_000)
    given, lab = anti_join.write_job(site), site.lab
    here, there = (
        found_on(site, given, tmp_path / name, master)
        for name, master in (("driver", "local[2]"), ("cluster", master_url(lab)))
    )
    assert here == there
    stranded = anti_join.STRANDED * anti_join.PARTITIONS
    assert (here["records"], here["inexact"], len(here["stranded"])) == (stranded, 0, anti_join.PARTITIONS)
    assert sum(map(len, here["stranded"].values())) == stranded
    outputs = {path: path.read_text() for path in (lab.home / "spark").glob("*/app-*/*/std*")}
    assert {path.relative_to(lab.home / "spark").parts[0] for path in outputs} == {"spark-worker-0", "spark-worker-1"}
    assert any("Finished task" in text for text in outputs.values())
    assert modes_in(tmp_path / "cluster") == PRIVATE


def found_on(site: Clusters, given: Path, output: Path, master: str) -> dict[str, Any]:
    """What the job finds on one master: its figures, but for the seconds, and the offsets and values in its files."""
    in_driver = master.startswith("local")
    settings = {"spark.ui.enabled": "false"} | ({} if in_driver else spark_jobs._PROTECTED)
    secret = {} if in_driver else {"spark.authenticate.secret": site.lab.load().passwords["spark"]}
    job = Job(site, given, FIND)
    line = [
        "spark-submit",
        "--master",
        master,
        *(f"--conf={name}={value}" for name, value in settings.items()),
        str(JOBS / f"{FIND}.py"),
        "--input",
        str(given),
        "--output",
        str(output),
        "--logins",
        job.logins(spark=secret),
    ]
    done = subprocess.run(line, env=job.environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    files = {
        # A file's name ends with the attempt that wrote it.
        path.name.rpartition("-")[0]: pq.read_table(path, columns=["offset", "value"]).to_pylist()
        for path in (output / "stranded").iterdir()
    }
    return {name: value for name, value in summary.items() if name != "seconds"} | {"stranded": files}
