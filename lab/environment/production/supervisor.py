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
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import requests

from lab.environment.airflow_services import start_components
from lab.environment.airflow_settings import COMPONENTS
from lab.environment.production.profile import SUPERVISOR
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.install.jars import PROJECT

LOOK_SECONDS = 0.5
#: A component without a heartbeat for so long does nothing any more, although its process lives: a scheduler that has
#: lost its database ends its work, and then waits for tasks that never end, such as `record_positions`.
SILENT_SECONDS = 90.0
HEALTH_SECONDS, REQUEST_SECONDS = 5.0, 10.0
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
        # In the project's folder, where Python finds the module.
        lab.processes.start(SUPERVISOR, [sys.executable, "-m", module, str(lab.root)], dict(os.environ), PROJECT)


def kill_components(lab: Lab) -> None:
    """Kill Airflow's components that run: a scheduler whose database was away lives on, but does nothing any more."""
    for component in COMPONENTS:
        if (pid := lab.processes.pid(f"airflow-{component}")) is not None:
            os.kill(pid, signal.SIGKILL)


def stop_supervisor(lab: Lab) -> None:
    """Stop the supervisor at once, if it runs, so that it starts nothing again while the lab is taken down."""
    if (pid := lab.processes.pid(SUPERVISOR)) is not None:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: lab.processes.pid(SUPERVISOR) is None, "the supervisor to stop", STOP_SECONDS)


def silent_components(health: Mapping[str, Any], now: datetime) -> list[str]:
    """Return the components whose last heartbeat is too long ago, from the answer of Airflow's health check.

    [] if the answer says that the database is not healthy: then the heartbeats say nothing.
    """
    if health["metadatabase"]["status"] != "healthy":
        return []
    found = []
    for component in ("scheduler", "triggerer", "dag-processor"):
        part = component.replace("-", "_")
        heartbeat = health[part][f"latest_{part}_heartbeat"]
        if heartbeat and (now - datetime.fromisoformat(heartbeat)).total_seconds() > SILENT_SECONDS:
            found.append(component)
    return found


class SilenceWatch:
    """Kills components that live without a heartbeat; only those whose process is old enough to have given one."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._first_seen: dict[int, float] = {}
        self._next_look = 0.0

    def kill_silent(self, now: float) -> None:
        """Ask Airflow for its components' health, every few seconds, and kill those that are silent.

        Args:
            now: monotonic time in seconds.
        """
        pids = {one: pid for one in COMPONENTS if (pid := self._lab.processes.pid(f"airflow-{one}")) is not None}
        self._first_seen = {pid: self._first_seen.get(pid, now) for pid in pids.values()}
        if now < self._next_look:
            return
        self._next_look = now + HEALTH_SECONDS
        for component in self._silent():
            pid = pids.get(component)
            if pid is not None and now - self._first_seen[pid] > SILENT_SECONDS:
                print(f"{time.strftime('%FT%T')} killing {component}, which gives no heartbeat", flush=True)
                os.kill(pid, signal.SIGKILL)

    def _silent(self) -> list[str]:
        try:
            with requests.Session() as session:
                session.trust_env = False
                answer = session.get(f"{self._lab.airflow_url}/api/v2/monitor/health", timeout=REQUEST_SECONDS)
            return silent_components(answer.json(), datetime.now(UTC))
        except (requests.RequestException, ValueError, KeyError):
            # The API server itself is away, or starts.
            return []


def supervise_components(lab: Lab) -> None:
    """Start Airflow's components, and each again when it has died or is silent, until this process is stopped."""
    pauses, watch = RestartPauses(), SilenceWatch(lab)
    while lab.exists():
        watch.kill_silent(time.monotonic())
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
    supervise_components(Lab(sys.argv[1]))
