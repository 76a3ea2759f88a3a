"""`run_dag`: start a run of a DAG, answer its gates on request, print each ended task, and report the outcome."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from http import HTTPStatus
from typing import Any

from urllib3.exceptions import HTTPError

from lab.environment.airflow_api import AirflowClient, RequestRefused
from lab.environment.state import Lab
from lab.errors import LabError

STARTER = "operator"
POLL_SECONDS = 0.5
_ENDED = {"success", "failed", "skipped", "upstream_failed", "removed"}


def run_dag(
    lab: Lab,
    dag_id: str,
    conf: dict[str, Any],
    approve_as: str | None = None,
    timeout: float = 1800.0,
    wait: bool = True,
) -> int:
    """Run one DAG as the user ``operator``; print each ended task, and at last outcome, failing step and reason.

    Args:
        lab: a running lab with Airflow.
        dag_id: the DAG's id.
        conf: params of the run.
        approve_as: the user who answers every gate with its first option; None: each gate waits for a person.
        timeout: seconds to wait for the run's end; the run itself is not ended by the timeout.
        wait: False: trigger the run and return at once.

    Returns:
        The exit code: 0 for the outcome ``completed``, else 1; without waiting, 0 once Airflow has created the run.
    """
    api = AirflowClient.of(lab, STARTER)
    approver = AirflowClient.of(lab, approve_as) if approve_as else None
    run_id = api.trigger(dag_id, conf)
    _say(f"{dag_id} {run_id} triggered by {STARTER}")
    if not wait:
        return 0
    url_hint = f"{lab.airflow_url}/required_actions (passwords: python -m lab status --state {lab.root})"
    follower = _RunFollower(api, approver, dag_id, run_id, url_hint)
    try:
        outcome, step, reason = _result(lab, dag_id, run_id, follower.follow(timeout), follower.failed_task)
    except LabError as error:
        outcome, step, reason = "failed", "", f"{error}; the run may still continue"
    _say(f"outcome={outcome} failing_step={step or '-'} reason={_one_line(reason) or '-'}")
    return 0 if outcome == "completed" else 1


def procedure_id(dag_id: str, run_id: str) -> str:
    """Return the procedure id of a run: `DAG_ID-RUN_ID`, also the name of the procedure's evidence folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{dag_id}-{run_id}")


class _RunFollower:
    """Follows one run: prints each task that has ended, and answers gates if it has an approver."""

    def __init__(
        self, api: AirflowClient, approver: AirflowClient | None, dag_id: str, run_id: str, url_hint: str
    ) -> None:
        self._api, self._approver, self._run, self._hint = api, approver, (dag_id, run_id), url_hint
        self._printed: set[tuple[Any, ...]] = set()
        self._asked: set[tuple[Any, ...]] = set()
        self._open_gates: set[tuple[Any, ...]] = set()
        self.failed_task = ""

    def follow(self, timeout: float) -> str:
        """Poll until the run has ended; return Airflow's state of the run, or ``timeout`` after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            state = self._poll()
            if state in ("success", "failed"):
                return state
            time.sleep(POLL_SECONDS)
        return "timeout"

    def _poll(self) -> str:
        """Poll once; return the run's state, or ``unknown`` if the API cannot be reached or answers 409 or 5xx."""
        try:
            # The state is read before the tasks: when the run has ended, the list of tasks is complete.
            state: str = self._api.run(*self._run)["state"]
            self._print_ended()
            if state not in ("success", "failed"):
                self._answer_gates()
        except HTTPError:
            return "unknown"
        except RequestRefused as refusal:
            if refusal.status < HTTPStatus.INTERNAL_SERVER_ERROR and refusal.status != HTTPStatus.CONFLICT:
                raise
            return "unknown"
        return state

    def _print_ended(self) -> None:
        ended = [task for task in self._api.tasks(*self._run) if task["state"] in _ENDED]
        for task in sorted(ended, key=lambda task: task["end_date"] or ""):
            key = (task["task_id"], task["map_index"], task["try_number"], task["state"])
            if key not in self._printed:
                self._printed.add(key)
                self.failed_task = self.failed_task or (task["task_id"] if task["state"] == "failed" else "")
                _say(f"{_seconds(task):8.1f} s  {task['task_id']:<28} {task['state']}")

    def _answer_gates(self) -> None:
        # An answer that comes while the gate's task is still deferring is lost, or fails the task's try. So a gate is
        # answered at the second poll that lists the gate.
        open_before, self._open_gates = self._open_gates, set()
        for gate in self._api.open_gates(*self._run):
            task = gate["task_instance"]
            key = (task["task_id"], task["map_index"], task["try_number"])
            self._open_gates.add(key)
            if self._approver and key in open_before:
                self._approve(self._approver, gate, task)
            elif self._approver is None and key not in self._asked:
                self._asked.add(key)
                _say(f"            {task['task_id']} waits for a person: {gate['subject']}; answer it at {self._hint}")

    def _approve(self, approver: AirflowClient, gate: dict[str, Any], task: dict[str, Any]) -> None:
        option = gate["options"][0]
        answer = approver.answer(*self._run, task, option, proposed_values(gate.get("params") or {}))
        _say(f"            {task['task_id']} answered {option!r} by {(answer.get('responded_by') or {}).get('name')}")


def proposed_values(form: dict[str, Any]) -> dict[str, Any]:
    """Return the proposed values of a gate's form, by field; in Airflow a field is a bare value or has a `value`."""
    return {
        name: field["value"] if isinstance(field, dict) and "value" in field else field for name, field in form.items()
    }


def _result(lab: Lab, dag_id: str, run_id: str, run_state: str, failed_task: str) -> tuple[str, str, str]:
    """Return outcome, failing step and reason: from the evidence, or from the run's state if there is no evidence."""
    if run_state == "timeout":
        return "failed", "", "the run had not ended at the timeout and still continues; follow the run in Airflow"
    evidence = lab.collected(lab.evidence / procedure_id(dag_id, run_id)) / "evidence.json"
    if not evidence.exists():
        return (
            ("completed", "", "")
            if run_state == "success"
            else ("failed", failed_task, "the run failed without evidence; read the log of the failed task in Airflow")
        )
    try:
        document = json.loads(evidence.read_text())
    except ValueError as error:
        raise LabError(f"{evidence} is not JSON: {error}; read the log of the run's last task in Airflow") from None
    failing: dict[str, Any] = next((step for step in document.get("steps", []) if step.get("state") == "failed"), {})
    outcome = document.get("outcome") or "failed"
    if outcome == "completed" and run_state != "success":
        return "failed", failing.get("id", ""), "the evidence states completed, but the run failed in Airflow"
    return outcome, failing.get("id", ""), document.get("reason_for_outcome") or ""


def _seconds(task: dict[str, Any]) -> float:
    if not task["start_date"] or not task["end_date"]:
        return 0.0
    return (datetime.fromisoformat(task["end_date"]) - datetime.fromisoformat(task["start_date"])).total_seconds()


def _one_line(text: str) -> str:
    return " ".join(str(text).split())


def _say(text: str) -> None:
    print(text, flush=True)
