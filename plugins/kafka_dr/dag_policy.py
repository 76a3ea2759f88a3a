"""What all procedures share: default arguments, tags, and the form's params."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from kafka_dr.procedures import PROCEDURES, Field

#: A killed task is retried; a refusal fails at once (it raises AirflowFailException).
DEFAULT_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 2, "retry_delay": timedelta(seconds=2)}

#: The recorder is started again for as long as its run lives, and by the next run after that.
RECORDER_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 1_000, "retry_delay": timedelta(seconds=5)}

#: The watcher too, and sooner: while it is away, an old source may accept writes.
WATCHER_ARGS: dict[str, Any] = {**RECORDER_ARGS, "retry_delay": timedelta(seconds=1)}

TAGS = ["switchback", "kafka"]


def procedure_form(dag_id: str) -> dict[str, Param]:
    """The form of a procedure, as Airflow shows and checks it."""
    return {field.name: _param(field) for field in PROCEDURES[dag_id].fields}


def _param(field: Field) -> Param:
    schema = {**field.schema, "description": field.description}
    return Param(**schema) if field.required else Param(field.default, **schema)
