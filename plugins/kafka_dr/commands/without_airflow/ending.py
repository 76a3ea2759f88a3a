"""Determines how a run ended, from its evidence or, without evidence, from Airflow's states and logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_dr.config.topology import Topology
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.hooks.airflow_api import TaskInstance
from kafka_dr.vocabulary import Outcome

_GREEN = {"abort_procedure": Outcome.ABORTED}


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        outcome: `completed`, `returned`, `refused`, `aborted` or `failed`.
        step: the failing step in the evidence, else the first task that failed; empty if no step failed.
        reason: the reason for the outcome, from the evidence, or, without evidence, from the failing task's log. If
            neither has one, or the evidence states success of a run that failed, `reason` says so. May be empty.
        good: whether the command exits with 0. The outcome must then be `completed`; for abort_procedure `aborted`.
    """

    outcome: str
    step: str
    reason: str
    good: bool


def ending_of(
    topology: Topology,
    procedure_id: str | None,
    dag_id: str,
    run_state: str,
    tasks: Sequence[TaskInstance],
    read_failure: Callable[[TaskInstance], str],
) -> Ending:
    """Return the outcome, failing step and reason of a run that has ended.

    Args:
        procedure_id: the procedure whose evidence.json is read; None if no procedure is found for the run.
        run_state: Airflow's state of the run, `success` or `failed`.
        read_failure: returns the error in a task's log; empty if there is none. A step that may not write to the
            journal, such as under a journal that lost entries, leaves its reason there alone.
    """
    green = _GREEN.get(dag_id, Outcome.COMPLETED)
    first = next((task for task in tasks if task.state == "failed"), None)
    failed = first.task_id if first else ""
    evidence = _evidence(Path(topology.evidence) / procedure_id / "evidence.json") if procedure_id else None
    if evidence is None:
        good = run_state == "success"
        return Ending(
            str(green if good else Outcome.FAILED),
            failed,
            "" if good else (first and read_failure(first)) or "the run failed, and its evidence cannot be read",
            good,
        )
    outcome = str(evidence.get("outcome") or Outcome.FAILED)
    if outcome == green and run_state != "success":
        return Ending(str(Outcome.FAILED), failed, f"the evidence states {outcome}, but the run failed", False)
    return Ending(
        outcome,
        str(evidence.get("failing_step") or ""),
        " ".join(str(evidence.get("reason_for_outcome") or "").split()),
        outcome == green,
    )


def _evidence(path: Path) -> dict[str, Any] | None:
    try:
        evidence: dict[str, Any] = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return evidence
