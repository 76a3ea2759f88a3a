"""Airflow's API, in memory: runs, gates and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kafka_dr.hooks.airflow_api import DagRun, HitlAnswer, TaskInstance
from kafka_dr.vocabulary import APPROVE


class Api:
    """Stand-in for Airflow's own API: who started the run, and the gates' answers."""

    def __init__(self) -> None:
        self.starter: str | None = "alice"
        self.answers: dict[str, HitlAnswer] = {}
        self.username = "switchback"
        self.roles: dict[str, frozenset[str]] = {}
        self.tried: dict[str, list[TaskInstance]] = {}
        #: The clock of Airflow's API server, in the header Date of each answer; None for an answer without it.
        self.now: Callable[[], datetime | None] = lambda: datetime.now(UTC)

    def dag_run(self, dag_id: str, run_id: str) -> DagRun:
        """Return the run."""
        return DagRun(dag_id, run_id, "running", self.starter)

    def roles_of(self, name: str) -> frozenset[str]:
        """Return a user's roles."""
        return self.roles.get(name, frozenset())

    def tries(self, dag_id: str, run_id: str, task_id: str) -> list[TaskInstance]:
        """Return the earlier tries of a task."""
        return self.tried.get(task_id, [])

    def hitl(self, dag_id: str, run_id: str, task_id: str) -> HitlAnswer | None:
        """Return the gate's answer, as sent now; None without one."""
        answer = self.answers.get(task_id)
        return answer and replace(answer, read_at=self.now())

    def answer(self, gate: str, subject: str, **changes: Any) -> None:
        """Store an answer to a gate; by default bob approves now."""
        given = {
            "chosen_options": (APPROVE,),
            "responded_by_id": "bob",
            "responded_by_name": "bob",
            "responded_at": datetime.now(UTC),
            **changes,
        }
        self.answers[gate] = HitlAnswer(
            subject=subject, body="", options=(APPROVE, "Reject"), params_input={}, created_at=None, **given
        )
