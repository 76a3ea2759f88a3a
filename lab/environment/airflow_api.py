"""A small client of Airflow's REST API, as one of the lab's users."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import requests
from tenacity import retry, retry_if_exception, retry_if_exception_type, stop_after_attempt, wait_fixed

from lab.environment.airflow_settings import SQLITE_SECONDS
from lab.environment.state import Lab
from lab.errors import LabError

REQUEST_SECONDS = 30.0
#: Of what writes: the answer may come after all the time that the database lets a writer wait.
WRITE_SECONDS = SQLITE_SECONDS + REQUEST_SECONDS
LOOKS = 3
PAGE = 100

Json = dict[str, Any]


class RequestRefused(LabError):
    """Airflow answered something else than success; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        """Keep the status for those who can go on after it."""
        super().__init__(text)
        self.status = status


def _database_is_busy(error: BaseException) -> bool:
    return (
        isinstance(error, RequestRefused)
        and error.status == requests.codes.server_error
        and "Database error" in str(error)
    )


class AirflowClient:
    """Calls as one user; a refused token is renewed once."""

    def __init__(self, url: str, user: str, password: str) -> None:
        """Nothing is sent before the first call."""
        self._url, self._user, self._password = url, user, password
        self._session = requests.Session()
        self._session.trust_env = False

    @classmethod
    def of(cls, lab: Lab, user: str) -> AirflowClient:
        """The API of a lab, as one of its users.

        Raises:
            LabError: there is no Airflow, or no such user.
        """
        airflow = lab.status()["airflow"]
        if airflow is None:
            raise LabError(
                f"the lab under {lab.root} runs no Airflow; start it with: python -m lab up --state {lab.root}"
            )
        if user not in airflow["users"]:
            raise LabError(f"no user {user!r}; there are {', '.join(airflow['users'])}")
        return cls(airflow["url"], user, airflow["users"][user]["password"])

    def trigger(self, dag_id: str, conf: Json) -> str:
        """Start a run now; answers its id."""
        return self._start(
            dag_id, {"dag_run_id": f"manual__{datetime.now(UTC).isoformat()}", "logical_date": None, "conf": conf}
        )

    # Asked again under the same id, no run starts twice.
    @retry(
        retry=retry_if_exception_type(requests.Timeout), stop=stop_after_attempt(3), wait=wait_fixed(1), reraise=True
    )
    def _start(self, dag_id: str, body: Json) -> str:
        try:
            started = self._call("POST", f"/dags/{quote(dag_id)}/dagRuns", body)
        except RequestRefused as refusal:
            if refusal.status != requests.codes.conflict:
                raise
            started = self.run(dag_id, body["dag_run_id"])
        return str(started["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> Json:
        """One run."""
        return self._call("GET", _run_path(dag_id, run_id))

    def tasks(self, dag_id: str, run_id: str) -> list[Json]:
        """The task instances of a run."""
        return self._all(f"{_run_path(dag_id, run_id)}/taskInstances", "task_instances")

    def open_gates(self, dag_id: str, run_id: str) -> list[Json]:
        """The gates of a run that wait for an answer."""
        return self._all(
            f"{_run_path(dag_id, run_id)}/hitlDetails",
            "hitl_details",
            {"response_received": "false", "state": "awaiting_input"},
        )

    def answer(self, dag_id: str, run_id: str, task: Json, option: str, values: Json) -> Json:
        """Answer a gate with one option and the values of its form."""
        index = task["map_index"] if task.get("map_index") is not None else -1
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task['task_id'])}/{index}/hitlDetails"
        return self._call("PATCH", path, {"chosen_options": [option], "params_input": values})

    def dag_ids(self) -> set[str]:
        """Every DAG that is known."""
        return {dag["dag_id"] for dag in self._all("/dags", "dags")}

    def dag_files(self) -> set[tuple[str, str]]:
        """Bundle and file of every DAG that is known."""
        return {(dag["bundle_name"], dag["relative_fileloc"]) for dag in self._all("/dags", "dags")}

    def import_errors(self) -> dict[str, str]:
        """Last line of the error of each DAG file that cannot be imported."""
        found = self._all("/importErrors", "import_errors")
        return {error["filename"]: error["stack_trace"].strip().splitlines()[-1] for error in found}

    def _all(self, path: str, key: str, query: Json | None = None) -> list[Json]:
        rows: list[Json] = []
        while True:
            page = self._call("GET", path, query=(query or {}) | {"limit": PAGE, "offset": len(rows)})
            rows += page[key]
            if not page[key] or len(rows) >= page["total_entries"]:
                return rows

    # SQLite has one writer. A write may take effect although its answer is this error: a repeated one then conflicts.
    @retry(retry=retry_if_exception(_database_is_busy), stop=stop_after_attempt(3), wait=wait_fixed(1), reraise=True)
    def _call(self, method: str, path: str, body: Json | None = None, query: Json | None = None) -> Json:
        answer = self._send(method, path, body, query)
        if answer.status_code == requests.codes.unauthorized:
            self._login()
            answer = self._send(method, path, body, query)
        if not answer.ok:
            text = f"Airflow refused {method} {path} as {self._user}: {answer.status_code} {_detail(answer)}"
            raise RequestRefused(text, answer.status_code)
        document: Json = answer.json()
        return document

    def _send(self, method: str, path: str, body: Json | None, query: Json | None) -> requests.Response:
        # A look may be repeated: on a busy machine the answer may take longer, and who follows a run must not lose it.
        attempts = LOOKS if method == "GET" else 1
        return self._sent.retry_with(stop=stop_after_attempt(attempts))(self, method, path, body, query)

    @retry(retry=retry_if_exception_type(requests.Timeout), wait=wait_fixed(1), reraise=True)
    def _sent(self, method: str, path: str, body: Json | None, query: Json | None) -> requests.Response:
        return self._session.request(
            method,
            f"{self._url}/api/v2{path}",
            json=body,
            params=query,
            timeout=REQUEST_SECONDS if method == "GET" else WRITE_SECONDS,
        )

    def _login(self) -> None:
        login = {"username": self._user, "password": self._password}
        answer = self._session.post(f"{self._url}/auth/token", json=login, timeout=REQUEST_SECONDS)
        if not answer.ok:
            raise LabError(f"Airflow gives {self._user} no token: {answer.status_code}")
        self._session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _detail(answer: requests.Response) -> str:
    try:
        return str(answer.json().get("detail", ""))
    except (ValueError, AttributeError):
        return answer.text[:200]
