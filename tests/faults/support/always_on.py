"""The always-running DAGs `record_positions` and `watch_old_source`, each a process on a lab without Airflow."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback

from lab.environment.processes import list_processes
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.faults.support.stepping import ROOT, product_environment

RECORDER, WATCHER = "record_positions", "watch_old_source"
SECONDS = 30.0


def start(lab: Lab, dag_id: str) -> None:
    """Start the process beside the lab's other processes; taking the lab down ends this process, too."""
    lab.processes.start(
        _name(dag_id), [sys.executable, "-m", "tests.faults.support.always_on", dag_id], product_environment(lab), ROOT
    )


def stop(lab: Lab, dag_id: str) -> None:
    """End the process, and return when it has ended; a sample under way is stored before."""
    leader = lab.processes.pid(_name(dag_id))
    if leader is not None:
        os.killpg(leader, signal.SIGTERM)
        wait_until(
            lambda: not any(seen.session == leader and seen.state != "Z" for seen in list_processes()),
            f"{dag_id} to end",
            SECONDS,
        )


def said(lab: Lab, dag_id: str) -> str:
    """Return what the process has printed so far."""
    return lab.processes.output(_name(dag_id)).read_text(errors="replace")


def _name(dag_id: str) -> str:
    return f"always-on-{dag_id}"


def main(dag_id: str) -> None:
    """Run the DAG's only task until the process is ended; after an error again, as Airflow does."""
    # Airflow is imported only here: those who start and stop the process need none of it.
    from tests.faults.support.step_server import load_dag

    (task,) = load_dag(dag_id).tasks
    while True:
        try:
            task.execute({})
        except Exception:
            traceback.print_exc()
        time.sleep(task.retry_delay.total_seconds())


if __name__ == "__main__":
    main(sys.argv[1])
