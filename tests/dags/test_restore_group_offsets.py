"""restore_group_offsets: the vocabulary's own steps one after the other, a gate before the only one that writes,
and the page that explains them.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from kafka_dr.procedures import RESTORE_GROUP_OFFSETS
from kafka_dr.steps.base import JournaledStep
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.vocabulary import Step

STEPS = [*RESTORE_GROUP_OFFSETS.steps, Step.CLOSE_PROCEDURE]


def test_each_step_follows_the_one_before(dag_bag: Any) -> None:
    """Nothing is written before it was planned and approved; evidence is written whatever happened."""
    dag = dag_bag.dags[RESTORE_GROUP_OFFSETS.dag_id]
    assert [task.task_id for task in dag.topological_sort()] == STEPS and all(
        isinstance(task, JournaledStep) for task in dag.tasks
    )
    for before, step in itertools.pairwise(STEPS):
        assert dag.get_task(step).upstream_task_ids == {before}
        assert dag.get_task(step).trigger_rule == ("all_done" if step == Step.CLOSE_PROCEDURE else "all_success")


def test_silence_never_approves(dag_bag: Any) -> None:
    """The gate has no default answer and takes one option."""
    gate = dag_bag.dags[RESTORE_GROUP_OFFSETS.dag_id].get_task(Step.APPROVE_RESTORE)
    assert (
        isinstance(gate, ProcedureGate)
        and gate.defaults is None
        and not gate.multiple
        and gate.options == ["Approve", "Reject"]
    )


def test_the_page_has_one_heading_a_step_and_every_param(root: Path) -> None:
    """In the DAG's order; and no other param."""
    text = (root / "runbooks" / "restore_group_offsets.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == STEPS
    table = text.split("| param |", 1)[1].split("\n\n", 1)[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", table, flags=re.MULTILINE)
    assert {word for cell in cells for word in re.findall(r"`(\w+)`", cell)} == RESTORE_GROUP_OFFSETS.params
