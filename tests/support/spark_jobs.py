"""Start Spark jobs as their callers do, inside this process, or by a `spark-submit` that only keeps what it gets."""

from __future__ import annotations

import io
import json
import os
import runpy
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from kafka_dr.config.spark_settings import SparkSettings
from kafka_dr.connections import Connections

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
    line = [path, "--input", str(folder), "--output", str(output), "--logins", logins_file(*clusters), *more]
    found = patch.object(sys, "path", [str(JOBS), *sys.path])
    with patch.dict(os.environ, _environment()), patch.object(sys, "argv", line), found, redirect_stderr(said):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            return Done(line, int(end.code or 0), said.getvalue(), "")
    raise AssertionError(f"{job} does not end by its exit code")


def logins_file(*clusters: MockCluster, store: Mapping[str, Any] | None = None, **settings: str) -> str:
    """Write a private file with the logins of source, target and store, which a job deletes, and return its path."""
    logins: dict[str, Any] = {} if store is None else {"store": dict(store)}
    logins |= {side: {**cluster.config, **settings} for side, cluster in zip(("source", "target"), clusters)}
    descriptor, path = tempfile.mkstemp(prefix="logins-")
    with os.fdopen(descriptor, "w") as file:
        json.dump(logins, file)
    return path


def _process(command: list[str], job: str, folder: Path, output: Path, *clusters: MockCluster, **settings: str) -> Done:
    line = [*command, str(JOBS / f"{job}.py"), "--input", str(folder), "--output", str(output)]
    line += ["--logins", logins_file(*clusters, **settings)]
    env = {**os.environ, **_environment()}
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=240, check=False)


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, **spark_environment()}


#: Keeps its arguments, its environment, and the files of the folder with logins; then does what `behaviour` says.
STAND_IN = """#!{python}
import json, os, pathlib, signal, stat, sys, time

here = pathlib.Path(__file__).parent
words = sys.argv[1:]
folder = pathlib.Path(words[words.index("--logins") + 1]).parent
modes = {{str(path): stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}}
contents = {{path.name: path.read_text() for path in folder.iterdir()}}
got = dict(words=words, environment=dict(os.environ), modes=modes, contents=contents)
behaviour = (here / "behaviour").read_text()
(here / "writing").write_text(json.dumps(got))
(here / "writing").rename(here / "got.json")
print("INFO submitted", flush=True)
if behaviour == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600 if behaviour == "hangs" else 0)
sys.exit(int(behaviour))
"""


def run_of(spark: SparkSettings, seconds: float) -> Any:
    """A run between the clusters of `kafka_a` and `kafka_b`; its jobs are killed after some seconds."""
    return SimpleNamespace(
        id="planned_failover-r1",
        systems=SimpleNamespace(connections=Connections()),
        topology=SimpleNamespace(spark=spark, cluster=lambda alias: SimpleNamespace(connection=f"kafka_{alias}")),
        request=SimpleNamespace(source="a", target="b", deadlines=SimpleNamespace(spark_seconds=seconds)),
        progress=SimpleNamespace(fence_deadline=lambda: None),
    )


class StandIn:
    """A `spark-submit` before all others on PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        program = folder / "spark-submit"
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self.behaves("0")

    def behaves(self, behaviour: str) -> None:
        """Let it end with an exit code, kill itself (`killed`) or not end (`hangs`)."""
        (self._folder / "behaviour").write_text(behaviour)

    @property
    def was_called(self) -> bool:
        """Whether it has kept what it got."""
        return (self._folder / "got.json").exists()

    @property
    def words(self) -> list[str]:
        """Its command line."""
        return list(self._got("words"))

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Spark on its command line."""
        words = self.words
        pairs = [words[place + 1] for place, word in enumerate(words) if word == "--conf"]
        return dict(pair.split("=", 1) for pair in pairs)

    @property
    def environment(self) -> dict[str, str]:
        """Its environment."""
        return dict(self._got("environment"))

    @property
    def contents(self) -> dict[str, str]:
        """The files with logins: name -> content."""
        return dict(self._got("contents"))

    @property
    def modes(self) -> dict[Path, int]:
        """The folder with logins, and its files: path -> mode."""
        return {Path(path): mode for path, mode in self._got("modes").items()}

    def option(self, name: str) -> str | None:
        """The word behind an option; None if the option is missing."""
        words = self.words
        return words[words.index(name) + 1] if name in words else None

    def _got(self, part: str) -> Any:
        return json.loads((self._folder / "got.json").read_text())[part]
