"""Reads Airflow's REST API under Switchback's account: runs and their starters, gates and their answers, tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import HttpAnswer, JsonEndpoint

_PAGE = 100
#: Ways to trigger a run for which Airflow authenticates the user; Airflow's command line takes any name from the
#: environment.
_AUTHENTICATED_TRIGGERS = ("rest_api", "ui")


@dataclass(frozen=True)
class DagRun:
    """A DAG run, as Airflow's API reports it; `state` is Airflow's name of the state, `conf` the run's params.

    Attributes:
        triggering_user_name: user who started the run; None if unknown, or if Airflow did not authenticate the user.
    """

    dag_id: str
    run_id: str
    state: str
    triggering_user_name: str | None
    conf: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HitlAnswer:
    """One gate's question and answer; until a person answers, the answer's fields are None or empty.

    Attributes:
        responded_by_id: id of the person who answered: the user name under the simple auth manager, a number under FAB.
        responded_by_name: user name of the person who answered, under both auth managers.
        responded_at: time of the answer; also set if the gate expired and took its defaults, with no person's answer.
        read_at: when Airflow's API sent this record, by the same clock as `responded_at`; None if the API sent no time.
    """

    subject: str
    body: str
    options: tuple[str, ...]
    chosen_options: tuple[str, ...]
    responded_by_id: str | None
    responded_by_name: str | None
    responded_at: datetime | None
    params_input: dict[str, Any]
    created_at: datetime | None
    read_at: datetime | None = None

    @property
    def digest(self) -> str:
        """Return the digest that an answer approves: the last word of `subject`, the title of the gate's question."""
        return self.subject.rpartition(" ")[2]


@dataclass(frozen=True)
class TaskInstance:
    """One task of a run, or one try of a task; `state` is None before the task is scheduled."""

    task_id: str
    state: str | None
    map_index: int
    try_number: int
    start_date: datetime | None
    end_date: datetime | None


