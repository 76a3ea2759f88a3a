"""abort_procedure: three steps of the vocabulary, one after the other, and the page that explains them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from kafka_dr.steps.base import JournaledStep
from kafka_dr.vocabulary import Step

STEPS = [Step.ABORT_PROCEDURE, Step.RETURN_TO_SOURCE, Step.CLOSE_PROCEDURE]


def test_abort_then_return_then_close(dag_bag: Any) -> None:
    """Each step waits for the one before it to succeed: a refused abort returns nothing and closes nothing."""
    dag = dag_bag.dags["abort_procedure"]
    assert [t.task_id for t in dag.topological_sort()] == STEPS and all(isinstance(t, JournaledStep) for t in dag.tasks)
    for before, step in itertools.pairwise(STEPS):
        assert dag.get_task(step).upstream_task_ids == {before} and dag.get_task(step).trigger_rule == "all_success"


def test_the_page_has_one_heading_a_step(root: Path) -> None:
    """In the DAG's order."""
    text = (root / "runbooks" / "abort_procedure.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == STEPS
