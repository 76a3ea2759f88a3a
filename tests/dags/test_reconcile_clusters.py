"""reconcile_clusters: its steps one after the other, no gate, and the page that explains them."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.execution_time import macros
from airflow.serialization.serialized_objects import DagSerialization
from kafka_dr.domain.reconciliation.choice import time_in_ms
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


def test_the_schedule_on_the_page_compares_one_day_after_the_other(root: Path, dag_bag: Any, tmp_path: Path) -> None:
    """As it stands there: Airflow runs it each night, and the procedure's form takes its params."""
    text = (root / "runbooks" / "reconcile_clusters.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "compare_every_night.py").write_text(program, encoding="utf-8")
    bag = DagBag(str(tmp_path))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    (task,) = dag.tasks
    assert task.trigger_dag_id == RECONCILE_CLUSTERS.dag_id and "conf" in task.template_fields
    week = [datetime(2026, 11, day, tzinfo=UTC) for day in (1, 8)]
    runs = DagSerialization.from_dict(DagSerialization.to_dict(dag)).iter_dagrun_infos_between(*week)
    spans = []
    for run in runs:
        context = {"dag_run": SimpleNamespace(run_after=run.run_after), "macros": macros}
        conf = task.render_template(task.conf, context)
        form = dag_bag.dags[RECONCILE_CLUSTERS.dag_id].params
        taken = ParamsDict({name: form.get_param(name) for name in form})
        taken.update(conf)
        taken.validate()
        spans.append((time_in_ms(conf["since"]), time_in_ms(conf["until"])))
    assert len(spans) == 7 and all(until - since == 86_400_000 for since, until in spans)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))


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
