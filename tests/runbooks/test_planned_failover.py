"""The runbook page: one heading a step, in the procedure's order, and links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_dr.dag_policy import procedure_params
from kafka_dr.vocabulary import Outcome, Step

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
PAGES = sorted(RUNBOOKS.rglob("*.md"))
STEPS = [s.value for s in Step if s is not Step.ABORT_PROCEDURE]


def headings(page: Path) -> list[str]:
    """Second-level headings."""
    return re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.M)


def test_one_heading_a_step_in_order() -> None:
    """The page's headings are the steps, in the vocabulary's order, and nothing else."""
    assert headings(RUNBOOKS / "planned_failover.md") == STEPS


def test_every_step_says_what_to_do() -> None:
    """Under every heading stands text, and where a step may fail, what to do then."""
    sections = re.split(r"^## ", (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    for section in sections:
        name, _, body = section.partition("\n")
        assert len(body.strip()) > 80, name


def test_every_outcome_of_the_page_is_one_and_none_is_missing() -> None:
    """The table of outcomes has the vocabulary's words."""
    table = re.findall(r"^\| `(\w+)` \|", (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8"), flags=re.M)
    assert set(table) == {o.value for o in Outcome}


def test_words_in_backticks_are_steps_or_params() -> None:
    """What the text names is a step, the DAG, or one of its params: no orphan word such as an old name."""
    text = (RUNBOOKS / "planned_failover.md").read_text(encoding="utf-8")
    words = {w for w in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text)}
    known = {*Step, *procedure_params(), "planned_failover", "stuck_procedure", "max_fence_seconds", "return_seconds"}
    assert words <= known, words - known


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
