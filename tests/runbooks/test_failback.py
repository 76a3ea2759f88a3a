"""The page of failback: one heading a step of its DAG, and every decision and mode as the code has it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from kafka_dr.domain.failback.stranded import Decision, Mode
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Step

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runbooks" / "failback.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:])
SHARED = [
    step.value for step in steps_of("planned_failover") if step not in (Step.OPEN_PROCEDURE, Step.ABORT_PROCEDURE)
]


def steps_of_the_dag() -> list[str]:
    """Task ids of the DAG's file, as it names them from top to bottom."""
    calls = [
        node
        for node in ast.walk(ast.parse((ROOT / "dags" / "failback.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    named = [
        (call.lineno, word.value.value)
        for call in calls
        for word in call.keywords
        if word.arg == "task_id" and isinstance(word.value, ast.Constant)
    ]
    return [name for _, name in sorted(named)]


def first_cells(head: str) -> set[str]:
    """The first column of the table below a head, without marks of code."""
    rows = PAGE.split(f"| {head} |", 1)[1].split("\n\n")[0]
    return {
        word for cell in re.findall(r"^\|([^|]*)\|", rows, flags=re.MULTILINE) for word in re.findall(r"`(\w+)`", cell)
    }


def test_one_heading_a_step_in_order() -> None:
    """The page's headings are the DAG's tasks in their order."""
    assert list(SECTIONS) == steps_of_the_dag()


@pytest.mark.parametrize("step", SHARED)
def test_every_step_that_is_a_planned_ones_leads_there(step: str) -> None:
    """Nothing is told twice, and nobody looks for it in vain."""
    assert f"(planned_failover.md#{step})" in SECTIONS[step]


def test_modes_and_decisions_are_the_codes() -> None:
    """No other word is offered."""
    assert first_cells("mode") == {mode.value for mode in Mode}
    assert first_cells("decision") == {decision.value for decision in Decision}
