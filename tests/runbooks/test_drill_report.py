"""The page about drill reports has each field and each reason, and its examples are understood."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from kafka_dr.domain.drill.facts import SignOffAnswer
from kafka_dr.domain.drill.report import TITLES
from kafka_dr.domain.drill.sign_off import TEXTS, read_sign_offs


def page(root: Path) -> str:
    """The page."""
    return (root / "runbooks" / "drill_report.md").read_text(encoding="utf-8")


def test_the_table_has_the_twenty_fields_in_their_order(root: Path) -> None:
    """Number and name as in drill_report.json."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page(root), re.MULTILINE)
    assert rows == [(str(number), name) for number, name in enumerate(TITLES, 1)]


def test_each_reason_has_a_heading_and_each_heading_is_a_reason(root: Path) -> None:
    """A finding names the heading with its code."""
    tree = ast.parse((root / "plugins/kafka_dr/domain/drill/verdict.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = {call.args[0] for call in calls if call.func.id in ("_failed", "_conditional", "_not_done", "worst", "how")}
    codes = {arg.value for arg in made if isinstance(arg, ast.Constant)} | {"finding_open", "finding_reported"}
    assert len(codes) > 20
    assert set(re.findall(r"^### (\w+)$", page(root), re.MULTILINE)) == codes


def test_the_examples_of_lines_are_understood(root: Path) -> None:
    """Each line of the example, and each text of the gate, is one that the program reads."""
    (example,) = re.findall(r"```text\n(.*?)```", page(root), re.DOTALL)
    answer = SignOffAnswer("a", "2026-11-27T00:00:00+00:00", {"findings_owners": example})
    read = read_sign_offs([answer], ["F-3FA2C1"])
    assert len(read.answers) == 4 and not read.unread
    assert [name for name in TEXTS if f"| `{name}` |" not in page(root)] == []
