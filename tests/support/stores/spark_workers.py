"""A Spark master with workers on this machine, each with a folder of its own, without a lab."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests

from lab.environment.ports import free_ports
from lab.install.java_flags import FLAGS

READY_SECONDS = 240.0


@contextmanager
def spark_workers(folder: Path, count: int) -> Iterator[str]:
    """Start a master and `count` workers of one core; yield the master's URL; stop them at the end."""
    ports_of = free_ports(["spark_master", "spark_page"])
    port, page = ports_of["spark_master"], ports_of["spark_page"]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        ports = ["--port", str(port), "--webui-port", str(page)]
        started = [stack.enter_context(_running(folder, "master", "org.apache.spark.deploy.master.Master", *ports))]
        for number in range(count):
            own = [
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(folder / f"work-{number}"),
            ]
            worker = _running(folder, f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *own, url)
            started.append(stack.enter_context(worker))
        _await_workers(f"http://127.0.0.1:{page}/json/", count, started)
        yield url


@contextmanager
def _running(folder: Path, name: str, main: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        # spark-class looks for the distribution beside this Python's PySpark; PATH may start with another Python.
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(FLAGS),
        "SPARK_LOCAL_DIRS": str(folder / f"local-{name}"),
    }
    program = str(Path(sys.executable).parent / "spark-class")
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [program, main, "--host", "127.0.0.1", *arguments],
            env=os.environ | environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        # A worker stops its executors when it is told to end.
        process.terminate()
        process.wait(60)


def _await_workers(page: str, count: int, started: list[subprocess.Popen[bytes]]) -> None:
    ends_at = time.monotonic() + READY_SECONDS
    while time.monotonic() < ends_at:
        ended = [process.args for process in started if process.poll() is not None]
        if ended:
            raise ChildProcessError(f"a process of Spark ended before its workers had registered: {ended}; see its log")
        try:
            if requests.get(page, timeout=5).json()["aliveworkers"] == count:
                return
        except requests.RequestException:
            pass
        time.sleep(0.5)
    raise TimeoutError(f"{count} workers of Spark have not registered within {READY_SECONDS:.0f} s")
