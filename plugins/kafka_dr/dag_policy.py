"""What the DAGs share: default arguments, tags and the params of their forms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from kafka_dr.procedures import PROCEDURES, Field

#: A killed task is retried; a refusal fails at once, as it raises AirflowFailException.
DEFAULT_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 2, "retry_delay": timedelta(seconds=2)}

#: The recorder is restarted as long as its DAG run lives; the next DAG run starts it again.
RECORDER_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 1_000, "retry_delay": timedelta(seconds=5)}

#: The watcher is restarted sooner, because an old source may accept writes while the watcher does not run.
WATCHER_ARGS: dict[str, Any] = {**RECORDER_ARGS, "retry_delay": timedelta(seconds=1)}

#: No retry: the next run checks again. A check that hangs must not keep the next one from beginning.
CHECK_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 0, "execution_timeout": timedelta(minutes=4)}

TAGS = ["switchback", "kafka"]


def procedure_form(dag_id: str) -> dict[str, Param]:
    """Return the params of a procedure's form, name -> Param; Airflow shows the form and checks the values."""
    return {field.name: _param(field) for field in PROCEDURES[dag_id].fields}


def flow_form() -> dict[str, Param]:
    """Return the params that name one flow, name -> Param; without both every flow is meant."""
    schema: dict[str, Any] = {"type": ["null", "string"], "minLength": 1, "maxLength": 100}
    return {
        "source": Param(None, **schema, description="Alias of the flow's source; empty = every flow."),
        "target": Param(None, **schema, description="Alias of the flow's target; empty = every flow."),
    }


def _param(field: Field) -> Param:
    schema = {**field.schema, "description": field.description}
    return Param(**schema) if field.required else Param(field.default, **schema)
