"""Starts Airflow's processes, and starts each again when it has died; runs as a process of its own.

A process of the lab's own, in place of a service manager such as supervisord: the lab already records, finds and stops
processes by pid and start time, also after a crash, and `status` and `down` must know the processes that were started
again. A service manager would keep records of its own, and its settings would hold Airflow's secrets in a second file.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

from lab.environment.airflow_services import start_components
from lab.environment.airflow_settings import COMPONENTS
from lab.environment.production.profile import SUPERVISOR
from lab.environment.progress import wait_until
from lab.environment.state import Lab

LOOK_SECONDS = 0.5
#: A component that dies soon after its start is started again after a longer and longer pause.
FIRST_PAUSE, LONGEST_PAUSE, SOON_SECONDS = 1.0, 30.0, 60.0
STOP_SECONDS = 10.0


class RestartPauses:
    """Says when a component that has died may be started again."""

    def __init__(self) -> None:
        self._pauses: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def may_start(self, component: str, now: float) -> bool:
        """Whether a component that does not run may be started now; if so, the start is taken to happen."""
        started = self._started.get(component)
        if started is not None:
            pause = self._pauses.get(component, FIRST_PAUSE)
            if now - started > SOON_SECONDS:
                pause = FIRST_PAUSE
            elif now - started < pause:
                return False
            self._pauses[component] = min(2 * pause, LONGEST_PAUSE)
        self._started[component] = now
        return True


def start_supervisor(lab: Lab) -> None:
    """Start the supervisor unless it runs; it starts those of Airflow's components that do not run."""
    if lab.processes.pid(SUPERVISOR) is None:
        module = "lab.environment.production.supervisor"
        lab.processes.start(SUPERVISOR, [sys.executable, "-m", module, str(lab.root)], dict(os.environ), lab.home)


def stop_supervisor(lab: Lab) -> None:
    """Stop the supervisor at once, if it runs, so that it starts nothing again while the lab is taken down."""
    if (pid := lab.processes.pid(SUPERVISOR)) is not None:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: lab.processes.pid(SUPERVISOR) is None, "the supervisor to stop", STOP_SECONDS)


def supervise(lab: Lab) -> None:
    """Start Airflow's components, and each again when it has died, until this process is stopped."""
    pauses = RestartPauses()
    while lab.exists():
        dead = [component for component in COMPONENTS if lab.processes.pid(f"airflow-{component}") is None]
        due = [component for component in dead if pauses.may_start(component, time.monotonic())]
        if due:
            print(f"{time.strftime('%FT%T')} starting {', '.join(due)}", flush=True)
            start_components(lab, due)
        time.sleep(LOOK_SECONDS)
        _reap_children()


def _reap_children() -> None:
    """Have the kernel forget components that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    supervise(Lab(sys.argv[1]))
