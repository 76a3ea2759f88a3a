"""The page of params and deadlines: each with its default, the forms that have it, and the steps that use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.topology import Topology
from kafka_dr.procedures import PROCEDURES, steps_of
from kafka_dr.vocabulary import Step

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "runbooks" / "params_and_deadlines.md"
DAGS = ("planned_failover", "unplanned_failover", "failback")
DEFAULTS = Deadlines().model_dump() | {"cool_down_seconds": Topology.model_fields["cool_down_seconds"].default}
#: Own steps of failback: the other ones are a planned failover's.
OWN_OF_FAILBACK = {*steps_of("failback")} - {*steps_of("planned_failover")}
#: Where the steps of a column of the table of deadlines come from.
COLUMNS = {
    "steps of planned_failover": set(steps_of("planned_failover")),
    "steps of unplanned_failover": set(steps_of("unplanned_failover")),
    "own steps of failback": OWN_OF_FAILBACK,
}


def rows(head: str) -> list[dict[str, str]]:
    """The rows of the table that begins with a head, by the names of its columns."""
    table = [line for line in PAGE.read_text(encoding="utf-8").split("\n\n") if line.startswith(f"| {head} |")]
    lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table[0].strip().splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def marked(text: str) -> set[str]:
    """Single words in marks of code."""
    return set(re.findall(r"`(\w+)`", text))


PARAMS, DEADLINES = rows("param"), rows("deadline")


def word_of(default: object) -> str:
    """A default as the page writes it."""
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def test_every_param_has_its_forms_and_its_default() -> None:
    """What a form asks beside deadlines has one row for it, with the form's own default; no row says more."""
    told = [(row["param"].strip("`"), dag, row["default"]) for row in PARAMS for dag in marked(row["in the form of"])]
    assert sorted(told) == sorted(
        (field.name, dag, "required" if field.required else word_of(field.default))
        for dag in DAGS
        for field in PROCEDURES[dag].fields
        if field.name not in DEFAULTS
    )


def test_the_deadlines_are_those_of_the_code() -> None:
    """Every deadline once, with its default and the forms that have it; none else."""
    told = [(row["deadline"].strip("`"), float(row["default"]), marked(row["in the form of"])) for row in DEADLINES]
    assert sorted(told, key=str) == sorted(
        (
            (name, seconds, {dag for dag in DAGS if name in PROCEDURES[dag].params})
            for name, seconds in DEFAULTS.items()
        ),
        key=str,
    )


@pytest.mark.parametrize("column", COLUMNS)
def test_steps_that_use_a_deadline_are_steps_of_that_procedure(column: str) -> None:
    """No cell names another procedure's step; a cell without a step says so."""
    for row in DEADLINES:
        assert marked(row[column]) <= COLUMNS[column], row["deadline"]
        assert row[column] and (marked(row[column]) or row[column] == "none" or "every step" in row[column])


def test_a_step_that_reads_a_deadline_stands_in_its_row() -> None:
    """What the file of a step reads itself is named; a cell may name more, which the step's actions read."""
    named = {row["deadline"].strip("`"): set().union(*(marked(row[column]) for column in COLUMNS)) for row in DEADLINES}
    read = [
        (path.stem, name)
        for folder in ("planned", "shared", "unplanned", "failback")
        for path in (ROOT / "plugins" / "kafka_dr" / "steps" / folder).glob("*.py")
        for name in re.findall(r"(?:deadlines|limits)\.(\w+_seconds)", path.read_text(encoding="utf-8"))
    ]
    assert len(read) > 15
    assert [(step, name) for step, name in read if step in {*Step} and step not in named[name]] == []


def test_deadlines_that_an_unplanned_failover_does_not_use_are_called_that() -> None:
    """Such deadlines are used by none of this DAG's own steps and their actions, all other ones are."""
    others = {row["deadline"].strip("`") for row in DEADLINES if row["steps of unplanned_failover"] == "none"}
    expected = {"max_fence_seconds", "transaction_seconds", "drain_seconds", "zero_lag_seconds", "catch_up_seconds"}
    assert others == expected
    mine = ("steps/unplanned", "actions/old_source", "actions/loss", "actions/replication")
    folders = [ROOT / "plugins" / "kafka_dr" / name for name in mine]
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py"))
    assert [name for name in others if name in code] == []


@pytest.mark.parametrize("dag", DAGS)
def test_every_page_leads_there(dag: str) -> None:
    """Whoever reads the page of a procedure finds its params."""
    assert "(params_and_deadlines.md" in (ROOT / "runbooks" / f"{dag}.md").read_text(encoding="utf-8")
