"""The programs that are measured: the Spark jobs as submitted, and Java peers, fresh or kept alive."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_dr.hooks.private_files import private_file

from lab.environment.jvm import java_program
from lab.install.jars import PROJECT, jars_folder
from lab.install.java_compiler import compile_java
from lab.install.spark_warm_up import spark_environment
from tests.benchmarks.clusters import SOURCE, TARGET, Clusters
from tests.benchmarks.measuring import PeakMemory

PEERS = Path(__file__).parents[1] / "peers"
#: Settings by which Kafka's tools and the Java peers log to the file that -Dlab.log names, not to the terminal.
QUIET_LOGGING = PROJECT / "lab" / "environment" / "log4j2.properties"
JOBS = PROJECT / "spark" / "jobs"
SUBMIT = ["spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false"]


@dataclass(frozen=True)
class ColdRun:
    """One cold run of a job: wall seconds, its summary, and peaks of memory in MB."""

    seconds: float
    summary: dict[str, Any]
    driver: int
    workers: int


class Job:
    """A Spark job on one input."""

    def __init__(self, site: Clusters, given: Path, name: str = "translate_offsets") -> None:
        self._site, self._given, self._script = site, given, JOBS / f"{name}.py"

    @property
    def environment(self) -> dict[str, str]:
        """What the lab's Airflow sets."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return os.environ | {"PATH": path, **spark_environment()}

    def logins(self, **more: dict[str, str]) -> str:
        """Write the file by which the product gives a job its logins, and return its path."""
        logins = {side: self._site.settings(alias) for side, alias in (("source", SOURCE), ("target", TARGET))}
        file = private_file(self._site.scratch / f"logins-{uuid.uuid4()}.json")
        file.write_text(json.dumps(logins | more))
        return str(file)

    def cold(self, *more: str) -> ColdRun:
        """Run it as a process of its own, with ``more`` on its command line."""
        output = self._site.scratch / f"out-{uuid.uuid4()}"
        line = [
            *SUBMIT,
            "--name",
            self._script.stem,
            str(self._script),
            "--input",
            str(self._given),
            "--output",
            str(output),
            "--logins",
            self.logins(),
            *more,
        ]
        began = time.monotonic()
        with subprocess.Popen(
            line, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            with PeakMemory(process.pid) as memory:
                said, _ = process.communicate()
            seconds = time.monotonic() - began
        if process.returncode:
            raise RuntimeError(f"the job failed: {said[-1000:]}")
        summary = json.loads((output / "summary.json").read_text())
        shutil.rmtree(output)
        return ColdRun(
            seconds, summary, memory.of(self._is_driver), memory.of(lambda command: "pyspark.daemon" in command)
        )

    @contextmanager
    def warm(self) -> Iterator[Passes]:
        """Keep a process with a Spark session; each pass is a whole run."""
        line = [sys.executable, "-m", "tests.benchmarks.passes.job_passes", self._script.stem]
        line += [str(self._site.scratch), self.logins()]
        with kept(line, self.environment) as passes:
            yield passes

    def _is_driver(self, command: str) -> bool:
        return "SparkSubmit" in command or (str(self._script) in command and "spark-submit" not in command)


class Passes:
    """A process that does one pass per line it is given."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, line: str) -> str:
        """Let it do a pass and return what it answers."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} ended with {self.process.wait(10)} instead of an answer")
        return answer


@contextmanager
def kept(line: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[Passes]:
    """Start a process and end it afterwards."""
    with subprocess.Popen(
        line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
    ) as process:
        try:
            yield Passes(process)
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def java_line(peer: str, *arguments: str, heap: str = "3g") -> list[str]:
    """Return the command of a Java peer, which is compiled unless that was done before."""
    jars = f"{jars_folder() / 'kafka'}/*"
    return [
        java_program(),
        f"-Xmx{heap}",
        f"-Dlog4j2.configurationFile={QUIET_LOGGING}",
        "-Dlab.log=/dev/null",
        "-cp",
        f"{jars}:{compile_java([PEERS / peer], jars)}",
        Path(peer).stem,
        *arguments,
    ]
