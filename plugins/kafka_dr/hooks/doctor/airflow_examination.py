"""Asks Airflow's API how Airflow is set up: its parts, DAGs, pools, and what Switchback's account may do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_dr.domain.doctor.airflow_state import DagTask
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.airflow_calls import AirflowCalls, ApiReply
from kafka_dr.hooks.http_tls import HttpTls

_SECONDS = 20.0
_PAUSES = (1.0, 3.0)
_MOST = 100
#: A run that no Airflow has.
_NO_RUN = "switchback-doctor"
_FORBIDDEN = 403


class AirflowExamination:
    """Reads Airflow's API as one user; it starts nothing but the run that `start` is asked for."""

    def __init__(self, base_url: str, username: str, password: str, tls: HttpTls | None = None) -> None:
        self._calls = AirflowCalls(base_url, "Airflow's API", (username, password), tls)
        self.username = username

    def health(self) -> dict[str, str | None]:
        """Return the status of each part of Airflow, which is asked without a login."""
        parts = self._read("/api/v2/monitor/health")
        return {name: (part or {}).get("status") for name, part in parts.items()}

    def version(self) -> str:
        """Return Airflow's version, as its API server states it."""
        return str(self._read("/api/v2/version").get("version", ""))

    def time(self) -> datetime | None:
        """Return the time by the API server's clock, to the second; None if it states none."""
        return self._get("/api/v2/version").answer.date

    def paused_dags(self) -> dict[str, bool]:
        """Return each DAG that Airflow has, and whether it is paused."""
        return {str(row["dag_id"]): bool(row.get("is_paused")) for row in self._pages("/api/v2/dags", "dags")}

    def import_errors(self) -> dict[str, str]:
        """Return the error of each DAG file that cannot be imported, by file name."""
        rows = self._pages("/api/v2/importErrors", "import_errors")
        return {str(row.get("filename")): str(row.get("stack_trace") or "") for row in rows}

    def pools(self) -> dict[str, int]:
        """Return the number of slots of each pool; an endless pool has -1."""
        return {str(row["name"]): int(row["slots"]) for row in self._pages("/api/v2/pools", "pools")}

    def tasks(self, dag_id: str) -> list[DagTask]:
        """Return the tasks of a DAG, with queue and pool."""
        rows = self._read("/api/v2/dags/{dag_id}/tasks", dag_id=dag_id).get("tasks") or []
        return [
            DagTask(dag_id, str(row["task_id"]), str(row.get("queue") or "default"), str(row.get("pool")))
            for row in rows
        ]

    def refused_reads(self, dag_id: str, gate: str) -> dict[str, str]:
        """Return what the account may not read, and Airflow's answer: what approvals need, and what doctor reads."""
        paths = {
            "DAGs": "/api/v2/dags",
            "import errors": "/api/v2/importErrors",
            "tasks": "/api/v2/dags/{dag_id}/tasks",
            "pools": "/api/v2/pools",
            "DAG runs": "/api/v2/dags/{dag_id}/dagRuns/{run_id}",
            "task instances": "/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances",
            "HITL details": "/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails",
        }
        asked = {what: self._get(path, dag_id=dag_id, run_id=_NO_RUN, task_id=gate) for what, path in paths.items()}
        return {what: reply.answer.seen for what, reply in asked.items() if reply.answer.status == _FORBIDDEN}

    def may_trigger(self, dag_id: str) -> bool:
        """Whether the account may start a run of a DAG; it is asked by a request that every Airflow refuses."""
        reply = self._send("POST", "/api/v2/dags/{dag_id}/dagRuns", {"conf": "no object"}, dag_id=dag_id)
        return reply.answer.status != _FORBIDDEN

    def start(self, dag_id: str, run_id: str) -> None:
        """Start a run of a DAG without params; HookUnavailable if Airflow refuses."""
        body: dict[str, Any] = {"dag_run_id": run_id, "logical_date": None, "conf": {}}
        self._calls.accept(self._send("POST", "/api/v2/dags/{dag_id}/dagRuns", body, dag_id=dag_id))

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run."""
        return str(self._read("/api/v2/dags/{dag_id}/dagRuns/{run_id}", dag_id=dag_id, run_id=run_id).get("state"))

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Return the state of each task of a run."""
        document = self._read("/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", dag_id=dag_id, run_id=run_id)
        return {str(row["task_id"]): str(row.get("state")) for row in document.get("task_instances") or []}

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return what a task has returned; None if it has returned nothing."""
        path = "/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        reply = self._get(path, dag_id=dag_id, run_id=run_id, task_id=task_id)
        if reply.answer.status == 404:
            return None
        document: Mapping[str, Any] = self._calls.accept(reply)
        return document.get("value")

    def _pages(self, path: str, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while True:
            page = self._read(f"{path}?limit={_MOST}&offset={len(rows)}")
            found = page.get(name) or []
            rows += found
            if not found or len(rows) >= int(page.get("total_entries") or 0):
                return rows

    def _read(self, path: str, **ids: str) -> dict[str, Any]:
        document = self._calls.accept(self._get(path, **ids))
        if not isinstance(document, dict):
            raise HookUnavailable(
                "the answer of Airflow's API is not the JSON object that was asked for",
                self._calls.endpoint.shown(document),
                "make sure that the address of Airflow's API server leads to Airflow",
            )
        return document

    def _get(self, path: str, **ids: str) -> ApiReply:
        """Return the answer to a request that changes nothing; repeat it while an API server is busy or restarts."""
        for pause in _PAUSES:
            reply = self._send("GET", path, None, **ids)
            if not reply.answer.may_pass:
                return reply
            time.sleep(pause)
        return self._send("GET", path, None, **ids)

    def _send(self, method: str, path: str, body: Any, **ids: str) -> ApiReply:
        return self._calls.send(self._calls.request, method, path, body, timeout=_SECONDS, **ids)
