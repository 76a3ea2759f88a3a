"""Send requests to the API of the lab's Airflow as one of the lab's users, through Airflow's official client."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from airflow_client.client import (
    ApiClient,
    Configuration,
    DAGApi,
    DagRunApi,
    ImportErrorApi,
    TaskInstanceApi,
    TriggerDAGRunPostBody,
    UpdateHITLDetailPayload,
)
from tenacity import retry, retry_if_exception, retry_if_exception_type, stop_after_attempt, wait_fixed
from urllib3 import HTTPResponse
from urllib3.exceptions import TimeoutError as RequestTimeout

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
        and error.status == HTTPStatus.INTERNAL_SERVER_ERROR
        and "Database error" in str(error)
    )


class AirflowClient:
    """Sends requests as one user; after an answer 401 the client logs in and repeats the request once."""

    def __init__(self, url: str, user: str, password: str) -> None:
        """Store address and login; nothing is sent before the first request."""
        self._user, self._password = user, password
        # This class repeats what may be repeated. An empty proxy: the environment's is not read.
        self._client = ApiClient(Configuration(host=url, retries=False, proxy="", no_proxy=""))
        self._runs, self._tasks = DagRunApi(self._client), TaskInstanceApi(self._client)

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
        run_id = f"manual__{datetime.now(UTC).isoformat()}"
        return self._start(dag_id, TriggerDAGRunPostBody(dag_run_id=run_id, logical_date=None, conf=conf))

    # Safe to retry: a second request with the same run id starts no second run.
    @retry(retry=retry_if_exception_type(RequestTimeout), stop=stop_after_attempt(3), wait=wait_fixed(1), reraise=True)
    def _start(self, dag_id: str, body: TriggerDAGRunPostBody) -> str:
        try:
            started = self._call(self._runs.trigger_dag_run_without_preload_content, dag_id, body)
        except RequestRefused as refusal:
            if refusal.status != HTTPStatus.CONFLICT:
                raise
            started = self.run(dag_id, str(body.dag_run_id))
        return str(started["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> Json:
        """Return one run of a DAG as the API's JSON object, with `state`."""
        return self._call(self._runs.get_dag_run_without_preload_content, dag_id, run_id)

    def tasks(self, dag_id: str, run_id: str) -> list[Json]:
        """Return all task instances of a run as the API's JSON objects."""
        return self._all("task_instances", self._tasks.get_task_instances_without_preload_content, dag_id, run_id)

    def open_gates(self, dag_id: str, run_id: str) -> list[Json]:
        """Return the gates of a run that wait for an answer now, as the API's `hitlDetails` objects."""
        call = self._tasks.get_hitl_details_without_preload_content
        return self._all("hitl_details", call, dag_id, run_id, response_received=False, state=["awaiting_input"])

    def gates(self, dag_id: str) -> list[Json]:
        """Return all gates of all runs of a DAG, answered ones included, as the API's `hitlDetails` objects."""
        return self._all("hitl_details", self._tasks.get_hitl_details_without_preload_content, dag_id, "~")

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
        call = self._tasks.update_hitl_detail_without_preload_content
        body = UpdateHITLDetailPayload(chosen_options=[option], params_input=values)
        return self._call(call, dag_id, run_id, task["task_id"], index, body)

    def dag_ids(self) -> set[str]:
        """Return the ids of all DAGs that Airflow has parsed."""
        return {dag["dag_id"] for dag in self._dags()}

    def dag_files(self) -> set[tuple[str, str]]:
        """Return (DAG bundle, path in the bundle) of every DAG that Airflow has parsed."""
        return {(dag["bundle_name"], dag["relative_fileloc"]) for dag in self._dags()}

    def import_errors(self) -> dict[str, str]:
        """Return, by file, the last line of the error of each DAG file that cannot be imported."""
        errors = self._all("import_errors", ImportErrorApi(self._client).get_import_errors_without_preload_content)
        return {error["filename"]: error["stack_trace"].strip().splitlines()[-1] for error in errors}

    def _dags(self) -> list[Json]:
        return self._all("dags", DAGApi(self._client).get_dags_without_preload_content)

    def _all(self, key: str, call: Callable[..., Any], *given: Any, **query: Any) -> list[Json]:
        rows: list[Json] = []
        while True:
            page = self._call(call, *given, **query, limit=PAGE, offset=len(rows))
            rows += page[key]
            if not page[key] or len(rows) >= page["total_entries"]:
                return rows

    # SQLite has one writer at a time. A write that is answered with this error may have been done: a retry gets a 409.
    @retry(retry=retry_if_exception(_database_is_busy), stop=stop_after_attempt(3), wait=wait_fixed(1), reraise=True)
    def _call(self, call: Callable[..., Any], *given: Any, **query: Any) -> Json:
        """Send one call of the official client, whose name ends in `_without_preload_content`; return its JSON.

        The models of the client are not used: they refuse answers of another Airflow version.
        """
        answer = self._send(call, *given, **query)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._login()
            answer = self._send(call, *given, **query)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            name = call.__name__.removesuffix("_without_preload_content")
            text = f"Airflow refused {name} of user {self._user}: {answer.status} {_detail(answer)}"
            raise RequestRefused(text, answer.status)
        document: Json = answer.json()
        return document

    def _send(self, call: Callable[..., Any], *given: Any, **query: Any) -> HTTPResponse:
        # Reads are retried: on a busy machine an answer may come late, which must not end `run_dag`.
        is_read = call.__name__.startswith("get_")
        attempts, seconds = (LOOKS, REQUEST_SECONDS) if is_read else (1, WRITE_SECONDS)
        send_once = self._send_once.retry_with(stop=stop_after_attempt(attempts))
        answer: HTTPResponse = send_once(self, call, *given, **query, _request_timeout=seconds)
        return answer

    @retry(retry=retry_if_exception_type(RequestTimeout), wait=wait_fixed(1), reraise=True)
    def _send_once(self, call: Callable[..., Any], *given: Any, **options: Any) -> HTTPResponse:
        answer: HTTPResponse = call(*given, **options)
        # The body is read here, within the retries.
        _ = answer.data
        return answer

    def _login(self) -> None:
        login = {"username": self._user, "password": self._password}
        request = self._client.param_serialize(
            "POST", "/auth/token", header_params={"Content-Type": "application/json"}, body=login
        )
        answer = self._client.call_api(*request, _request_timeout=REQUEST_SECONDS).response
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise LabError(
                f"Airflow issued no token to user {self._user}, but answered {answer.status}; read the log of"
                " Airflow's API server. 401 means that Airflow has another password for this user than the lab's"
                " record, which `python -m lab status` prints"
            )
        self._client.configuration.access_token = str(answer.json()["access_token"])


def _detail(answer: HTTPResponse) -> str:
    try:
        return str(answer.json().get("detail", ""))
    except (ValueError, AttributeError):
        return answer.data.decode("utf-8", "replace")[:200]
