"""The page of readiness_check: a heading for every finding, the fields of the document, the defaults of the limits."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from kafka_dr.config.objectives import ReadinessLimits
from kafka_dr.domain.readiness.readiness import CHECKS
from kafka_dr.domain.readiness.report import FORM, Checked, Outlook, document_of
from kafka_dr.domain.readiness.state import Gravity, State
from kafka_dr.domain.runbook_pages import page_of_finding

from tests.plugins.kafka_dr.domain.readiness.test_state import NOW

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runbooks" / "readiness_check.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:])
PRODUCT = ROOT / "plugins" / "kafka_dr"
SOURCES = [*(PRODUCT / "domain" / "readiness").glob("*.py"), PRODUCT / "actions" / "readiness" / "flow_check.py"]


#: Functions that make a finding of the id that is their first argument.
MAKERS = ("ReadinessFinding", "_failed", "_left_alone")


def ids_in(source: str) -> set[str]:
    """The ids of findings that a module makes."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    makers = [call for call in calls if getattr(call.func, "id", getattr(call.func, "attr", "")) in MAKERS]
    return {call.args[0].value for call in makers if isinstance(call.args[0], ast.Constant)}


#: Ids that are put together, or given in a list.
OTHERS = {"checkpoints_quiet", "offset_syncs_quiet", "open_files", "spark"}
IDS = sorted({name for path in SOURCES for name in ids_in(path.read_text(encoding="utf-8"))} | OTHERS)


@pytest.mark.parametrize("finding", IDS)
def test_every_finding_has_its_heading(finding: str) -> None:
    """With what is seen, why, and what to do."""
    assert len(IDS) > 20
    parts = re.findall(r"^\*\*(\w+)\.\*\* \S", SECTIONS[finding], flags=re.MULTILINE)
    assert parts == ["Symptom", "Cause", "Do"]


def test_the_page_of_each_finding_exists() -> None:
    """As Switchback's first page names it, also for the checks that procedures make."""
    checks = frozenset(check.__name__ for check in CHECKS)
    assert checks.isdisjoint(IDS)
    for finding in (*IDS, *checks):
        path, heading = page_of_finding(finding, checks).split("#")
        assert f"\n## {heading}\n" in (ROOT / path).read_text(encoding="utf-8")


def test_no_heading_explains_a_finding_that_does_not_exist() -> None:
    """Every section in this form is one of a finding."""
    assert sorted(name for name, text in SECTIONS.items() if "**Symptom.**" in text) == IDS


def test_a_new_finding_is_noticed() -> None:
    """One made by each maker."""
    assert ids_in(
        "ReadinessFinding('moon', s, '', 't'); _failed('sun', 't'); x._left_alone('mars', 't'); other('star')"
    ) == {
        "moon",
        "sun",
        "mars",
    }


def test_the_limits_on_the_page_are_the_defaults() -> None:
    """All of them."""
    (flow,) = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)[0])["flows"]
    assert flow["readiness"] == ReadinessLimits().model_dump()


def test_the_table_of_the_document_names_every_field() -> None:
    """And the states and severities that it may hold."""
    document = document_of(Checked("a", "b", NOW, [], Outlook()), None)
    rows = [row.partition(" | ")[0] for row in SECTIONS["The document"].splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named | {"form", "source", "target"} == set(document) and f"`form` ({FORM})" in PAGE
    assert all(f"`{state}`" in PAGE for state in State) and all(f"`{severity}`" in PAGE for severity in Gravity)
