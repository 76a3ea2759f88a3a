"""stuck_procedure.md: one table for every step of every procedure, each saying whether retry and abort are safe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Step

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "runbooks" / "stuck_procedure.md"
MOVING_CLIENTS = [
    dag.stem
    for dag in (ROOT / "dags").glob("*.py")
    if dag.stem in ("planned_failover", "unplanned_failover", "failback")
]
SECTIONS = dict(
    part.split("\n", 1) for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
)


def test_one_heading_a_step_in_order() -> None:
    """All steps of the procedures that there are, in the vocabulary's order; the abort has a page of its own."""
    there = {step for dag in MOVING_CLIENTS for step in steps_of(dag)}
    assert list(SECTIONS) == [s.value for s in Step if s in there and s is not Step.ABORT_PROCEDURE]


@pytest.mark.parametrize("step", SECTIONS)
def test_every_state_says_what_is_safe(step: str) -> None:
    """State, meaning, retry and abort, none of them empty."""
    rows = [row.strip("|").split("|") for row in SECTIONS[step].splitlines() if row.startswith("|")]
    assert [cell.strip() for cell in rows[0]] == ["state", "meaning", "retry", "abort"] and len(rows) > 2
    assert all(len(row) == 4 and all(cell.strip() for cell in row) for row in rows)