class AirflowApi:
    """Reads runs, gates and tasks. A token is reused until Airflow refuses it; the password is never shown.

    If the connection has a bearer token of its own, no token is asked for, and the password is not used.

    Attributes:
        username: Switchback's own account.
    """

    def __init__(self, base_url: str, username: str, password: str, tls: HttpTls | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "Airflow's API", HookUnavailable, tls=tls)
        self.username = username
        self._password = password
        self._token: str | None = None
        self._has_own_token = tls is not None and tls.has_token

    def __repr__(self) -> str:
        return f"AirflowApi({self._endpoint.base_url!r}, username={self.username!r})"

    def dag_run(self, dag_id: str, run_id: str, timeout: float = 10.0) -> DagRun:
        """Return one run; raise HookUnavailable if Airflow has no such run."""
        run = self._require_object(self._get(_run_path(dag_id, run_id), timeout), "a run")
        starter = run.get("triggering_user_name") if run.get("triggered_by") in _AUTHENTICATED_TRIGGERS else None
        return DagRun(dag_id, run_id, str(run.get("state")), starter, run.get("conf") or {})

    def hitl(self, dag_id: str, run_id: str, task_id: str, timeout: float = 10.0) -> HitlAnswer | None:
        """Return a gate's question and answer; None if the run has not reached the gate `task_id`."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id, safe='')}/-1/hitlDetails"
        answer = self._attempt(path, timeout)
        if answer.status == 404:
            return None
        details = self._require_object(self._endpoint.accept(answer, f"GET {path}"), "a gate")
        return replace(self._gate(details), read_at=answer.date)

    def task_instances(self, dag_id: str, run_id: str, timeout: float = 10.0) -> list[TaskInstance]:
        """Return all tasks of a run, in Airflow's order; the API is read page by page."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances"
        tasks: list[TaskInstance] = []
        while True:
            page = self._require_object(self._get(f"{path}?limit={_PAGE}&offset={len(tasks)}", timeout), "tasks")
            rows = page.get("task_instances") or []
            tasks += [self._task(row) for row in rows]
            if not rows or len(tasks) >= page.get("total_entries", 0):
                return tasks

    def tries(self, dag_id: str, run_id: str, task_id: str, timeout: float = 10.0) -> list[TaskInstance]:
        """Return every try of a task, oldest first; [] for a task that Airflow does not have."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id, safe='')}/tries"
        answer = self._attempt(path, timeout)
        if answer.status == 404:
            return []
        document = self._require_object(self._endpoint.accept(answer, f"GET {path}"), "tries")
        return sorted(
            (self._task(row) for row in document.get("task_instances") or []), key=lambda task: task.try_number
        )

    def roles_of(self, name: str, timeout: float = 10.0) -> frozenset[str]:
        """Return the roles of a user of Airflow's FAB auth manager; an empty set if this Airflow has no such user.

        Raises:
            HookUnavailable: Airflow did not answer, or Switchback's account has no right to read users.
        """
        path = f"/auth/fab/v1/users/{quote(name, safe='')}"
        answer = self._attempt(path, timeout)
        if answer.status == 404:
            return frozenset()
        user = self._require_object(self._endpoint.accept(answer, f"GET {path}"), "a user")
        return frozenset(str(role.get("name")) for role in user.get("roles") or [])

    def _get(self, path: str, timeout: float) -> Any:
        return self._endpoint.accept(self._attempt(path, timeout), f"GET {path.partition('?')[0]}")

    def _attempt(self, path: str, timeout: float) -> HttpAnswer:
        """Send a GET; if Airflow refuses the token with a 401, log in and send the GET once more."""
        answer = self._get_with_token(path, timeout)
        if answer.status == 401 and not self._has_own_token:
            self._token = None
            answer = self._get_with_token(path, timeout)
        return answer

    def _get_with_token(self, path: str, timeout: float) -> HttpAnswer:
        if self._has_own_token:
            return self._endpoint.attempt("GET", path, timeout=timeout)
        if self._token is None:
            self._token = self._new_token(timeout)
            self._endpoint.hide(self._token)
        return self._endpoint.attempt("GET", path, timeout=timeout, headers={"Authorization": f"Bearer {self._token}"})

    def _new_token(self, timeout: float) -> str:
        login = {"username": self.username, "password": self._password}
        answer = self._endpoint.attempt("POST", "/auth/token", login, timeout)
        if not answer.ok or not isinstance(answer.body, dict) or not answer.body.get("access_token"):
            # The body of a refused login may repeat the credentials (422 does), so no error shows the body.
            seen = f"HTTP {answer.status}" if answer.status else answer.text
            raise self._endpoint.failure(
                f"Airflow's API issued no token to user {self.username!r}",
                seen,
                "log in to Airflow with user and password of the Airflow connection that `airflow_api` in the topology"
                " names, and correct the connection if Airflow refuses the login",
            )
        return str(answer.body["access_token"])

    def _require_object(self, document: Any, what: str) -> dict[str, Any]:
        if not isinstance(document, dict):
            raise self._endpoint.failure(
                f"the answer of Airflow's API is not the JSON object of {what}",
                document,
                "make sure that the Airflow connection under `airflow_api` in the topology names the address of"
                " Airflow's API server, and that this Airflow has the version in requirements.txt",
            )
        return document

    def _gate(self, details: dict[str, Any]) -> HitlAnswer:
        responder = details.get("responded_by_user") or details.get("responded_by") or {}
        return HitlAnswer(
            subject=str(details.get("subject") or ""),
            body=str(details.get("body") or ""),
            options=tuple(details.get("options") or ()),
            chosen_options=tuple(details.get("chosen_options") or ()),
            responded_by_id=responder.get("id"),
            responded_by_name=responder.get("name"),
            responded_at=self._time(details.get("responded_at")),
            params_input=details.get("params_input") or {},
            created_at=self._time(details.get("created_at")),
        )

    def _task(self, row: dict[str, Any]) -> TaskInstance:
        return TaskInstance(
            task_id=str(row.get("task_id")),
            state=row.get("state"),
            map_index=int(row.get("map_index", -1)),
            try_number=int(row.get("try_number") or 0),
            start_date=self._time(row.get("start_date")),
            end_date=self._time(row.get("end_date")),
        )

    def _time(self, text: str | None) -> datetime | None:
        try:
            return None if text is None else datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise self._endpoint.failure(
                "Airflow's API answered with a time that cannot be read",
                text,
                "make sure that the Airflow connection under `airflow_api` in the topology names the address of"
                " Airflow's API server, and that this Airflow has the version in requirements.txt",
            ) from None


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns/{quote(run_id, safe='')}"
