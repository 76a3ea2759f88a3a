"""Program that starts the command's Airflow in the working directory, and ends this Airflow with the command.

The command run_procedure starts this program. Each line on standard output names a part of the command's Airflow that
is ready. When standard input ends, even by a `kill -9` of the command, the program kills all processes of that Airflow.
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
from kafka_dr.hooks.json_endpoint import JsonEndpoint

#: The line that a successful start prints last.
READY = "its API"
#: Health paths of the API server's two applications; a first request makes the server build an application.
_HEALTH = ("/api/v2/monitor/health", "/execution/health")
_READY_SECONDS = 300.0
_LOOK_SECONDS = 0.2


def main() -> None:
    """Run until the command or a part of its Airflow ends; the last line on standard error says which has ended."""
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
    # No log servers, which would listen on every network interface: the API server reads logs as files.
    parts.append(_start("scheduler", "--skip-serve-logs"))
    _wait(lambda: all(api.attempt("GET", path).ok for path in _HEALTH), READY, *parts)
    # The triggerer starts last: no step needs it in the first ten seconds, before steps are deferred.
    parts.append(_start("triggerer", "--skip-serve-logs"))
    _wait(lambda: False, "", *parts)


def _start(*arguments: str) -> subprocess.Popen[str]:
    with Path(f"{arguments[0]}.log").open("ab") as log:
        argv = [sys.executable, "-m", "airflow", *arguments]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True)


def _wait(done: Callable[[], bool], what: str, *parts: subprocess.Popen[str]) -> None:
    """Wait until `done()` is True, then print `what`; exit if a part or the command ends first, or after 300 s.

    An empty `what` means that the wait has no time limit.
    """
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
    """Kill all processes of the command's Airflow in a folder; a step can be killed at any point without harm."""
    while processes := [process for process in psutil.process_iter() if _works_in(process, folder)]:
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, 1)


def _works_in(process: psutil.Process, folder: Path) -> bool:
    """Whether a process works in a folder, has no terminal (as a person's shell has), and is not this process."""
    try:
        return process.cwd() == str(folder) and process.terminal() is None and process.pid != os.getpid()
    except psutil.Error:
        return False


if __name__ == "__main__":
    main()
