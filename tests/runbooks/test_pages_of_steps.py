"""The heading that a message or a link names exists, and is the only one of its name on its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka_dr.domain.runbook_pages import page_of_failure, page_of_step
from kafka_dr.procedures import PROCEDURES, steps_of

ROOT = Path(__file__).parents[2]
TASKS = sorted(
    {
        task
        for dag in (ROOT / "dags").glob("*.py")
        for task in re.findall(r'task_id="(\w+)"', dag.read_text(encoding="utf-8"))
    }
    | {step.value for dag_id in PROCEDURES for step in steps_of(dag_id)}
)


def anchors(page: Path) -> list[str]:
    """The anchors of all headings of a page; of two equal ones, a link leads to the first."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def has_heading(place: str) -> bool:
    """Whether `PAGE.md#HEADING` is the heading of a section on that page, and no other heading has its anchor."""
    page, _, heading = place.partition("#")
    text = (ROOT / page).read_text(encoding="utf-8")
    return f"\n## {heading}\n" in text and anchors(ROOT / page).count(heading) == 1


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "runbooks").glob("*.md"))], ids=lambda p: p.stem)
def test_every_link_to_a_heading_leads_to_it(page: Path) -> None:
    """Links from page to page, and within a page."""
    links = re.findall(r"\]\(([\w./]*\.md)?#([\w-]+)\)", page.read_text(encoding="utf-8"))
    assert [
        (to, heading) for to, heading in links if anchors(page.parent / to if to else page).count(heading) != 1
    ] == []


@pytest.mark.parametrize("task", TASKS)
def test_the_page_of_a_failure_has_the_heading(task: str) -> None:
    """Named by error messages, by the evidence and by the live page."""
    assert len(TASKS) > 30 and has_heading(page_of_failure(task))


@pytest.mark.parametrize(
    ("dag_id", "step"), [(dag_id, step.value) for dag_id in PROCEDURES for step in steps_of(dag_id)]
)
def test_the_page_of_a_step_has_the_heading(dag_id: str, step: str) -> None:
    """Named by the live page while the step runs; it is the procedure's own page wherever that has the step."""
    own = f"runbooks/{dag_id}.md#{step}"
    assert has_heading(page_of_step(dag_id, step))
    assert (page_of_step(dag_id, step) == own) == has_heading(own)


def test_a_step_of_an_unknown_procedure_is_found_on_the_page_for_all() -> None:
    """A journal of another version may name a DAG that has no page here."""
    assert page_of_step("shuffle", "open_target") == "runbooks/stuck_procedure.md#open_target"


def test_a_missing_heading_is_found() -> None:
    """A step that no page has."""
    assert not has_heading("runbooks/stuck_procedure.md#open") and has_heading("runbooks/stuck_procedure.md#forecast")
