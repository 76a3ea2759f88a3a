"""Start Spark jobs as their callers do or, if a start of Spark shows nothing more, inside this process."""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from unittest.mock import patch

from lab.install.spark_warm_up import spark_environment
from tests.spark.mock_clusters import MockCluster

JOBS = Path(__file__).parents[2] / "spark" / "jobs"
SUBMIT = ["spark-submit", "--master", "local[2]"]
Done = subprocess.CompletedProcess[str]


def submit(job: str, folder: Path, output: Path, *clusters: MockCluster, **settings: str) -> Done:
    """Run a job through spark-submit, which hands the driver's stderr on to its own stdout."""
    return _process(SUBMIT, job, folder, output, *clusters, **settings)


def run_plain(job: str, folder: Path, output: Path, *clusters: MockCluster) -> Done:
    """Run a job as a plain program, for a job that must end before Spark starts."""
    return _process([sys.executable], job, folder, output, *clusters)


def run_here(job: str, folder: Path, output: Path, *clusters: MockCluster, more: tuple[str, ...] = ()) -> Done:
    """Run a job in this process, on the Spark that earlier calls have started."""
    said, path = io.StringIO(), str(JOBS / f"{job}.py")
    line = [path, "--input", str(folder), "--output", str(output), *more]
    found = patch.object(sys, "path", [str(JOBS), *sys.path])
    with patch.dict(os.environ, _environment(*clusters)), patch.object(sys, "argv", line), found, redirect_stderr(said):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            return Done(line, int(end.code or 0), said.getvalue(), "")
    raise AssertionError(f"{job} does not end by its exit code")


def _process(command: list[str], job: str, folder: Path, output: Path, *clusters: MockCluster, **settings: str) -> Done:
    line = [*command, str(JOBS / f"{job}.py"), "--input", str(folder), "--output", str(output)]
    env = {**os.environ, **_environment(*clusters, **settings)}
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=240, check=False)


def _environment(*clusters: MockCluster, **settings: str) -> dict[str, str]:
    source, target = ({**cluster.config, **settings} for cluster in clusters)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    configs = {"KAFKA_DR_SOURCE_CONFIG": json.dumps(source), "KAFKA_DR_TARGET_CONFIG": json.dumps(target)}
    return {"PATH": path, **spark_environment(), **configs}
