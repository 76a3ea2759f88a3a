"""The page of doctor: a heading for every check, in the order of the output, and the words of every finding."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from kafka_dr.actions.doctor.examine import CHECKS
from kafka_dr_spark.examination import PACKAGES

from tests.runbooks.test_messages import constant_parts, spoken

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runbooks" / "doctor.md").read_text(encoding="utf-8")
PRODUCT = ROOT / "plugins" / "kafka_dr"
SOURCES = [
    *(PRODUCT / "domain" / "doctor").glob("*.py"),
    *(PRODUCT / "actions" / "doctor").glob("*.py"),
    PRODUCT / "domain" / "readiness" / "blocker.py",
    PRODUCT / "commands" / "doctor.py",
]
#: Which argument of a call is the reason that people read.
REASONS = {"InstallationFinding": 2, "_finding": 1, "Blocker": 1, "Refusal": 0}


def reasons_in(source: str) -> list[tuple[int, list[str]]]:
    """Line and constant parts of the reason of every finding that a module makes."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [(call, getattr(call.func, "id", getattr(call.func, "attr", ""))) for call in calls]
    return [
        (call.lineno, constant_parts(call.args[REASONS[name]]))
        for call, name in named
        if name in REASONS
        and len(call.args) > REASONS[name]
        and isinstance(call.args[REASONS[name]], ast.Constant | ast.JoinedStr)
    ]


def test_every_check_has_its_heading_in_the_order_of_the_output() -> None:
    """And there is none of another name."""
    assert re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE) == list(CHECKS)


def test_every_finding_is_made_under_the_name_of_a_check() -> None:
    """Its page is the heading."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    named = set(re.findall(r'(?:InstallationFinding|Unit|finding_of)\(\s*"(\w+)"', text)) | set(
        re.findall(r'_CHECK = "(\w+)"', text)
    )
    assert len(named) > 10 and named <= set(CHECKS)


def test_the_words_of_every_finding_stand_on_the_page() -> None:
    """Whoever reads a finding finds its row."""
    page = spoken(PAGE)
    found = [
        (path.name, line, part)
        for path in SOURCES
        for line, parts in reasons_in(path.read_text(encoding="utf-8"))
        for part in parts
    ]
    assert len(found) > 40
    assert [one for one in found if " ".join(one[2].split()) not in page] == []


def test_a_finding_that_the_page_lacks_is_found() -> None:
    """By its constant words."""
    assert reasons_in("InstallationFinding('reach', 'a', f'The moon is {full} tonight', 's', 'd')") == [
        (1, ["The moon is"])
    ]


def test_the_page_on_spark_names_the_packages_that_are_looked_for() -> None:
    """Whoever builds the executors' Python by it passes the check."""
    page = (ROOT / "runbooks" / "where_spark_runs.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("- Executors have the Python of the driver")]
    assert [package for package in PACKAGES if f"`{package.replace('_', '-')}`" not in line] == []
