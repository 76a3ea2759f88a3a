"""What a step says stands on a page, and what the pages quote is said by the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_dr import errors

ROOT = Path(__file__).parents[2]
RUNBOOKS, PRODUCT = ROOT / "runbooks", ROOT / "plugins" / "kafka_dr"
STEPS = sorted(path for folder in ("steps", "actions", "watcher") for path in (PRODUCT / folder).rglob("*.py"))
PAGES = sorted(RUNBOOKS.glob("*.md"))
ERRORS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.SwitchbackError)
} - {"SwitchbackError"}
#: Calls whose second argument becomes the beginning of a message.
TELLING = {"wait", "_not_yet"}


def spoken(page: str) -> str:
    """A page's words: no marks of code, no line breaks."""
    return " ".join(page.replace("`", "").split())


def constant_parts(node: ast.expr) -> list[str]:
    """The parts of a text that are always the same, several words each."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    parts = [
        value.value.strip(" .,:;")
        for value in values
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
    return [part for part in parts if " " in part]


def messages(source: str) -> Iterator[tuple[int, list[str]]]:
    """Line and constant parts of every message that a module raises, or begins by naming what it waits for."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        at = 0 if name in ERRORS else 1 if name in TELLING else None
        if at is not None and len(call.args) > at and isinstance(call.args[at], ast.Constant | ast.JoinedStr):
            told = constant_parts(call.args[at])
            if told or name in ERRORS:
                yield call.lineno, told


def unnamed(source: str, pages: str) -> list[str]:
    """Messages of a module that the pages do not have, or that have no constant words to look for."""
    return [
        f"line {line}: {parts}"
        for line, parts in messages(source)
        if not parts or any(" ".join(part.split()) not in pages for part in parts)
    ]


@pytest.mark.parametrize("module", STEPS, ids=lambda p: p.stem)
def test_every_message_of_a_step_stands_on_a_page(module: Path) -> None:
    """Whoever reads a red box finds its constant words on one of the pages."""
    pages = spoken(" ".join(page.read_text(encoding="utf-8") for page in PAGES))
    assert unnamed(module.read_text(encoding="utf-8"), pages) == []


def test_a_message_that_no_page_has_is_found() -> None:
    """A new message, a changed one, one without constant words, and a new wait are each noticed; a known one is not."""
    page = spoken("| `... runs again` | it means |\n`Zero\nlag`: `not within`")
    assert unnamed("raise Refusal(f'{name} runs again', 'seen')", page) == []
    for source in (
        "raise Refusal('The moon is full')",
        "raise NotReady(f'{name} runs once more')",
        "raise Contradiction(f'{name}')",
        "procedure.progress.wait(self.task_id, 'Full moon', look, 5)",
    ):
        assert len(unnamed(source, page)) == 1, source
    assert unnamed("procedure.progress.wait(self.task_id, 'Zero lag', look, 5)", page) == []


def said_by_the_code() -> list[str]:
    """Every text in the product but docstrings, and the words of the web pages."""
    found = [
        re.sub(r"<[^>]*>|{[{%].*?[}%]}", "", path.read_text(encoding="utf-8"))
        for path in (PRODUCT / "templates").glob("*.html.j2")
    ]
    for path in PRODUCT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
        ]
    return found


def quoted(page: str, first_cells: bool) -> set[str]:
    """What a page quotes: sentences in backticks, or in a table's first column."""
    marked = set(re.findall(r"`((?:[A-Z][a-z]|\.\.\. )[^`]* [^`]*)`", page))
    cells = re.findall(r"^\|([^|]*)\|", page, flags=re.MULTILINE) if first_cells else []
    return marked | {text for cell in cells for text in re.findall(r"`([^`]* [^`]*)`", cell)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_message_on_a_page_is_said_by_the_code(page: Path) -> None:
    """No page explains a message that no longer exists: each part between names and numbers is found in the code."""
    texts = said_by_the_code()
    found = quoted(page.read_text(encoding="utf-8"), page.stem == "stuck_procedure")
    parts = {part.strip(" .,:") for text in found for part in re.split(r"\.\.\.|: (?=not within)", text)}
    assert len(found) > 50 or page.stem != "stuck_procedure"
    assert [part for part in sorted(parts) if not any(part in text for text in texts)] == []
