"""The fault tests drive each procedure's steps as its DAG does: the same steps, in the same order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.support.stepping import STEPS, Run

ASIDE = {"return_to_source", "close_procedure"}


@pytest.mark.parametrize("dag_id", [dag_id for dag_id in STEPS if "open_target" in STEPS[dag_id]])
def test_driven_as_the_dag_runs_them(dag_bag: Any, dag_id: str) -> None:
    """Each step but the way back and the closing, each after the one before; the way back runs after the same ones."""
    dag = dag_bag.dags[dag_id]
    assert set(STEPS[dag_id]) == set(dag.task_ids) - ASIDE
    for before, step in zip(STEPS[dag_id], STEPS[dag_id][1:], strict=False):
        assert before in dag.get_task(step).upstream_task_ids
    assert set(Run({}, dag_id=dag_id).returnable) == dag.get_task("return_to_source").upstream_task_ids
