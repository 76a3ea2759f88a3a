"""Airflow's API server alone, with Switchback's page and DAGs, and real logins of one auth manager."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.support.notices.servers import free_port

ROOT = Path(__file__).parents[3]
SIMPLE, FAB = "simple", "fab"
_FAB_MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
SIMPLE_ROLES = ("viewer", "user", "op", "admin")
_START_SECONDS = 400.0


class RolesServer:
    """A running API server, and sessions of people who have logged in.

    Attributes:
        token: by which the metrics are scraped.
    """

    def __init__(self, folder: Path, kind: str, topology: Path, journal_url: str) -> None:
        self._folder, self.kind, self.port = folder, kind, free_port()
        self._password, self.token = secrets.token_hex(12), secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{self.port}"
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps(dict.fromkeys(SIMPLE_ROLES, self._password)))
        manager = {"AIRFLOW__CORE__AUTH_MANAGER": _FAB_MANAGER} if kind == FAB else {}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        self._environment = {
            **inherited,
            **manager,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{name}" for name in SIMPLE_ROLES),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db?timeout=60",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__BASE_URL": self.url,
            "KAFKA_DR_TOPOLOGY": str(topology),
            "AIRFLOW_CONN_JOURNAL": json.dumps({"conn_type": "generic", "extra": {"url": journal_url}}),
            "AIRFLOW_CONN_SCRAPE": json.dumps({"conn_type": "generic", "password": self.token}),
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "plugins", ROOT / "spark", ROOT))),
        }

    def prepare(self) -> None:
        """Make Airflow's database, its DAGs, and for FAB the people."""
        self._run("-m", "airflow", "db", "migrate")
        self._run("-m", "airflow", "dags", "reserialize")
        if self.kind == FAB:
            self._run("-m", "tests.support.page.fab_people", self._password)

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [sys.executable, *command], check=False, capture_output=True, text=True, env=self._environment, cwd=ROOT
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]} {done.stderr[-3000:]}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the server during the block."""
        command = [sys.executable, "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(self.port)]
        with (self._folder / "api-server.log").open("w") as log:
            server = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment, cwd=ROOT, start_new_session=True
            )
        try:
            self._await(server)
            yield
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def _await(self, server: subprocess.Popen[bytes]) -> None:
        ends = time.monotonic() + _START_SECONDS
        while time.monotonic() < ends:
            assert server.poll() is None, (self._folder / "api-server.log").read_text()[-3000:]
            try:
                requests.get(f"{self.url}/api/v2/version", timeout=20)
            except requests.RequestException:
                time.sleep(0.5)
            else:
                return
        raise AssertionError((self._folder / "api-server.log").read_text()[-3000:])

    def login(self, name: str) -> requests.Session:
        """Return a session of a person, who logs in with name and password."""
        answer = requests.post(
            f"{self.url}/auth/token", json={"username": name, "password": self._password}, timeout=120
        )
        assert answer.status_code == 201, (name, answer.status_code, answer.text[:300])
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return session

    def codes(self, session: requests.Session, requests_made: Sequence[tuple[str, str, object]]) -> list[int]:
        """Return the status of each request: method, path, JSON body."""
        return [
            session.request(method, f"{self.url}{path}", json=body, timeout=120, allow_redirects=False).status_code
            for method, path, body in requests_made
        ]
