"""Reads why a task failed from its log, for a step that wrote nothing to the journal."""

from __future__ import annotations

from glob import escape
from pathlib import Path

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.hooks.airflow_api import TaskInstance
from kafka_dr.hooks.redaction import one_line


def read_failure(logs: Path, dag_id: str, run_id: str, task: TaskInstance) -> str:
    """Return the last error that a task's newest try raised, on one line; empty if no log has an error.

    Args:
        logs: folder of an Airflow whose logs have the standard names and lines of JSON.
    """
    names = f"dag_id={escape(dag_id)}/run_id={escape(run_id)}/task_id={escape(task.task_id)}"
    raised = ""
    for path in logs.glob(f"{names}/**/attempt={task.try_number}.log"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"error_detail"' in line:
                # Airflow writes the raised error first, and then what caused it.
                raised = next((str(error["exc_value"]) for error in _details(line)), raised)
    return one_line(raised, 2000)


def _details(line: str) -> list[dict[str, object]]:
    """Return the errors that one line of a log has; [] for a line that is cut off, or of another form."""
    try:
        details = read_json(line)["error_detail"] or []
    except (ValueError, KeyError, TypeError):
        return []
    return [one for one in details if isinstance(one, dict) and "exc_value" in one]
