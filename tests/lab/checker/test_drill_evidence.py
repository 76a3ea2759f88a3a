"""The checker of a drill's evidence finds what is absent, and what claims too much."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.drill.facts import DrillFacts
from kafka_dr.domain.drill.section import drill_section

from lab.checker.drill_evidence import SECTION, drill_findings
from tests.support.drills.canary_drill import evidence_with, full_story, good_facts

FACTS = [
    good_facts(),
    full_story(),
    *(DrillFacts("d", kind, "primary", "standby") for kind in ("observe", "canary", "full")),
]


def evidence_of(facts: DrillFacts) -> dict[str, Any]:
    """Evidence of a drill; a failed one failed."""
    section = drill_section(facts)
    return evidence_with(section, outcome="failed" if section["verdict"] == "failed" else "completed")


@pytest.mark.parametrize("facts", FACTS)
def test_what_the_product_writes_is_whole(facts: DrillFacts) -> None:
    """For each kind and each verdict."""
    assert drill_findings(evidence_of(facts)) == []


@pytest.mark.parametrize("name", sorted(SECTION))
def test_an_absent_field_of_the_section_is_caught(name: str) -> None:
    """And one of a wrong type."""
    for change in ({}, {name: 7}):
        evidence = evidence_of(good_facts())
        evidence["drill"] = {**{k: v for k, v in evidence["drill"].items() if k != name}, **change}
        (finding,) = drill_findings(evidence)
        assert name in finding.text


ONE = {"id": "F-1", "severity": "major", "owner": None, "due": None, "state": "open"}
SPOILT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no section": ({}, {"drill": None}, "drill is None"),
    "another verdict": ({"verdict": "fine"}, {}, "drill.verdict is 'fine'"),
    "another kind": ({"kind": "tabletop"}, {}, "drill.kind is 'tabletop'"),
    "a finding without state": ({"findings": [{"id": "F-1"}], "verdict": "conditional"}, {}, "findings without id"),
    "failed and completed": ({"verdict": "failed"}, {}, "the outcome is completed, and the verdict is failed"),
    "failed and refused": (
        {"verdict": "failed"},
        {"outcome": "refused"},
        "the verdict is failed, and the outcome is not",
    ),
    "passed with an open finding": ({"findings": [ONE]}, {}, "passed with open findings: F-1"),
    "passed without comparison": ({"untouched": None}, {}, "not shown to be untouched"),
    "loss at the top": ({}, {"loss": [{"topic": "t"}]}, "at the top of the evidence"),
    "everything tested": ({"not_tested": []}, {}, "nothing was left untested"),
}


@pytest.mark.parametrize(("section", "evidence", "said"), SPOILT.values(), ids=SPOILT)
def test_a_claim_that_the_section_does_not_bear_is_caught(
    section: dict[str, Any], evidence: dict[str, Any], said: str
) -> None:
    """Each is named in words."""
    whole = evidence_of(good_facts())
    whole["drill"] = {**whole["drill"], **section}
    assert any(said in finding.text for finding in drill_findings({**whole, **evidence}))
