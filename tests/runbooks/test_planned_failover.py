"""The runbook page: one heading a step, in the procedure's order, and links that lead somewhere."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.topology import Topology
from kafka_dr.dag_policy import procedure_form
from kafka_dr.domain.readiness.readiness import CHECKS
from kafka_dr.procedure.entries import ProducersFenced, SourceReturned
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Outcome, Step

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
PAGES = sorted(RUNBOOKS.rglob("*.md"))
STEPS = [s.value for s in steps_of("planned_failover") if s is not Step.ABORT_PROCEDURE]


def headings(page: Path) -> list[str]:
    """Second-level headings."""
    return re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_one_heading_a_step_in_order() -> None:
    """The page's headings are the steps, in the vocabulary's order, and nothing else."""
    assert headings(RUNBOOKS / "planned_failover.md") == STEPS


def test_every_step_says_what_to_do() -> None:
    """Under every heading stands text, and where a step may fail, what to do then."""
    sections = re.split(r"^## ", (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        name, _, body = section.partition("\n")
        assert len(body.strip()) > 80, name


def test_every_outcome_of_the_page_is_one_and_none_is_missing() -> None:
    """The table of outcomes has the vocabulary's words."""
    how_it_ends = (
        (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8").split("### How it ends\n")[1].split("\n###")[0]
    )
    table = re.findall(r"^\| `(\w+)` \|", how_it_ends, flags=re.MULTILINE)
    assert set(table) == {o.value for o in Outcome}


def test_words_in_backticks_are_steps_or_params() -> None:
    """Each is a step, page, param, deadline, gate or key of the topology, not an old name."""
    text = (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    known = {
        *Step,
        *procedure_form("planned_failover"),
        *procedure_form("unplanned_failover"),
        *Deadlines.model_fields,
        *Topology.model_fields,
        *(gate.__name__ for gate in CHECKS),
        *(field.name for fact in (ProducersFenced, SourceReturned) for field in fields(fact)),
        "planned_failover",
        "stuck_procedure",
    }
    assert words <= known, words - known


def test_every_gate_has_its_row() -> None:
    """What may close a gate is explained in a table."""
    cells = re.findall(
        r"^\| (`[^|]*`) \|", (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    explained = {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}
    assert {gate.__name__ for gate in CHECKS} <= explained


def headline(text: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, RUNBOOKS.parent / "README.md"], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_anchors_are_headings(page: Path) -> None:
    """A link into a page leads to one of its headings."""
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        there = page if not target else page.parent / target
        titles = re.findall(r"^#{2,3} (.+)$", there.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert anchor in map(headline, titles), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and picture of a page exists."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


def test_links_of_the_readme_lead_somewhere() -> None:
    """The README's links and pictures exist, too."""
    readme = RUNBOOKS.parent / "README.md"
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", readme.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (readme.parent / link).exists()]


@pytest.mark.parametrize("dag", sorted(p.stem for p in (RUNBOOKS.parent / "dags").glob("*.py")))
def test_every_dag_has_its_page(dag: str) -> None:
    """One page a DAG, with the DAG's own name."""
    assert (RUNBOOKS / f"{dag}.md").exists()
