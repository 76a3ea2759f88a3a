"""reconcile_clusters: its steps one after the other, no gate, and the page that explains them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from kafka_dr.procedures import RECONCILE_CLUSTERS
from kafka_dr.steps.base import JournaledStep
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.vocabulary import Step

STEPS = [*RECONCILE_CLUSTERS.steps, Step.CLOSE_PROCEDURE]


def test_each_step_follows_the_one_before(dag_bag: Any) -> None:
    """Nobody is asked, as nothing is changed; evidence is written whatever happened."""
    dag = dag_bag.dags[RECONCILE_CLUSTERS.dag_id]
    assert [task.task_id for task in dag.topological_sort()] == STEPS
    assert all(isinstance(task, JournaledStep) and not isinstance(task, ProcedureGate) for task in dag.tasks)
    for before, step in itertools.pairwise(STEPS):
        assert dag.get_task(step).upstream_task_ids == {before}
        assert dag.get_task(step).trigger_rule == ("all_done" if step == Step.CLOSE_PROCEDURE else "all_success")


def test_the_page_has_one_heading_a_step_and_every_param(root: Path) -> None:
    """In the DAG's order; and no other param."""
    text = (root / "runbooks" / "reconcile_clusters.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == STEPS
    table = text.split("| param |", 1)[1].split("\n\n", 1)[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", table, flags=re.MULTILINE)
    assert {word for cell in cells for word in re.findall(r"`(\w+)`", cell)} == RECONCILE_CLUSTERS.params


def test_the_page_explains_every_count(root: Path) -> None:
    """That of a partition's row, as the Spark job's schema has them."""
    text = (root / "runbooks" / "reconcile_clusters.md").read_text(encoding="utf-8")
    schema = (root / "spark/kafka_dr_spark/contract/schemas/reconciled_figures.json").read_text(encoding="utf-8")
    counts = set(re.findall(r'"name": "(\w+)"', schema)) & {
        "missing",
        "extra",
        "altered",
        "repeated",
        "moved",
        "behind",
    }
    assert len(counts) == 6 and all(f"| `{name}` |" in text for name in (*counts, "older", "cut"))
    assert "`superseded`" in text
