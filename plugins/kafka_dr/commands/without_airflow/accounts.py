"""Calls the API of the command's Airflow under a person's login: starts a run, clears tasks, answers a gate.

The command's Airflow is the Airflow that run_procedure starts for one procedure.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from kafka_dr.errors import BadInput, HookUnavailable, Refusal
from kafka_dr.hooks.json_endpoint import HttpAnswer, JsonEndpoint

_SECONDS = 60.0
_FORBIDDEN = (401, 403, 422)
_CONFLICT = 409


class Account:
    """A person who is logged in to the command's Airflow, which records every call under this person's name."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        """Log in and store the token.

        Raises:
            Refusal: the API refuses the login.
            HookUnavailable: the API gave no token for another reason, such as no answer.
        """
        self.username = username
        self._endpoint = JsonEndpoint(base_url, "the API of the command's Airflow", HookUnavailable)
        answer = self._endpoint.attempt("POST", "/auth/token", {"username": username, "password": password}, _SECONDS)
        if answer.status in _FORBIDDEN:
            raise Refusal(
                f"The command's Airflow refuses the login of {username!a}",
                f"HTTP {answer.status}",
                "Give a user name and password from users.json in the command's folder or, without that file, from the"
                " settings of the site's Airflow.",
            )
        if not answer.ok or not isinstance(answer.body, dict):
            # The body may repeat the password: it is not shown.
            raise self._endpoint.failure(
                "The API of the command's Airflow gave no token",
                f"HTTP {answer.status}" if answer.status else answer.text,
                "Correct the fault that api-server.log states, in the folder that the command printed at its start;"
                " then run the command again.",
            )
        self._headers = {"Authorization": f"Bearer {answer.body['access_token']}"}

    def __repr__(self) -> str:
        return f"Account({self.username!r})"

    def trigger(self, dag_id: str, conf: dict[str, Any], run_id: str) -> None:
        """Start a run of a DAG, with the given run id and params."""
        body = {"logical_date": None, "conf": conf, "dag_run_id": run_id}
        self._done("POST", f"{_dag_path(dag_id)}/dagRuns", body, f"start {dag_id}")

    def pause(self, dag_id: str, *, paused: bool) -> None:
        """Pause or unpause a DAG; a paused DAG starts no tasks."""
        self._done("PATCH", _dag_path(dag_id), {"is_paused": paused}, f"{'pause' if paused else 'unpause'} {dag_id}")

    def clear_failed(self, dag_id: str, run_id: str) -> None:
        """Clear a run's failed tasks, and tasks that did not run because of these; Airflow runs all of them again."""
        self._clear(dag_id, run_id, {"only_failed": True}, "the failed tasks")

    def clear(self, dag_id: str, run_id: str, tasks: list[str]) -> None:
        """Clear these tasks of a run, whatever their states; Airflow runs these tasks again."""
        self._clear(dag_id, run_id, {"only_failed": False, "task_ids": tasks}, ", ".join(tasks))

    def _clear(self, dag_id: str, run_id: str, which: dict[str, Any], what: str) -> None:
        body = {"dry_run": False, "dag_run_id": run_id, "reset_dag_runs": True} | which
        self._done("POST", f"{_dag_path(dag_id)}/clearTaskInstances", body, f"clear {what} of {run_id}")

    def mark_done(self, dag_id: str, run_id: str, task: str) -> None:
        """Mark a task of a run as successful without running it."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task, safe='')}"
        self._done("PATCH", path, {"new_state": "success"}, f"mark {task} as done")

    def answer(self, dag_id: str, run_id: str, gate: str, option: str) -> bool:
        """Answer a gate; return True if Airflow accepted the answer, False if the gate already has an answer."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(gate, safe='')}/-1/hitlDetails"
        answer = self._endpoint.attempt(
            "PATCH", path, {"chosen_options": [option], "params_input": {}}, _SECONDS, self._headers
        )
        if answer.status != _CONFLICT:
            self._accepted(answer, f"answer {gate}")
        return answer.ok

    def _done(self, method: str, path: str, body: dict[str, Any], what: str) -> dict[str, Any]:
        return self._accepted(self._endpoint.attempt(method, path, body, _SECONDS, self._headers), what)

    def _accepted(self, answer: HttpAnswer, what: str) -> dict[str, Any]:
        if answer.status == 400:
            raise BadInput(
                f"The command's Airflow cannot {what}",
                answer.seen,
                "Correct what the answer names, such as a param in --conf; this request has changed nothing.",
            )
        if 400 < answer.status < 500:
            raise Refusal(
                f"The command's Airflow does not let {self.username} {what}",
                answer.seen,
                f"After HTTP 401 or 403 log in as a user who may {what}; after another status correct what the answer"
                " names. This request has changed nothing.",
            )
        return self._endpoint.accept(answer, what) or {}


def _dag_path(dag_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id, safe='')}"


def _run_path(dag_id: str, run_id: str) -> str:
    return f"{_dag_path(dag_id)}/dagRuns/{quote(run_id, safe='')}"
