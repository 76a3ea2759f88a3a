"""The page of a drill's report: all twenty fields, every value as text, nothing hidden."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions.drill_report import drill_report_files, drill_report_page
from kafka_dr.actions.evidence import evidence_page, write_evidence
from kafka_dr.commands.verify_evidence import changed_page
from kafka_dr.domain.drill.facts import DrillFacts, NotDone, SignOffAnswer
from kafka_dr.domain.drill.report import TITLES
from kafka_dr.domain.drill.section import drill_section

from tests.support.drills.canary_drill import at, evidence_with, full_story, good_facts

ODD = "<script>alert('x')</script>&\"'{{ 7*7 }}\u202e"
FACTS = {
    "observe": DrillFacts("d", "observe", "primary", "standby"),
    "canary": DrillFacts("d", "canary", "primary", "standby"),
    "full": DrillFacts("d", "full", "primary", "standby"),
    "good": good_facts(),
    "story": full_story(),
    "stopped": good_facts(
        stopped=NotDone("drain_consumers", "a live failover"),
        scope_refusals=["topic orders"],
        left_over=["topic x"],
        untouched=None,
    ),
}


def page_of(facts: DrillFacts) -> str:
    """The page of a drill with these facts."""
    return drill_report_page(evidence_with(drill_section(facts)))


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_all_twenty_fields_have_a_heading_with_their_number(facts: DrillFacts) -> None:
    """In their order, whatever is known of the drill."""
    headings = re.findall(r'<h2 id="(\w+)"><span class="no">(\d+)</span>([^<]+)</h2>', page_of(facts))
    titles = [title for _, _, title in headings]
    assert [name for name, _, _ in headings] == list(TITLES) and [int(n) for _, n, _ in headings] == list(range(1, 21))
    assert titles == [title.replace("'", "&#39;") for title in TITLES.values()]


def test_what_is_not_known_is_called_not_stated() -> None:
    """A section without facts says so; it is not left out."""
    page = page_of(FACTS["canary"])
    for part in re.split(r'<h2 id="', page)[1:]:
        assert re.search(r"<(td|dd|li|p|div|h3)", part), part[:100]
    assert page.count("not stated") > 15 and ">None<" not in page


def test_the_first_page_says_what_counts() -> None:
    """Kind, verdict, dates, what was not tested, achieved beside objectives, open findings and sign-offs come first."""
    first = page_of(full_story()).split('<div class="rest">')[0]
    for words in (
        "canary drill from primary to standby passed with conditions",
        "2026-11-27 02:00:00 UTC",
        "2027-02-27 02:11:40 UTC",
        "production&#39;s connectors",
        "breached: RTO 5 min 00 s",
        "the call list was out of date",
        "Ines Example",
        "The drill shows what it was meant to show.",
        "could not be understood",
    ):
        assert words in first, words


def test_every_value_is_text() -> None:
    """Markup and direction marks of names and free texts have no effect, in any field."""
    texts = dict.fromkeys(("scenario", "third_parties", "observers", "findings_owners", "conclusion"), ODD)
    facts = full_story()
    section = drill_section(
        good_facts(
            drill_id=ODD,
            reason=ODD,
            scenario=ODD,
            assumptions=[ODD],
            stopped=NotDone(ODD, ODD, ODD, ODD, ODD),
            scope={**facts.scope, ODD: ODD, "topics": [ODD]},
            scope_refusals=[ODD],
            left_over=[ODD],
            could_not=[ODD],
            sign_offs=[SignOffAnswer(ODD, at(1), texts)],
            versions={ODD: ODD},
            signature=ODD,
            started_by=ODD,
            folder=ODD,
            not_run={ODD: ODD},
            planned_steps=[ODD],
            previous=facts.previous,
            deviations=facts.deviations,
        )
    )
    page = drill_report_page(evidence_with(section))
    assert "<script" not in page and "\u202e" not in page and "{{ 7*7 }}" in page


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_the_evidence_page_speaks_of_the_drill_not_of_clients(facts: DrillFacts) -> None:
    """A drill moved nobody: its first lines say what it was, and where the report is."""
    page = evidence_page(evidence_with(drill_section(facts)))
    assert f"The {facts.kind} drill from primary to standby" in page and "drill_report.html" in page
    assert "All clients were moved" not in page


def test_the_report_lies_beside_the_evidence_and_one_changed_byte_is_found(tmp_path: Path) -> None:
    """Both files follow from evidence.json alone; a procedure that is no drill has neither."""
    evidence = json.loads(json.dumps(evidence_with(drill_section(full_story()))))
    write_evidence(tmp_path, evidence)
    assert {path.name for path in tmp_path.iterdir()} == {
        "evidence.json",
        "evidence.html",
        "drill_report.html",
        "drill_report.json",
    }
    assert list(changed_page(tmp_path, evidence)) == []
    for name in drill_report_files(evidence):
        good = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(good.replace(b"a", b"b", 1))
        assert [problem.split(" ")[0] for problem in changed_page(tmp_path, evidence)] == [name]
        (tmp_path / name).unlink()
        assert list(changed_page(tmp_path, evidence)) == [f"{name} is missing"]
        (tmp_path / name).write_bytes(good)
    assert drill_report_files(evidence_with(None)) == {}


def test_a_large_drill_makes_a_page_that_can_be_read() -> None:
    """Thousands of lost ranges and refusals are cut, and counted."""
    facts = good_facts()
    rows = [{"topic": "t", "partition": n, "from_offset": 1, "certain_to": 2, "possible_to": 2} for n in range(7_000)]
    evidence: dict[str, Any] = {**(facts.passes[2].evidence or {}), "loss": rows}
    passes = [*facts.passes[:2], type(facts.passes[2])(**{**vars(facts.passes[2]), "evidence": evidence})]
    page = page_of(good_facts(passes=passes, scope={**facts.scope, "topics": [f"t-{n}" for n in range(2_000)]}))
    assert "6,900 more ranges are in evidence.json" in page and "and 1950 more" in page and len(page) < 300_000
