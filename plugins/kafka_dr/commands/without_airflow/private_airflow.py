"""Starts and ends the command's Airflow: scheduler, API server and triggerer for the one procedure of a command.

The command's Airflow has its own database. The site's Airflow, whose scheduler does not run, is not changed.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka_dr.commands.without_airflow.airflow_supervisor import READY, end_processes
from kafka_dr.config.settings import TOPOLOGY_VARIABLE, Topology
from kafka_dr.connections import stored_outside_airflow
from kafka_dr.errors import BadInput, HookUnavailable, SystemUnavailable
from kafka_dr.installation import PACKAGES, dags_folder, is_wheel, python_path
from kafka_dr.procedure.approvals import APPROVED_THROUGH_VARIABLE
from kafka_dr.vocabulary import ApprovedThrough

#: Airflow's variable for a process's role: a server reads connections from the database, a task by the API.
PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
_STOP_SECONDS = 10.0
_SETTINGS = {
    "AIRFLOW__API__SSL_CERT": "",
    "AIRFLOW__API__SSL_KEY": "",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__API_AUTH__JWT_PRIVATE_KEY_PATH": "",
    "AIRFLOW__API_AUTH__TRUSTED_JWKS_URL": "",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__DATABASE__CHECK_MIGRATIONS": "False",
    "AIRFLOW__LOGGING__REMOTE_LOGGING": "False",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
    # No scheduled DAGs (recorder, watcher): only the run that the command triggers shall run in this Airflow.
    "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "60",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
}


class PrivateAirflow:
    """The command's Airflow: a supervisor and its child processes; all end with this process, even if it is killed."""

    def __init__(self, folder: Path, url: str, connections: dict[str, str]) -> None:
        """Start the processes without waiting until they are ready.

        Args:
            folder: for database and logs; Airflow processes of an earlier command in this folder are killed.
            url: the address at which the API shall listen.
            connections: environment variables with connections of the site's Airflow; a variable of this process with
                the same name overrides each of them.
        """
        self._folder, self._began = folder, time.monotonic()
        end_processes(folder)
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "kafka_dr.commands.without_airflow.airflow_supervisor"],
            env=connections | _environment(folder, url),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_until_ready(self, say: Callable[[str], None]) -> None:
        """Wait until a run can be triggered; call `say` for each part of the command's Airflow that is ready.

        Raises:
            HookUnavailable: a part has ended, or was not ready within 300 s.
        """
        line = ""
        for line in map(str.strip, self._supervisor.stdout or ()):
            say(f"The command's Airflow, after {time.monotonic() - self._began:.0f} s: {line}")
            if line == READY:
                return
        raise self._ended(line)

    def must_live(self) -> None:
        """Raise HookUnavailable if a part of the command's Airflow has ended, which ends all other parts, too."""
        if self._supervisor.poll() is not None:
            raise self._ended(self._supervisor.stdout.read().strip() if self._supervisor.stdout else "")

    def stop(self) -> None:
        """End all processes of the command's Airflow, also a step that runs."""
        if self._supervisor.stdin:
            self._supervisor.stdin.close()
        try:
            self._supervisor.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
        end_processes(self._folder)

    def _ended(self, seen: str) -> HookUnavailable:
        return HookUnavailable(
            "The command's Airflow has ended",
            seen,
            f"Correct the fault that the last lines of the logs in {self._folder} state, then run the command again"
            " (with --resume if the command prints `Continue with`).",
        )


def free_url() -> str:
    """Return a URL with a free port on the loopback interface, unreachable from the network."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def point_to(url: str, topology: Topology) -> None:
    """Set the topology's connection for Airflow's API to `url`, with the same login, in this and child processes.

    Raises:
        BadInput: a secrets backend has this connection and overrides the environment, so that steps would use the
            backend's address.
    """
    name = topology.airflow_api.connection
    account = stored_outside_airflow(name)
    os.environ["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"{url}/execution/"
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(
        {"conn_type": "http", "host": url, "login": account.login, "password": account.password}
    )
    if stored_outside_airflow(name).host != url:
        raise BadInput(
            f"The connection {name} does not lead to the command's Airflow",
            f"a secrets backend also has {name}, and its address wins over {url}, the command's Airflow",
            f"Remove {name} from the secrets backend. Then set AIRFLOW_CONN_{name.upper()} in the environment of this"
            f" command. With --own-database FOLDER store {name} in the file FOLDER/connections/{name}.json.",
        )


def exported_connections(topology: Topology) -> dict[str, str]:
    """Return the connections in the database of the site's Airflow, as environment variables, name -> JSON.

    The connections of Airflow's API, of the journal and of a Spark cluster are left out, because the database may not
    state them.

    Raises:
        SystemUnavailable: the database does not answer.
    """
    argv = [sys.executable, "-m", "airflow", "connections", "export", "-", "--file-format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    try:
        connections = json.loads(done.stdout)
    except ValueError:
        raise database_unavailable(done.stderr) from None
    never = {named.connection.upper() for named in (topology.airflow_api, topology.journal, topology.spark)}
    return {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps(stored)
        for name, stored in connections.items()
        if name.upper() not in never or (name.upper() == topology.spark.connection.upper() and _is_local(stored))
    }


def _is_local(spark: Mapping[str, Any]) -> bool:
    """Whether a Spark connection names no cluster, to which the clusters' logins would travel."""
    return str(spark.get("host") or "").startswith("local") and not spark.get("port")


def database_unavailable(output: str) -> SystemUnavailable:
    """Return the error for an `airflow` command, with this output, that could not read the site's database."""
    return SystemUnavailable(
        "The metadata database of the site's Airflow does not answer",
        (output.strip().splitlines() or [""])[-1][:500],
        "Start or restore the database. If that takes too long, add --own-database FOLDER; the folder must hold"
        " users.json, and connections/*.json with the connections that were in the database.",
    )


def _environment(folder: Path, url: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != PROCESS_CONTEXT}
    named = {name: inherited[name] for name in (TOPOLOGY_VARIABLE, "KAFKA_DR_SPARK_HOME") if inherited.get(name)}
    bundle = {
        "name": "switchback",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(dags_folder())},
    }
    return {
        **inherited,
        **_SETTINGS,
        # Absolute paths, as the working directory of these processes is the folder.
        **{name: str(Path(value).absolute()) for name, value in named.items()},
        "PYTHONPATH": python_path(),
        APPROVED_THROUGH_VARIABLE: ApprovedThrough.OWN_DATABASE.value,
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": url.rpartition(":")[2],
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        **({} if is_wheel() else {"AIRFLOW__CORE__PLUGINS_FOLDER": str(PACKAGES)}),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db?timeout=60",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"sqlite+aiosqlite:///{folder}/airflow.db?timeout=60",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
    }
