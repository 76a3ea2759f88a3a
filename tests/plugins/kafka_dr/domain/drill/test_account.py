"""Why a pass did not complete, by its evidence; and whether a source that the drill took away was missed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka_dr.domain.drill.account import planted_faults, why_not_completed
from kafka_dr.domain.drill.facts import DrillFacts, NotDone
from kafka_dr.domain.drill.verdict import Judgement, judge_drill
from kafka_dr.domain.runbook_pages import page_of_failure

from tests.support.drills.canary_drill import good_facts, simulated_loss

ACL = {"gate": "client_acls", "reason": "clients lack rights", "seen": "User:a", "next_step": "Give the rights."}
LAG = {"gate": "lag", "reason": "the flow lags", "seen": "900 records", "next_step": "Wait."}


def failure(reason: str, seen: str = "", next_step: str = "") -> dict[str, Any]:
    """A failure of a step, as in evidence."""
    return {"at": "2026-01-01", "error": "NotReady", "reason": reason, "seen": seen, "next_step": next_step}


def evidence(step: str, failures: list[dict[str, Any]], notes: list[dict[str, Any]]) -> dict[str, Any]:
    """Evidence of a pass that one step has stopped."""
    row = {"id": step, "state": "failed", "failures": failures, "notes": notes, "started_at": None, "ended_at": None}
    return {"outcome": "returned", "failing_step": step, "steps": [row], "reason_for_outcome": "it failed"}


def judged(facts: DrillFacts, told: dict[str, Any]) -> Judgement:
    """The verdict on a drill whose first pass has this evidence."""
    return judge_drill(replace(facts, passes=[replace(facts.passes[0], evidence=told), *facts.passes[1:]]))


def test_the_last_failure_of_the_failing_step_counts() -> None:
    """An earlier try may have failed for another reason."""
    told = evidence("drain_consumers", [failure("no answer"), failure("groups not empty", "g: c-1", "Stop it.")], [])
    assert why_not_completed(told) == [NotDone("drain_consumers", "groups not empty", "g: c-1", "Stop it.")]


def test_each_failed_readiness_check_counts_for_itself() -> None:
    """Checks that failed in an earlier try alone do not count; each has its own advice."""
    last = failure("1 readiness check failed", "client_acls: clients lack rights (User:a)", "client_acls: Give.")
    told = evidence("check_readiness", [failure("2 failed"), last], [{"blockers": [LAG]}, {"blockers": [ACL]}])
    (only,) = why_not_completed(told)
    assert only == NotDone("check_readiness", "clients lack rights", "User:a", "Give the rights.", "client_acls")
    assert only.text == "check_readiness: client_acls: clients lack rights. Seen: User:a. Next: Give the rights."


@pytest.mark.parametrize("told", [{}, {"failing_step": "x", "steps": []}, evidence("x", [], [])])
def test_evidence_without_a_failure_names_none(told: dict[str, Any]) -> None:
    """Evidence of a killed run may lack the failure; the drill then has the reason for the outcome alone."""
    assert why_not_completed(told) == []
    (reason,) = [one for one in judged(good_facts(), told).reasons if one.code == "pass_not_completed"]
    assert reason.text.startswith(f"{good_facts().passes[0].name} had to end as completed")


def test_a_finding_has_the_message_and_the_page_of_the_step() -> None:
    """So that a person who reads the finding alone knows what was seen, what to do, and where that is explained."""
    told = evidence("drain_consumers", [failure("groups not empty", "g: c-1", "Stop it.")], [])
    finding = next(one for one in judged(good_facts(), told).findings if one.severity == "critical")
    assert finding.text.endswith("drain_consumers: groups not empty. Seen: g: c-1. Next: Stop it.")
    assert finding.heading == page_of_failure("drain_consumers")


def test_the_same_message_of_another_drill_is_the_same_finding_and_another_message_another() -> None:
    """Names and figures of one drill do not count; what was wrong does."""

    def ids(*reasons: str) -> set[str]:
        stopped = [evidence("drain_consumers", [failure(reason)], []) for reason in reasons]
        found = [one for told in stopped for one in judged(good_facts(), told).findings]
        return {one.id for one in found if one.severity == "critical"}

    first, second = "switchback-drill.0123456789.a: not within 20 s", "switchback-drill.abcdefabcd.a: not within 7.5 s"
    assert len(ids(first, second)) == 1
    assert len(ids(first, "switchback-drill.0123456789.b: not within 20 s")) == 2


def test_two_faults_of_one_step_are_two_findings() -> None:
    """A drill whose pass has failed two readiness checks names both."""
    seen = f"{ACL['reason']}; {LAG['reason']}"
    told = evidence("check_readiness", [failure("3 readiness checks failed", seen)], [{"blockers": [ACL, LAG, ACL]}])
    found = [one for one in judged(good_facts(), told).findings if one.severity == "critical"]
    assert len({one.id for one in found}) == 2 and ["clients lack rights" in one.text for one in found] == [True, False]


def test_a_step_of_the_drill_itself_is_named_alike() -> None:
    """What stopped the drill has the page of its step, too."""
    stopped = NotDone("prepare_drill", "the records did not arrive", "12 of 600", "Mend the worker.")
    finding = next(one for one in judge_drill(good_facts(stopped=stopped)).findings if one.severity == "critical")
    assert finding.text.endswith("the records did not arrive. Seen: 12 of 600. Next: Mend the worker.")
    assert finding.heading == page_of_failure("prepare_drill")


def test_only_a_pass_without_source_has_a_fault() -> None:
    """And it is noticed where the pass found the source lost, and listed all that is lost."""
    (fault,) = planted_faults(good_facts().passes)
    assert fault.noticed is True and "40 records without a copy on the list, 0 on no list" in fault.seen


@pytest.mark.parametrize(
    ("changes", "noticed"),
    [
        ({"evidence": None}, None),
        ({"evidence": {"steps": [{"id": "confirm_source_lost", "state": "failed"}]}}, False),
        ({"integrity": None}, None),
        ({"integrity": replace(simulated_loss().integrity or 0, lost_unlisted=1)}, False),  # type: ignore[type-var]
    ],
)
def test_what_was_not_seen_is_not_called_noticed(changes: dict[str, Any], noticed: bool | None) -> None:
    """Unknown is neither."""
    (fault,) = planted_faults([replace(simulated_loss(), **changes)])
    assert fault.noticed is noticed
