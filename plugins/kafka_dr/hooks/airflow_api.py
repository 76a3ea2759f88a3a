"""Reads Airflow's REST API under Switchback's account: runs and their starters, gates and their answers, tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kafka_dr.hooks.airflow_calls import AirflowCalls, ApiReply
from kafka_dr.hooks.http_tls import HttpTls

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
    """Reads runs, gates and tasks as one user, whose password is never shown.

    Attributes:
        username: Switchback's own account.
    """

    def __init__(self, base_url: str, username: str, password: str, tls: HttpTls | None = None) -> None:
        self._calls = AirflowCalls(base_url, "Airflow's API", (username, password), tls)
        self.username = username

    def __repr__(self) -> str:
        return f"AirflowApi({self._calls.endpoint.base_url!r}, username={self.username!r})"

    def dag_run(self, dag_id: str, run_id: str, timeout: float = 10.0) -> DagRun:
        """Return one run; raise HookUnavailable if Airflow has no such run."""
        call = self._calls.runs.get_dag_run_without_preload_content
        run = self._accept(self._calls.send(call, dag_id, run_id, timeout=timeout), "a run")
        starter = run.get("triggering_user_name") if run.get("triggered_by") in _AUTHENTICATED_TRIGGERS else None
        return DagRun(dag_id, run_id, str(run.get("state")), starter, run.get("conf") or {})

    def hitl(self, dag_id: str, run_id: str, task_id: str, timeout: float = 10.0) -> HitlAnswer | None:
        """Return a gate's question and answer; None if the run has not reached the gate `task_id`."""
        call = self._calls.tasks.get_hitl_detail_without_preload_content
        reply = self._calls.send(call, dag_id, run_id, task_id, -1, timeout=timeout)
        if reply.answer.status == 404:
            return None
        return replace(self._gate(self._accept(reply, "a gate")), read_at=reply.answer.date)

    def task_instances(self, dag_id: str, run_id: str, timeout: float = 10.0) -> list[TaskInstance]:
        """Return all tasks of a run, in Airflow's order; the API is read page by page."""
        call = self._calls.tasks.get_task_instances_without_preload_content
        tasks: list[TaskInstance] = []
        while True:
            reply = self._calls.send(call, dag_id, run_id, limit=_PAGE, offset=len(tasks), timeout=timeout)
            page = self._accept(reply, "tasks")
            rows = page.get("task_instances") or []
            tasks += [self._task(row) for row in rows]
            if not rows or len(tasks) >= page.get("total_entries", 0):
                return tasks

    def tries(self, dag_id: str, run_id: str, task_id: str, timeout: float = 10.0) -> list[TaskInstance]:
        """Return every try of a task, oldest first; [] for a task that Airflow does not have."""
        call = self._calls.tasks.get_task_instance_tries_without_preload_content
        reply = self._calls.send(call, dag_id, run_id, task_id, timeout=timeout)
        if reply.answer.status == 404:
            return []
        rows = self._accept(reply, "tries").get("task_instances") or []
        return sorted((self._task(row) for row in rows), key=lambda task: task.try_number)

    def roles_of(self, name: str, timeout: float = 10.0) -> frozenset[str]:
        """Return the roles of a user of Airflow's FAB auth manager; an empty set if this Airflow has no such user.

        Raises:
            HookUnavailable: Airflow did not answer, or Switchback's account has no right to read users.
        """
        reply = self._calls.send(self._calls.get, "/auth/fab/v1/users/{name}", name=name, timeout=timeout)
        if reply.answer.status == 404:
            return frozenset()
        return frozenset(str(role.get("name")) for role in self._accept(reply, "a user").get("roles") or [])

    def _accept(self, reply: ApiReply, what: str) -> dict[str, Any]:
        document = self._calls.accept(reply)
        if not isinstance(document, dict):
            raise self._calls.endpoint.failure(
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
            raise self._calls.endpoint.failure(
                "Airflow's API answered with a time that cannot be read",
                text,
                "make sure that the Airflow connection under `airflow_api` in the topology names the address of"
                " Airflow's API server, and that this Airflow has the version in requirements.txt",
            ) from None
