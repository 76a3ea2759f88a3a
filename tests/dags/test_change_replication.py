"""change_replication: nothing stops before it was planned and approved, and any failure leads to the way back."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from kafka_dr.procedures import CHANGE_REPLICATION
from kafka_dr.steps.base import JournaledStep
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.vocabulary import Step

FORWARD = list(CHANGE_REPLICATION.steps)


def test_each_step_follows_the_one_before(dag_bag: Any) -> None:
    """The way back starts as soon as one step has failed; evidence is written whatever happened."""
    dag = dag_bag.dags[CHANGE_REPLICATION.dag_id]
    assert {task.task_id for task in dag.tasks} == {*FORWARD, Step.RETURN_TO_SOURCE, Step.CLOSE_PROCEDURE}
    assert all(isinstance(task, JournaledStep) for task in dag.tasks)
    for before, step in itertools.pairwise(FORWARD):
        assert dag.get_task(step).upstream_task_ids == {before} and dag.get_task(step).trigger_rule == "all_success"
    back, close = dag.get_task(Step.RETURN_TO_SOURCE), dag.get_task(Step.CLOSE_PROCEDURE)
    assert (back.upstream_task_ids, back.trigger_rule) == (set(FORWARD), "one_failed")
    assert (close.upstream_task_ids, close.trigger_rule) == ({FORWARD[-1], Step.RETURN_TO_SOURCE}, "all_done")


def test_silence_never_approves(dag_bag: Any) -> None:
    """The gate has no default answer and takes one option."""
    gate = dag_bag.dags[CHANGE_REPLICATION.dag_id].get_task(Step.APPROVE_CHANGE)
    assert isinstance(gate, ProcedureGate) and gate.defaults is None and not gate.multiple


def test_the_page_has_one_heading_a_step_and_every_param(root: Path) -> None:
    """In the DAG's order; and no other param."""
    text = (root / "runbooks" / "change_replication.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == [
        *FORWARD,
        Step.RETURN_TO_SOURCE,
        Step.CLOSE_PROCEDURE,
    ]
    table = text.split("| param |", 1)[1].split("\n\n", 1)[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", table, flags=re.MULTILINE)
    assert {word for cell in cells for word in re.findall(r"`(\w+)`", cell)} == CHANGE_REPLICATION.params
