"""The `drill` section has the contract's fields in every drill, and states a simulated loss."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from kafka_dr.domain.drill.facts import DrillFacts, NotDone, Untouched
from kafka_dr.domain.drill.section import drill_section

from tests.support.drills.canary_drill import at, full_story, good_facts, last_drill

CONTRACT = {
    "kind",
    "verdict",
    "scenario",
    "scope",
    "not_tested",
    "steps_not_run",
    "objectives",
    "achieved",
    "findings",
    "previous",
    "fingerprint",
    "untouched",
    "next_due",
}
BARE = [DrillFacts("d", kind, "primary", "standby") for kind in ("observe", "canary", "full")]


@pytest.mark.parametrize(
    "facts", [*BARE, good_facts(), full_story()], ids=["observe", "canary", "full", "good", "story"]
)
def test_every_field_stands_in_every_drill(facts: DrillFacts) -> None:
    """Null or empty where the drill has no such fact; the whole section is JSON."""
    section = drill_section(facts)
    assert section.keys() >= CONTRACT and section.keys() == drill_section(good_facts()).keys()
    assert json.loads(json.dumps(section, allow_nan=False)) == section
    for finding in section["findings"]:
        assert {"id", "severity", "owner", "due", "state"} <= finding.keys()
    assert section["not_tested"], "a drill that claims to have tested everything"


def test_the_loss_of_a_simulated_loss_stands_in_the_section() -> None:
    """With its rows, and with the drill's own count in place of the pass's missing bound."""
    section = drill_section(good_facts())
    (lost,) = [one for one in section["passes"] if one["loss"]]
    assert lost["simulated_loss"] and lost["loss"][0]["certain_to"] == 1830
    assert section["achieved"]["lost_records"] == {"certain": 40, "possible": 40}
    assert section["achieved"]["lost_seconds"] == {"certain": 1.4, "possible": 1.4}
    assert section["achieved"]["downtime_seconds"] == 61.0


def test_an_objectives_worst_verdict_over_all_passes_counts() -> None:
    """One breach among four passes is what the drill has achieved."""
    verdicts = drill_section(full_story())["achieved"]["verdicts"]
    assert {name: one["verdict"] for name, one in verdicts.items()} == {
        "rto_seconds": "breached",
        "rpo_seconds": "met",
        "rpo_records": "met",
    }
    assert verdicts["rto_seconds"]["reason"].startswith("planned_failover: ")


def test_steps_that_did_not_run_have_a_reason() -> None:
    """Of the drill and of its passes; a pass without evidence lists all its steps."""
    facts = full_story()
    assert drill_section(facts)["steps_not_run"] == [
        {"pass": None, "step": "compare_production", "why": "the lab has one pair only"}
    ]
    facts = replace(facts, passes=[*facts.passes[:3], replace(facts.passes[3], evidence=None)])
    rows = drill_section(facts)["steps_not_run"]
    assert {row["pass"] for row in rows} == {None, "failback_after_loss"} and all(row["why"] for row in rows)
    stopped = {**(facts.passes[0].evidence or {}), "outcome": "refused", "failing_step": "forecast", "steps": []}
    rows = drill_section(replace(facts, passes=[replace(facts.passes[0], evidence=stopped)]))["steps_not_run"]
    assert "the run ended before as refused at forecast" in [row["why"] for row in rows]


def test_what_was_not_tested_says_what_a_kind_of_drill_cannot_show() -> None:
    """A canary drill tests neither production's connectors nor real clients; an observe drill changes nothing."""
    canary = " ".join(drill_section(good_facts())["not_tested"])
    assert all(words in canary for words in ("production's connectors", "ACL patterns", "real clients", "real volume"))
    assert "share groups: no version of MirrorMaker 2 moves them" in canary
    assert "everything that changes something" in drill_section(good_facts(kind="observe", passes=()))["not_tested"][0]
    full = drill_section(good_facts(kind="full", passes=good_facts().passes[:2], could_not=["no proxy was restarted"]))
    assert "no proxy was restarted" in full["not_tested"]
    assert "unplanned_failover: no pass of it ended" in full["not_tested"]


def test_the_next_drill_is_due_by_the_calendar_and_a_failed_one_earlier() -> None:
    """A failed drill is repeated within its own period."""
    good, failed = (
        drill_section(good_facts()),
        drill_section(good_facts(stopped=NotDone("prepare_drill", "a live failover"))),
    )
    assert (good["next_due"], good["retest_due"]) == (at(700 + 92 * 86400), None)
    assert (failed["next_due"], failed["retest_due"]) == (at(700 + 30 * 86400),) * 2
    assert drill_section(good_facts(closed_at=None))["next_due"] is None


@pytest.mark.parametrize(
    ("untouched", "held"),
    [
        (Untouched(["ACLs"]), True),
        (Untouched(["ACLs"], ["gone"]), False),
        (Untouched(["ACLs"], [], ["quotas"]), None),
        (Untouched(), None),
        (Untouched([], ["gone"], ["quotas"]), False),
    ],
)
def test_production_is_called_untouched_only_if_all_was_compared(untouched: Untouched, held: bool | None) -> None:
    """Nothing compared, or a part not read, is unknown."""
    assert drill_section(good_facts(untouched=untouched))["untouched"]["held"] is held


def test_people_are_listed_with_their_roles() -> None:
    """Who started, who approved which gate of which pass, who observed."""
    facts = good_facts()
    approval = {"step": "approve_failover", "by": "approver", "at": at(70), "digest": "d"}
    first = replace(facts.passes[0], evidence={**(facts.passes[0].evidence or {}), "approvals": [approval]})
    people = drill_section(replace(facts, passes=[first]))["people"]
    assert [(one["name"], one["role"]) for one in people] == [
        ("operator", "started"),
        ("approver", "approved approve_failover of planned_failover"),
        ("Ines Example", "observed"),
        ("Otto Muster", "observed"),
    ]


def test_the_time_on_the_other_cluster_and_the_return() -> None:
    """From one redirection of clients to the next; the last pass brought them back."""
    achieved = drill_section(good_facts())["achieved"]
    assert [one["cluster"] for one in achieved["other_cluster"]] == ["standby", "standby"]
    assert all(one["seconds"] > 0 for one in achieved["other_cluster"]) and achieved["restored"] is True
    there = drill_section(good_facts(passes=good_facts().passes[:1]))["achieved"]
    assert (there["other_cluster"], there["restored"]) == ([], False)


def test_the_last_drill_is_named_by_id_verdict_and_digest() -> None:
    """A drill that was left out of the chain shows; its own long section is not repeated."""
    previous = drill_section(good_facts(previous=last_drill(), previous_digest="9" * 64))["previous"]
    assert previous["procedure_id"].endswith("2026-08-27") and previous["digest"] == "9" * 64
    assert previous["verdict"] == "conditional" and "passes" not in previous


def test_retries_are_listed_from_the_evidence_of_the_passes() -> None:
    """A step that failed and was tried again is a deviation although it ended well."""
    (retry,) = drill_section(full_story())["retries"]
    assert (retry["pass"], retry["step"], retry["reason"]) == (
        "planned_failover",
        "commit_groups",
        "standby did not answer",
    )
