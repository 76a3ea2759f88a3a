"""A site that installed the wheel: an environment with one minor version of Airflow, and Airflow's four processes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import requests
from cryptography.fernet import Fernet

ROOT = Path(__file__).parents[3]
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
EXTRAS = "azure,gcs,msk,postgres,s3,slack"
USERS = {"operator": "op", "approver": "op", "viewer": "viewer"}
WAIT_SECONDS = 240.0
Seen = TypeVar("Seen")


def free_port() -> int:
    """Return a port of the loopback interface on which nothing listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("switchback-*.whl"))


def make_environment(folder: Path, minor: str, wheel: Path) -> None:
    """Make a virtual environment with what the lock of one minor version of Airflow names, and the wheel."""
    uv = [str(Path(sys.executable).parent / "uv"), "--system-certs"]
    install = [*uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    for lock in ("requirements-build.txt", f"requirements-airflow-{minor}.txt"):
        command = [*install, "--require-hashes", "--no-build-isolation", "-r", str(ROOT / lock)]
        subprocess.run(command, check=True)
    # The lock has everything that the wheel needs: what it lacked would fail here.
    subprocess.run([*install, "--no-index", f"{wheel}[{EXTRAS}]"], check=True)


class WheelSite:
    """Airflow with the wheel, under one folder; its clusters are addresses at which nothing answers."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.bin, self.folder = environment / "bin", folder
        self.evidence, self.dags = folder / "evidence", folder / "dags"
        self.url = f"http://127.0.0.1:{free_port()}"
        self._passwords = {name: secrets.token_hex(16) for name in USERS}
        self._processes: list[subprocess.Popen[bytes]] = []
        # Bound and not listening: connections are refused, and no other process gets the port.
        self._nowhere = socket.socket()
        self._nowhere.bind(("127.0.0.1", 0))
        for private in (self.evidence, folder / "journal", folder / "home"):
            private.mkdir(mode=0o700, parents=True)
        (folder / "home" / "passwords.json").write_text(json.dumps(self._passwords))
        (folder / "home" / "airflow.cfg").touch()
        (folder / "topology.yaml").write_text(json.dumps(self._topology()))
        self.environment = self._environment()

    def _topology(self) -> dict[str, Any]:
        users = {"mirror_maker": ["User:mm2"], "orchestrator": ["User:orchestrator"], "exempt": ["User:admin"]}
        flows = [("primary", "standby"), ("standby", "primary")]
        return {
            "clusters": {
                alias: {"connection": f"kafka_{alias}", "principals": users} for alias in ("primary", "standby")
            },
            "naming": {"policy": "identity"},
            "flows": [
                {
                    "source": source,
                    "target": target,
                    "connect": f"connect_{target}",
                    "connectors": {kind: f"{source}-{kind}" for kind in ("source", "checkpoint")},
                }
                for source, target in flows
            ],
            "routing": {"kind": "file", "path": str(self.folder / "routing.json")},
            "journal": {"connection": "switchback_journal"},
            "airflow_api": {"connection": "airflow_api"},
            "spark": {"connection": "spark_default"},
            "evidence": str(self.evidence),
        }

    def _environment(self) -> dict[str, str]:
        nowhere = self._nowhere.getsockname()[1]
        connections: dict[str, dict[str, Any]] = {
            "switchback_journal": {"extra": {"url": f"sqlite:///{self.folder}/journal/journal.db"}},
            "airflow_api": {"conn_type": "http", "login": "viewer", "password": self._passwords["viewer"]},
            "spark_default": {"conn_type": "spark", "host": "local[1]"},
        }
        for alias in ("primary", "standby"):
            kafka = {"bootstrap.servers": f"127.0.0.1:{nowhere}", "sasl.username": ""}
            connections[f"kafka_{alias}"] = {"conn_type": "switchback_kafka", "extra": kafka}
            connections[f"connect_{alias}"] = {"conn_type": "switchback_http", "host": f"http://127.0.0.1:{nowhere}"}
        bundles = [
            {
                "name": "switchback",
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(self.dags)},
            }
        ]
        inherited = {name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME") if name in os.environ}
        return {
            **inherited,
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "TMPDIR": str(self.folder),
            "AIRFLOW_HOME": str(self.folder / "home"),
            "KAFKA_DR_TOPOLOGY": str(self.folder / "topology.yaml"),
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(content) for name, content in connections.items()},
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": self.url.rpartition(":")[2],
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__FERNET_KEY": Fernet.generate_key().decode(),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.folder / "home" / "passwords.json"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder}/home/airflow.db?timeout=60",
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        }

    def run(self, *command: str, code: int = 0) -> str:
        """Run a program of the environment; return its output, with errors if it was to fail with this exit code."""
        program = [str(self.bin / command[0]), *command[1:]]
        done = subprocess.run(
            program, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if code else "")

    def start(self) -> None:
        """Create Airflow's database, start its processes, and wait until all are healthy."""
        self.run("airflow", "db", "migrate")
        for part in PARTS:
            log = (self.folder / f"{part}.log").open("wb")
            options = ["--skip-serve-logs"] if part in ("scheduler", "triggerer") else []
            self._processes.append(
                subprocess.Popen(
                    [str(self.bin / "airflow"), part, *options],
                    env=self.environment,
                    cwd=self.folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        self.wait(self._is_healthy, "Airflow to be healthy")

    def stop(self) -> None:
        """End Airflow's processes."""
        self._nowhere.close()
        for process in self._processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _is_healthy(self) -> bool:
        try:
            health = self.session().get(f"{self.url}/api/v2/monitor/health", timeout=60).json()
        except requests.RequestException:
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def wait(self, ask: Callable[[], Seen], what: str) -> Seen:
        """Ask until the answer is true, and return it; fail if a process has ended, or after four minutes."""
        ends_at = time.monotonic() + WAIT_SECONDS
        while not (seen := ask()):
            ended = [part for part, process in zip(PARTS, self._processes, strict=True) if process.poll() is not None]
            assert not ended, f"{ended} ended: {(self.folder / f'{ended[0]}.log').read_text()[-3000:]}"
            assert time.monotonic() < ends_at, f"waited {WAIT_SECONDS:.0f} s for {what}; logs are in {self.folder}"
            time.sleep(1)
        return seen

    def session(self, user: str | None = None) -> requests.Session:
        """Return a session, logged in as a user."""
        session = requests.Session()
        session.trust_env = False
        if user:
            login = {"username": user, "password": self._passwords[user]}
            answer = session.post(f"{self.url}/auth/token", json=login, timeout=60)
            answer.raise_for_status()
            session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return session

    def get(self, path: str, user: str = "operator") -> dict[str, Any]:
        """Return what Airflow's API answers."""
        answer = self.session(user).get(f"{self.url}/api/v2{path}", timeout=60)
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> requests.Response:
        """Trigger a run as `operator`."""
        body = {"conf": dict(conf), "logical_date": None}
        return self.session("operator").post(f"{self.url}/api/v2/dags/{dag_id}/dagRuns", json=body, timeout=60)

    def ended(self, dag_id: str, run_id: str) -> str:
        """Wait until a run has ended; return its state."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}"

        def state() -> str:
            now: str = self.get(path)["state"]
            return now if now in ("success", "failed") else ""

        return self.wait(state, f"{dag_id} to end")
