"""Send requests to the REST API of the lab's Airflow as one of the lab's users."""

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
#: Timeout of writing requests, in seconds: such a request may wait for SQLite's only writer.
WRITE_SECONDS = SQLITE_SECONDS + REQUEST_SECONDS
LOOKS = 3
PAGE = 100

Json = dict[str, Any]


class RequestRefused(LabError):
    """Raised when Airflow answered a request with an error; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        """Store the error's text and the HTTP status; callers handle some statuses, such as 409, themselves."""
        super().__init__(text)
        self.status = status


def _database_is_busy(error: BaseException) -> bool:
    return (
        isinstance(error, RequestRefused)
        and error.status == requests.codes.server_error
        and "Database error" in str(error)
    )


class AirflowClient:
    """Sends requests as one user; after an answer 401 the client logs in and repeats the request once."""

    def __init__(self, url: str, user: str, password: str) -> None:
        """Store address and login; nothing is sent before the first request."""
        self._url, self._user, self._password = url, user, password
        self._session = requests.Session()
        self._session.trust_env = False

    @classmethod
    def of(cls, lab: Lab, user: str) -> AirflowClient:
        """Return a client of a lab's API, as one of the lab's users.

        Raises:
            LabError: the lab has no Airflow, or no such user.
        """
        airflow = lab.status()["airflow"]
        if airflow is None:
            raise LabError(
                f"the lab under {lab.root} runs no Airflow; start it with: python -m lab up --state {lab.root}"
            )
        if user not in airflow["users"]:
            raise LabError(f"the lab's Airflow has no user {user!r}; use one of: {', '.join(airflow['users'])}")
        return cls(airflow["url"], user, airflow["users"][user]["password"])

    def trigger(self, dag_id: str, conf: Json) -> str:
        """Start a run of a DAG with the params `conf`; return the run's id, and do not wait for the run."""
        return self._start(
            dag_id, {"dag_run_id": f"manual__{datetime.now(UTC).isoformat()}", "logical_date": None, "conf": conf}
        )

    # Safe to retry: a second request with the same run id starts no second run.
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
        """Return one run of a DAG as the API's JSON object, with `state`."""
        return self._call("GET", _run_path(dag_id, run_id))

    def tasks(self, dag_id: str, run_id: str) -> list[Json]:
        """Return all task instances of a run as the API's JSON objects."""
        return self._all(f"{_run_path(dag_id, run_id)}/taskInstances", "task_instances")

    def open_gates(self, dag_id: str, run_id: str) -> list[Json]:
        """Return the gates of a run that wait for an answer now, as the API's `hitlDetails` objects."""
        return self._all(
            f"{_run_path(dag_id, run_id)}/hitlDetails",
            "hitl_details",
            {"response_received": "false", "state": "awaiting_input"},
        )

    def answer(self, dag_id: str, run_id: str, task: Json, option: str, values: Json) -> Json:
        """Answer a gate with one of its options and values for its form; return the answer as Airflow stored it.

        Args:
            dag_id: the DAG's id.
            run_id: the run's id.
            task: the gate's task instance, as in `open_gates`.
            option: one of the gate's options.
            values: values of the gate's form, by field.
        """
        index = task["map_index"] if task.get("map_index") is not None else -1
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task['task_id'])}/{index}/hitlDetails"
        return self._call("PATCH", path, {"chosen_options": [option], "params_input": values})

    def dag_ids(self) -> set[str]:
        """Return the ids of all DAGs that Airflow has parsed."""
        return {dag["dag_id"] for dag in self._all("/dags", "dags")}

    def dag_files(self) -> set[tuple[str, str]]:
        """Return (DAG bundle, path in the bundle) of every DAG that Airflow has parsed."""
        return {(dag["bundle_name"], dag["relative_fileloc"]) for dag in self._all("/dags", "dags")}

    def import_errors(self) -> dict[str, str]:
        """Return, by file, the last line of the error of each DAG file that cannot be imported."""
        errors = self._all("/importErrors", "import_errors")
        return {error["filename"]: error["stack_trace"].strip().splitlines()[-1] for error in errors}

    def _all(self, path: str, key: str, query: Json | None = None) -> list[Json]:
        rows: list[Json] = []
        while True:
            page = self._call("GET", path, query=(query or {}) | {"limit": PAGE, "offset": len(rows)})
            rows += page[key]
            if not page[key] or len(rows) >= page["total_entries"]:
                return rows

    # SQLite has one writer at a time. A write that is answered with this error may have been done: a retry gets a 409.
    @retry(retry=retry_if_exception(_database_is_busy), stop=stop_after_attempt(3), wait=wait_fixed(1), reraise=True)
    def _call(self, method: str, path: str, body: Json | None = None, query: Json | None = None) -> Json:
        answer = self._send(method, path, body, query)
        if answer.status_code == requests.codes.unauthorized:
            self._login()
            answer = self._send(method, path, body, query)
        if not answer.ok:
            text = f"Airflow refused {method} {path} of user {self._user}: {answer.status_code} {_detail(answer)}"
            raise RequestRefused(text, answer.status_code)
        document: Json = answer.json()
        return document

    def _send(self, method: str, path: str, body: Json | None, query: Json | None) -> requests.Response:
        # Reads are retried: on a busy machine an answer may come late, which must not end `run_dag`.
        attempts = LOOKS if method == "GET" else 1
        return self._send_once.retry_with(stop=stop_after_attempt(attempts))(self, method, path, body, query)

    @retry(retry=retry_if_exception_type(requests.Timeout), wait=wait_fixed(1), reraise=True)
    def _send_once(self, method: str, path: str, body: Json | None, query: Json | None) -> requests.Response:
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
            raise LabError(
                f"Airflow issued no token to user {self._user}, but answered {answer.status_code}; read the log of"
                " Airflow's API server. 401 means that Airflow has another password for this user than the lab's"
                " record, which `python -m lab status` prints"
            )
        self._session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _detail(answer: requests.Response) -> str:
    try:
        return str(answer.json().get("detail", ""))
    except (ValueError, AttributeError):
        return answer.text[:200]
