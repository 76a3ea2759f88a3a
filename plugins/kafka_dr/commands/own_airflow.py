"""What a command needs of Airflow when none runs: its API on a port of our own, its DAG files in the database,
its database.

The API runs in a process of its own, not in a thread: tasks are forked from the command, and a fork beside a running
thread may inherit its locks. It ends with the command, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
import uvicorn
from airflow import settings
from airflow.configuration import conf
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
from airflow.jobs.job import most_recent_job
from airflow.sdk import DAG
from airflow.utils import db
from airflow.utils.session import create_session
from sqlalchemy.exc import SQLAlchemyError

from kafka_dr.errors import BadInput, HookUnavailable, SystemUnavailable
from kafka_dr.operators.connections import Connections
from kafka_dr.settings import Topology

#: Airflow's own way to say whose process this is: a server reads connections from its database, a task asks the API.
PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_READY_SECONDS = 180.0
_STOP_SECONDS = 10.0
_PAUSE = 0.3


class OwnApi:
    """Airflow's API on 127.0.0.1, for as long as the command lives; forked off before anything else is connected."""

    def __init__(self, listening: socket.socket) -> None:
        """Start it; `wait_until_ready` says when it answers."""
        self._alive, end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(end)
            self._serve(listening)
        os.close(self._alive)
        self._end = end
        self.url = own_url(listening)
        listening.close()

    def _serve(self, listening: socket.socket) -> None:
        """Serve until the command is gone; the process never leaves this function."""
        try:
            os.setsid()
            threading.Thread(target=_end_with_command, args=(self._alive,), daemon=True).start()
            from airflow.api_fastapi.app import create_app  # noqa: PLC0415 (reads the environment of this process)

            server = uvicorn.Server(uvicorn.Config(create_app(), log_level="warning", access_log=False))
            server.run(sockets=[listening])
        except BaseException:  # noqa: BLE001 (a forked process must not return to its parent's code)
            traceback.print_exc()
        finally:
            os._exit(1)

    def wait_until_ready(self) -> None:
        """Wait until it answers; the first answer takes some seconds.

        Raises:
            SystemUnavailable: it has ended, or does not answer in time.
        """
        ends_at = time.monotonic() + _READY_SECONDS
        while time.monotonic() < ends_at:
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                raise HookUnavailable(
                    "Airflow's API ended while it started",
                    "",
                    "See the command's log; its database must be reachable (else --own-database).",
                )
            if self._answers("/execution/health") and self._answers("/api/v2/monitor/health"):
                return
            time.sleep(_PAUSE)
        raise HookUnavailable(
            "Airflow's API does not answer", f"not within {_READY_SECONDS:.0f} s", "See the command's log."
        )

    def _answers(self, path: str) -> bool:
        with requests.Session() as session:
            session.trust_env = False
            try:
                return session.get(self.url + path, timeout=_READY_SECONDS).ok
            except requests.RequestException:
                return False

    def let_go(self) -> None:
        """In a forked task: only the command's own end shall end the API."""
        os.close(self._end)

    def stop(self) -> None:
        """End it."""
        os.close(self._end)
        ends_at = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < ends_at:
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                return
            time.sleep(0.05)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _end_with_command(alive: int) -> None:
    """The pipe's other end is closed when the command ends, killed or not."""
    os.read(alive, 1)
    os._exit(0)


def listen() -> socket.socket:
    """A socket on a free port that nobody else on the network can reach."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    return listening


def own_url(listening: socket.socket) -> str:
    """Where it answers."""
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def point_to(url: str, topology: Topology) -> None:
    """Make the topology's connection to Airflow's API lead to ours, with the same login; for this process and those
    it starts.

    Raises:
        BadInput: a secrets backend stands before the environment, so that steps would still ask the old place.
    """
    name, connections = topology.airflow_api.connection, Connections()
    _, login, password = connections.login(name)
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(
        {"conn_type": "http", "host": url, "login": login, "password": password}
    )
    if connections.login(name)[0] != url:
        raise BadInput(
            f"The connection {name} cannot be pointed to the command's own API",
            "a secrets backend answers before the environment",
            f"Let that backend say host={url} for it, or take it out there.",
        )


def scheduler_alive(waiting: Callable[[float], None] | None = None) -> bool:
    """Whether Airflow's scheduler lives: a heartbeat that is recent may be a dead one's last, so the next one is
    waited for.

    Args:
        waiting: told once how long that may take; without it nothing is waited for.

    Raises:
        SystemUnavailable: the metadata database does not answer.
    """
    first = _heartbeat()
    if first is None or waiting is None:
        return first is not None
    waiting(conf.getfloat("scheduler", "scheduler_health_check_threshold"))
    while (now := _heartbeat()) is not None:
        if now != first:
            return True
        time.sleep(_PAUSE)
    return False


def _heartbeat() -> Any:
    """The newest heartbeat of a scheduler that counts as alive."""
    try:
        with create_session() as session:
            job = most_recent_job("SchedulerJob", session=session)
            return job.latest_heartbeat if job is not None and job.is_alive() else None
    except SQLAlchemyError as error:
        seen = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
        raise SystemUnavailable(
            "Airflow's metadata database does not answer", seen, "Bring it back, or run with --own-database FOLDER."
        ) from None


def find_dag(dag_id: str) -> DAG:
    """Parse the DAG's bundle and write it to the database, as the DAG processor would."""
    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    broken: dict[str, str] = {}
    for bundle in manager.get_all_dag_bundles():
        if not bundle.is_initialized:
            bundle.initialize()
        bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        broken |= bag.import_errors
        if dag_id in bag.dags:
            sync_bag_to_db(bag, bundle.name, bundle.version)
            return bag.dags[dag_id]
    seen = "; ".join(f"{file}: {text.strip().splitlines()[-1]}" for file, text in broken.items()) or "no bundle has it"
    raise BadInput(f"There is no DAG {dag_id!a}", seen, "Name one of the DAGs in Airflow's folders.")


def make_database() -> None:
    """A fresh database where the settings say it is, unless it is there already."""
    location = settings.SQL_ALCHEMY_CONN or ""
    if not Path(location.removeprefix("sqlite:///")).exists():
        db.initdb()
