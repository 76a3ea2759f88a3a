"""Run the demo clients on the cluster that the routing record names, and stop the clients on request."""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lab.clients.application import Application, ClientPlan, DemoRoute, write_whole
from lab.clients.drain_hook import serve_hooks
from lab.clients.source_view import view_of
from lab.clients.working import client_process

WATCH_SECONDS = 0.1
RESTART_SECONDS = 1.0
STOP_SECONDS = 20.0
#: Seconds that clients get to stop when they move to another cluster: the old cluster may not answer, and a longer wait
#: would only delay the move.
LEAVE_SECONDS = 3.0


class Supervisor:
    """Runs the clients on the cluster that the routing record names; after `drain` no client runs.

    Args:
        application: the configuration of the clients.
        memory: file that stores the id of the procedure for which clients were stopped, so that clients stay stopped
            after a restart of the application; None: the id is not stored.
    """

    def __init__(self, application: Application, memory: Path | None = None) -> None:
        self._application, self._memory = application, memory
        self._processes: dict[str, tuple[Any, Connection]] = {}
        self._context = multiprocessing.get_context("spawn")
        self._started_at: dict[str, float] = {}
        self._lock = threading.RLock()
        self._route: DemoRoute | None = None
        self._drained_for: str | None = None
        if memory is not None and memory.exists():
            self._drained_for = json.loads(memory.read_text(encoding="utf-8"))
        self._ending = False

    def watch(self) -> None:
        """Follow the routing record until `end` is called, then stop the clients."""
        while not self._ending:
            with self._lock:
                self._follow()
            time.sleep(WATCH_SECONDS)
        self._stop_clients()

    def end(self) -> None:
        """Make `watch` stop the clients and return."""
        self._ending = True

    def drain(self, procedure_id: str) -> dict[str, Any]:
        """Ask every client to stop for a procedure; return the state, as `state` does, at once.

        No client starts until this procedure calls `resume`, or until the routing record changes. If clients are
        already stopped for another procedure, only that procedure can resume the clients.
        """
        with self._lock:
            # Only the procedure that drained first can resume the clients, so a second procedure's id is not stored.
            if self._drained_for is None:
                self.stay_stopped(procedure_id)
            self._ask_to_stop()
            return self.state()

    def resume(self, procedure_id: str) -> dict[str, Any]:
        """Let clients start again if clients were stopped for this procedure, else do nothing; return the state."""
        with self._lock:
            if self._drained_for == procedure_id:
                self.stay_stopped(None)
            return self.state()

    def employ(self, clients: Sequence[ClientPlan], folder: Path) -> dict[str, Any]:
        """Stop all clients; `watch` then starts the given clients, with event logs in `folder`; return the state."""
        with self._lock:
            self._stop_clients()
            folder.mkdir(parents=True, exist_ok=True)
            self._application = replace(self._application, clients=tuple(clients), folder=folder)
            return self.state()

    def state(self) -> dict[str, Any]:
        """Return the answer to `GET /state`.

        `producers` and `consumers` have the number of `running` clients. `drained_for` is the id of the procedure for
        which clients were stopped; None if clients can run. `detail` has the clients' cluster and names.
        """
        running = [plan for plan in self._application.clients if self._alive(plan.name)]
        producers = sum(plan.group is None for plan in running)
        return {
            "producers": {"running": producers},
            "consumers": {"running": len(running) - producers},
            "drained_for": self._drained_for,
            "detail": {
                "cluster": self._route.cluster if self._route else None,
                "clients": [plan.name for plan in running],
            },
        }

    def source(self) -> dict[str, Any]:
        """Return the source probe's answer on the cluster that the routing record names.

        `reachable`: whether the cluster answered; `writable`: None, because no record is written; `detail`: the answer
        or the error.
        """
        route = DemoRoute.read(self._application.routing)
        return view_of(self._application.properties[route.cluster]["producer"], route.bootstrap_servers)

    def stay_stopped(self, procedure_id: str | None) -> None:
        """Store the id of the procedure for which clients stay stopped, also after a restart; None lets clients run."""
        if self._memory is not None:
            write_whole(self._memory, procedure_id)
        self._drained_for = procedure_id

    def _follow(self) -> None:
        route = DemoRoute.read(self._application.routing)
        if self._route is not None and route != self._route:
            self.stay_stopped(None)
            self._stop_clients(STOP_SECONDS if route.cluster == self._route.cluster else LEAVE_SECONDS)
        self._route = route
        if self._drained_for is not None:
            return
        for plan in self._application.clients:
            if not self._alive(plan.name) and time.monotonic() - self._started_at.get(plan.name, 0.0) > RESTART_SECONDS:
                self._start(plan, route)

    def _start(self, plan: ClientPlan, route: DemoRoute) -> None:
        our_end, client_end = self._context.Pipe()
        process = self._context.Process(
            target=client_process, args=(plan, self._application, route, client_end), daemon=True, name=plan.name
        )
        process.start()
        client_end.close()
        self._processes[plan.name] = (process, our_end)
        self._started_at[plan.name] = time.monotonic()

    def _alive(self, name: str) -> bool:
        return name in self._processes and self._processes[name][0].is_alive()

    def _ask_to_stop(self) -> None:
        for _, control in self._processes.values():
            try:
                control.send("stop")
            except OSError:
                # The client process has ended already.
                continue

    def _stop_clients(self, seconds: float = STOP_SECONDS) -> None:
        self._ask_to_stop()
        deadline = time.monotonic() + seconds
        for process, _ in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._processes, self._started_at = {}, {}


def run_application(application: Application, until_eof: bool = False) -> None:
    """Run clients and hooks until SIGTERM or SIGINT, then stop the clients.

    Args:
        application: the configuration of the clients.
        until_eof: also end when the standard input ends, which happens when the parent process ends.
    """
    application.folder.mkdir(parents=True, exist_ok=True)
    supervisor = Supervisor(application)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: supervisor.end())

    def end_with_input() -> None:
        sys.stdin.read()
        supervisor.end()

    if until_eof:
        threading.Thread(target=end_with_input, daemon=True).start()
    with serve_hooks(application.drain_url, supervisor):
        supervisor.watch()
