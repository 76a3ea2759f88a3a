"""The report has its twenty fields, each filled or called not stated."""

from __future__ import annotations

import json

import pytest
from kafka_dr.domain.drill.facts import DrillFacts
from kafka_dr.domain.drill.report import TITLES, report_document, report_fields
from kafka_dr.domain.drill.section import drill_section

from tests.support.drills.canary_drill import evidence_with, full_story, good_facts

#: What an auditor asks a drill's report for, in this order.
FIELDS = (
    "identity",
    "dates",
    "scope",
    "scenario",
    "objectives",
    "expected",
    "people",
    "third_parties",
    "account",
    "achieved",
    "integrity",
    "other_cluster",
    "deviations",
    "findings",
    "comparison",
    "verdict",
    "sign_offs",
    "retention",
    "versions",
    "chain",
)


def test_all_twenty_fields_are_there_and_filled() -> None:
    """A drill of which all is known states each field, numbered from 1 to 20."""
    document = report_document(evidence_with(drill_section(full_story())))
    assert tuple(field["name"] for field in document["fields"]) == FIELDS == tuple(TITLES)
    assert [field["number"] for field in document["fields"]] == list(range(1, 21))
    assert [field["name"] for field in document["fields"] if not field["stated"]] == []
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("kind", ["observe", "canary", "full"])
def test_a_field_without_facts_is_there_and_says_so(kind: str) -> None:
    """A drill that was killed at its begin has all twenty fields; most of them are not stated."""
    fields = report_fields(evidence_with(drill_section(DrillFacts("d", kind, "primary", "standby"))))
    assert tuple(field.name for field in fields) == FIELDS
    unstated = {field.name for field in fields if not field.stated}
    assert {
        "scenario",
        "objectives",
        "people",
        "third_parties",
        "account",
        "integrity",
        "comparison",
        "retention",
    } <= unstated
    assert not unstated & {"identity", "verdict", "chain", "scope"}


def test_an_older_section_is_filled_up() -> None:
    """Evidence of a version that wrote fewer fields still makes a report."""
    section = drill_section(good_facts())
    old = {name: section[name] for name in ("kind", "verdict", "source", "target")}
    fields = {field.name: field for field in report_fields(evidence_with(old))}
    assert fields["identity"].stated and not fields["findings"].stated
