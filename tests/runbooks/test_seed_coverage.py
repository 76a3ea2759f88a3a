"""The page on the five documents: 86 points, each with an answer and a test that exists, or plainly not built."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runbooks" / "seed-coverage.md").read_text(encoding="utf-8")
#: Number of points of each document, by the letter of its rows.
POINTS = {"A": 9, "B": 17, "C": 19, "D": 34, "E": 7}
OPEN = "`not built`"
TEST = re.compile(r"`([a-z0-9_/]+\.py)::(test_\w+)`\Z")
LINK = re.compile(r"\]\(([^)\s]*)\)")


class Row(NamedTuple):
    """One point: its number, what the document says, what answers it, and the test, `` if none is named."""

    id: str
    says: str
    answer: str
    test: str


def rows_of(page: str) -> list[Row]:
    """The rows of the page, in its order."""
    lines = [line for line in page.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]
    return [Row(*(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])) for line in lines]


@cache
def names_in(path: str) -> frozenset[str]:
    """Names of the test functions in a file below `tests/`; none if the file does not exist."""
    file = ROOT / "tests" / path
    if not file.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def anchors_of(text: str) -> set[str]:
    """Anchors of a page's headings, as Markdown makes them."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def problems_of(row: Row) -> list[str]:
    """What is wrong with a row: an empty cell, a test or a heading that does not exist."""
    problems = [f"no {name}" for name in ("says", "answer") if not getattr(row, name)]
    named = TEST.match(row.test)
    if named is None and (row.test or OPEN not in row.answer):
        problems.append(f"no test: {row.test!r}")
    if named is not None and named[2] not in names_in(named[1]):
        problems.append(f"{row.test} does not exist")
    for link in LINK.findall(row.answer):
        page, _, anchor = link.partition("#")
        file = ROOT / "runbooks" / (page or "seed-coverage.md")
        if not file.is_file() or (anchor and anchor not in anchors_of(file.read_text(encoding="utf-8"))):
            problems.append(f"{link} leads nowhere")
    return problems


ROWS = rows_of(PAGE)


def test_each_point_of_each_document_has_its_row() -> None:
    """In order, each once."""
    assert sum(POINTS.values()) == 86
    assert [row.id for row in ROWS] == [f"{letter}{n}" for letter, count in POINTS.items() for n in range(1, count + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_row_leads_to_what_exists(row: Row) -> None:
    """Its test by name, and the headings of the pages."""
    assert problems_of(row) == []


def test_no_point_is_answered_twice_in_the_same_words() -> None:
    """Neither what a document says nor its answer is a copy of another row."""
    for column in ("says", "answer"):
        counted = Counter(getattr(row, column) for row in ROWS)
        assert [text for text, count in counted.items() if count > 1 and text != OPEN] == []


def test_the_head_counts_what_is_open() -> None:
    """The number of rows that are not built, and of all others."""
    missing = sum(OPEN in row.answer for row in ROWS)
    assert f"**86 points: {86 - missing} answered, {missing} {OPEN}, in whole or in part.**" in PAGE


def test_the_page_names_the_documents_and_no_place_of_their_copies() -> None:
    """Five titles as headings; nobody who reads the page has the copies."""
    titles = re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    assert len(titles) == len(POINTS) + 1 and titles[-1] == "MirrorMaker 2's own topics"
    assert "shared/" not in PAGE and "seeds/" not in PAGE and ".txt" not in PAGE


GOOD = ROWS[1]


@pytest.mark.parametrize(
    "wrong",
    [
        GOOD._replace(answer=""),
        GOOD._replace(says=""),
        GOOD._replace(test=""),
        GOOD._replace(test=GOOD.test.replace("::test_", "::test_no_")),
        GOOD._replace(test=GOOD.test.replace(".py", "_gone.py")),
        GOOD._replace(answer="see [nowhere](readiness_check.md#no_such_heading)"),
        GOOD._replace(answer="see [nowhere](no_such_page.md)"),
        GOOD._replace(answer=f"{OPEN}", test="later"),
    ],
)
def test_a_row_that_leads_nowhere_is_found(wrong: Row) -> None:
    """Each fault alone."""
    assert problems_of(GOOD) == [] and len(problems_of(wrong)) == 1
    assert problems_of(GOOD._replace(answer=OPEN, test="")) == []
