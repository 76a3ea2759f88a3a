"""Airflow's own REST API, read with an account of our own: who started a run, who answered a gate, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.endpoint import HttpAnswer, JsonEndpoint

_PAGE = 100
#: Airflow checked who it was before it took the name; its command line takes any name from the environment.
_KNOWN_BY_LOGIN = ("rest_api", "ui")


@dataclass(frozen=True)
class DagRun:
    """A DAG run and who triggered it; None where Airflow does not know, or knows only a name without a login."""

    dag_id: str
    run_id: str
    state: str
    triggering_user_name: str | None
    conf: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HitlAnswer:
    """One gate as Airflow keeps it; the fields of the response are None or empty while nobody has answered.

    Attributes:
        responded_by_id: user name under the simple auth manager, a number under FAB.
        responded_by_name: the user name under both.
        responded_at: set also when the gate expired with defaults; then nobody responded.
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

    @property
    def digest(self) -> str:
        """The digest that the question asked about: the last word of its subject."""
        return self.subject.rpartition(" ")[2]


@dataclass(frozen=True)
class TaskInstance:
    """One task of a run as Airflow shows it; `state` is None before it is scheduled."""

    task_id: str
    state: str | None
    map_index: int
    try_number: int
    start_date: datetime | None
    end_date: datetime | None


class AirflowApi:
    """Reads runs, gates and tasks. The token is kept and renewed when it is refused; the password is never shown."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self._endpoint = JsonEndpoint(base_url, "Airflow's API", HookUnavailable)
        self._username = username
        self._password = password
        self._token: str | None = None

    def __repr__(self) -> str:
        return f"AirflowApi({self._endpoint.base_url!r}, username={self._username!r})"

    def dag_run(self, dag_id: str, run_id: str, timeout: float = 10.0) -> DagRun:
        """One run; HookUnavailable when there is none."""
        found = self._object(self._get(_run_path(dag_id, run_id), timeout), "a run")
        starter = found.get("triggering_user_name") if found.get("triggered_by") in _KNOWN_BY_LOGIN else None
        return DagRun(dag_id, run_id, str(found.get("state")), starter, found.get("conf") or {})

    def hitl(self, dag_id: str, run_id: str, task_id: str, timeout: float = 10.0) -> HitlAnswer | None:
        """One gate of a run with its answer; None when the gate was never reached."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id, safe='')}/-1/hitlDetails"
        answer = self._attempt(path, timeout)
        if answer.status == 404:
            return None
        return self._gate(self._object(self._endpoint.accept(answer, f"GET {path}"), "a gate"))

    def task_instances(self, dag_id: str, run_id: str, timeout: float = 10.0) -> list[TaskInstance]:
        """All tasks of a run, page by page, in Airflow's order."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances"
        found: list[TaskInstance] = []
        while True:
            page = self._object(self._get(f"{path}?limit={_PAGE}&offset={len(found)}", timeout), "tasks")
            rows = page.get("task_instances") or []
            found += [self._task(row) for row in rows]
            if not rows or len(found) >= page.get("total_entries", 0):
                return found

    def tries(self, dag_id: str, run_id: str, task_id: str, timeout: float = 10.0) -> list[TaskInstance]:
        """Every try of a task, in order; none of a task that Airflow does not know."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id, safe='')}/tries"
        answer = self._attempt(path, timeout)
        if answer.status == 404:
            return []
        found = self._object(self._endpoint.accept(answer, f"GET {path}"), "tries")
        return sorted((self._task(row) for row in found.get("task_instances") or []), key=lambda one: one.try_number)

    def _get(self, path: str, timeout: float) -> Any:
        return self._endpoint.accept(self._attempt(path, timeout), f"GET {path.partition('?')[0]}")

    def _attempt(self, path: str, timeout: float) -> HttpAnswer:
        """One GET; a refused token is renewed once, because tokens expire while a procedure waits for people."""
        answer = self._with_token(path, timeout)
        if answer.status == 401:
            self._token = None
            answer = self._with_token(path, timeout)
        return answer

    def _with_token(self, path: str, timeout: float) -> HttpAnswer:
        if self._token is None:
            self._token = self._new_token(timeout)
            self._endpoint.hide(self._token)
        return self._endpoint.attempt("GET", path, timeout=timeout, headers={"Authorization": f"Bearer {self._token}"})

    def _new_token(self, timeout: float) -> str:
        login = {"username": self._username, "password": self._password}
        answer = self._endpoint.attempt("POST", "/auth/token", login, timeout)
        if not answer.ok or not isinstance(answer.body, dict) or not answer.body.get("access_token"):
            # The body of a refused login may repeat what was sent (422 does): it is not shown.
            seen = f"HTTP {answer.status}" if answer.status else answer.text
            raise self._endpoint.failure(f"Airflow gives user {self._username!r} no token", seen)
        return str(answer.body["access_token"])

    def _object(self, document: Any, what: str) -> dict[str, Any]:
        if not isinstance(document, dict):
            raise self._endpoint.failure(f"Airflow's API answered something that is not {what}", document)
        return document

    def _gate(self, found: dict[str, Any]) -> HitlAnswer:
        responder = found.get("responded_by_user") or found.get("responded_by") or {}
        return HitlAnswer(
            subject=str(found.get("subject") or ""),
            body=str(found.get("body") or ""),
            options=tuple(found.get("options") or ()),
            chosen_options=tuple(found.get("chosen_options") or ()),
            responded_by_id=responder.get("id"),
            responded_by_name=responder.get("name"),
            responded_at=self._time(found.get("responded_at")),
            params_input=found.get("params_input") or {},
            created_at=self._time(found.get("created_at")),
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
            raise self._endpoint.failure("Airflow's API answered with a time that cannot be read", text) from None


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns/{quote(run_id, safe='')}"
