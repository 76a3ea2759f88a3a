"""Calls the API of the command's Airflow under a person's login: starts a run, clears tasks, answers a gate.

The command's Airflow is the Airflow that run_procedure starts for one procedure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_client.client import (
    ClearTaskInstancesBody,
    ClearTaskInstancesBodyTaskIdsInner,
    DAGPatchBody,
    PatchTaskInstanceBody,
    TaskInstanceState,
    TriggerDAGRunPostBody,
    UpdateHITLDetailPayload,
)

from kafka_dr.errors import BadInput, Refusal
from kafka_dr.hooks.airflow_calls import AirflowCalls, only_given
from kafka_dr.hooks.json_endpoint import HttpAnswer

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
        self._calls = AirflowCalls(base_url, "the API of the command's Airflow", (username, password))
        answer = self._calls.log_in(_SECONDS)
        if answer.status in _FORBIDDEN:
            raise Refusal(
                f"The command's Airflow refuses the login of {username!a}",
                f"HTTP {answer.status}",
                "Give a user name and password from users.json in the command's folder or, without that file, from the"
                " settings of the site's Airflow.",
            )
        if not answer.ok:
            raise self._calls.endpoint.failure(
                "The API of the command's Airflow gave no token",
                answer.seen,
                "Correct the fault that api-server.log states, in the folder that the command printed at its start;"
                " then run the command again.",
            )

    def __repr__(self) -> str:
        return f"Account({self.username!r})"

    def trigger(self, dag_id: str, conf: dict[str, Any], run_id: str) -> None:
        """Start a run of a DAG, with the given run id and params."""
        call = self._calls.runs.trigger_dag_run_without_preload_content
        body = TriggerDAGRunPostBody(logical_date=None, conf=conf, dag_run_id=run_id)
        self._send(f"start {dag_id}", call, dag_id, only_given(body))

    def pause(self, dag_id: str, *, paused: bool) -> None:
        """Pause or unpause a DAG; a paused DAG starts no tasks."""
        call = self._calls.dags.patch_dag_without_preload_content
        self._send(f"{'pause' if paused else 'unpause'} {dag_id}", call, dag_id, DAGPatchBody(is_paused=paused))

    def clear_failed(self, dag_id: str, run_id: str) -> None:
        """Clear a run's failed tasks, and tasks that did not run because of these; Airflow runs all of them again."""
        self._clear(dag_id, run_id, "the failed tasks", only_failed=True)

    def clear(self, dag_id: str, run_id: str, tasks: list[str]) -> None:
        """Clear these tasks of a run, whatever their states; Airflow runs these tasks again."""
        ids = [ClearTaskInstancesBodyTaskIdsInner(task) for task in tasks]
        self._clear(dag_id, run_id, ", ".join(tasks), only_failed=False, task_ids=ids)

    def _clear(self, dag_id: str, run_id: str, what: str, **which: Any) -> None:
        call = self._calls.tasks.post_clear_task_instances_without_preload_content
        body = ClearTaskInstancesBody(dry_run=False, dag_run_id=run_id, reset_dag_runs=True, **which)
        self._send(f"clear {what} of {run_id}", call, dag_id, only_given(body))

    def mark_done(self, dag_id: str, run_id: str, task: str) -> None:
        """Mark a task of a run as successful without running it."""
        call = self._calls.tasks.patch_task_instance_without_preload_content
        body = only_given(PatchTaskInstanceBody(new_state=TaskInstanceState.SUCCESS))
        self._send(f"mark {task} as done", call, dag_id, run_id, task, body)

    def answer(self, dag_id: str, run_id: str, gate: str, option: str) -> bool:
        """Answer a gate; return True if Airflow accepted the answer, False if the gate already has an answer."""
        call = self._calls.tasks.update_hitl_detail_without_preload_content
        body = UpdateHITLDetailPayload(chosen_options=[option], params_input={})
        reply = self._calls.send(call, dag_id, run_id, gate, -1, body, timeout=_SECONDS)
        if reply.answer.status != _CONFLICT:
            self._accept(reply.answer, f"answer {gate}")
        return reply.answer.ok

    def _send(self, what: str, call: Callable[..., Any], *given: Any) -> None:
        self._accept(self._calls.send(call, *given, timeout=_SECONDS).answer, what)

    def _accept(self, answer: HttpAnswer, what: str) -> None:
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
        self._calls.endpoint.accept(answer, what)
