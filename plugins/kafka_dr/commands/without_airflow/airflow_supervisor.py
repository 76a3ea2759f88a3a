"""Starts a private Airflow in its working directory, and ends it with the command that started this process.

Lines on standard output name the parts that are ready. When standard input ends, as it does after a `kill -9` of the
command, the supervisor ends all of Airflow.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.endpoint import JsonEndpoint

#: The last line of a successful start.
READY = "its API"
#: Health paths of the API's two applications; each application is built at its first request.
_HEALTH = ("/api/v2/monitor/health", "/execution/health")
_READY_SECONDS = 300.0
_LOOK_SECONDS = 0.2


def main() -> None:
    """Run until the command or a part of Airflow has ended; in the latter case the last line names the part."""
    try:
        _run()
    finally:
        end_processes(Path.cwd())


def _run() -> None:
    api = JsonEndpoint(os.environ["AIRFLOW__API__BASE_URL"], "Airflow's API", HookUnavailable)
    migration = _start("db", "migrate")
    _wait(lambda: migration.poll() == 0, "its database", migration)
    parts, dag_parsing = [_start("api-server")], _start("dags", "reserialize")
    _wait(lambda: dag_parsing.poll() == 0, "its DAGs", dag_parsing, *parts)
    # Log servers would listen on every network interface; the API reads the logs as files.
    parts.append(_start("scheduler", "--skip-serve-logs"))
    _wait(lambda: all(api.attempt("GET", path).ok for path in _HEALTH), READY, *parts)
    # The triggerer is needed last: a step is deferred only after ten seconds.
    parts.append(_start("triggerer", "--skip-serve-logs"))
    _wait(lambda: False, "", *parts)


def _start(*arguments: str) -> subprocess.Popen[str]:
    with Path(f"{arguments[0]}.log").open("ab") as log:
        argv = [sys.executable, "-m", "airflow", *arguments]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True)


def _wait(done: Callable[[], bool], what: str, *parts: subprocess.Popen[str]) -> None:
    """Wait until ``done``; exit if a part ends before, the command ends, or the time is up."""
    ends_at = time.monotonic() + _READY_SECONDS
    while not done():
        ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
        if ready and not os.read(0, 1):
            sys.exit("the command has ended")
        ended = [part for part in parts if part.poll() is not None]
        if ended and not done():
            sys.exit(f"{ended[0].args!r} has ended with {ended[0].returncode}")
        if what and time.monotonic() > ends_at:
            sys.exit(f"{what}: not ready within {_READY_SECONDS:.0f} s")
    print(what, flush=True)


def end_processes(folder: Path) -> None:
    """Kill all Airflow processes that work in a folder: every step may be killed at any point."""
    while processes := [process for process in psutil.process_iter() if _works_in(process, folder)]:
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, 1)


def _works_in(process: psutil.Process, folder: Path) -> bool:
    """Return whether a process is of the Airflow there: not this process, nor a shell, which has a terminal."""
    try:
        return process.cwd() == str(folder) and process.terminal() is None and process.pid != os.getpid()
    except psutil.Error:
        return False


if __name__ == "__main__":
    main()
