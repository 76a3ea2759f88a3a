"""What the DAGs share: default arguments, tags, the phases of their graphs, and the params of their forms.

A form has its params in this order: those that most DAGs have, the DAG's own choices, deadlines.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, TaskGroup

from kafka_dr.config.settings import load_topology
from kafka_dr.form_fields import Field
from kafka_dr.procedures import PROCEDURES

#: A killed task is retried; a refusal fails at once, as it raises AirflowFailException.
DEFAULT_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 2, "retry_delay": timedelta(seconds=2)}

#: The recorder is restarted as long as its DAG run lives; the next DAG run starts it again.
RECORDER_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 1_000, "retry_delay": timedelta(seconds=5)}

#: The watcher is restarted sooner, because an old source may accept writes while the watcher does not run.
WATCHER_ARGS: dict[str, Any] = {**RECORDER_ARGS, "retry_delay": timedelta(seconds=1)}

#: No retry: the next run checks again. A check that hangs must not keep the next one from beginning.
CHECK_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 0, "execution_timeout": timedelta(minutes=4)}

#: Together with the check shorter than the interval of checks: no server of notices delays the next check.
NOTICES_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 0, "execution_timeout": timedelta(seconds=58)}

#: No retry: a task reports what it finds, and whoever started it starts it again.
EXAMINING_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 0, "execution_timeout": timedelta(minutes=15)}

TAGS = ["switchback", "kafka"]


#: Params that name a cluster, and params that most procedures have.
_ALIASES = ("source", "target")
_COMMON = (*_ALIASES, "reason", "topics", "groups", "acknowledge_cool_down", "acknowledge_owner")
#: Headings of the form's parts below the params that most procedures have, in their order.
_CHOICES, _DEADLINES = "Choices of this DAG", "Deadlines"
_PARTS = (None, _CHOICES, _DEADLINES)


def group_phase(title: str) -> TaskGroup:
    """Return a group of the DAG's graph; the ids of the tasks in it stay the names of their steps."""
    return TaskGroup(title.replace(" ", "_"), prefix_group_id=False, group_display_name=title)


def procedure_form(dag_id: str) -> dict[str, Param]:
    """Return the params of a procedure's form, name -> Param; Airflow shows the form and checks the values."""
    fields, proposed = PROCEDURES[dag_id].fields, _proposed_aliases()
    return {field.name: _param(field, proposed) for part in _PARTS for field in fields if _part_of(field) == part}


def flow_form() -> dict[str, Param]:
    """Return the params that name one flow, name -> Param; without both every flow is meant."""
    schema: dict[str, Any] = {"type": ["null", "string"], "minLength": 1, "maxLength": 100, **_proposed_aliases()}
    return {
        "source": Param(None, **schema, description="Alias of the flow's source; empty = every flow."),
        "target": Param(None, **schema, description="Alias of the flow's target; empty = every flow."),
    }


def _param(field: Field, proposed: dict[str, Any]) -> Param:
    part = _part_of(field)
    schema = {**field.schema, "description": field.description, **({"section": part} if part else {})}
    schema |= proposed if field.name in _ALIASES else {}
    return Param(**schema) if field.required else Param(field.default, **schema)


def _part_of(field: Field) -> str | None:
    """Return the heading of the form's part to which a param belongs; None for the params at the top."""
    if field.name in _COMMON:
        return None
    return _DEADLINES if field.name.endswith("_seconds") else _CHOICES


def _proposed_aliases() -> dict[str, Any]:
    """Return the aliases of the topology as proposals of a form's field; {} if the topology cannot be read.

    A DAG must exist even then: its runs refuse with all problems of the topology, and a field without proposals takes
    the same values.
    """
    try:
        return {"examples": list(load_topology().aliases)}
    except Exception:  # noqa: BLE001 (whatever is wrong with the topology is told by the run, not by the form)
        return {}
