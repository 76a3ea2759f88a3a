"""A drill passes only if all is known and good; one bad fact more never makes its verdict better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.drill.facts import DrillFacts, DrillPass, NotDone, Planted, SignOffAnswer, Untouched
from kafka_dr.domain.drill.findings import finding_id
from kafka_dr.domain.drill.section import drill_section
from kafka_dr.domain.drill.verdict import DrillVerdict, judge_drill

from tests.support.drills.canary_drill import TEXTS, at, good_facts

WORSE = [DrillVerdict.PASSED, DrillVerdict.CONDITIONAL, DrillVerdict.FAILED]


def with_pass(facts: DrillFacts, number: int, **changes: Any) -> DrillFacts:
    """The facts with one pass changed; without effect if there is no such pass."""
    passes = list(facts.passes)
    if number < len(passes):
        passes[number] = replace(passes[number], **changes)
    return replace(facts, passes=passes)


def counting(facts: DrillFacts, number: int, **changes: Any) -> DrillFacts:
    """The facts with other counts of one pass."""
    one = facts.passes[number] if number < len(facts.passes) else None
    return with_pass(facts, number, integrity=replace(one.integrity, **changes)) if one and one.integrity else facts


def telling(facts: DrillFacts, number: int, **changes: Any) -> DrillFacts:
    """The facts with other fields in the evidence of one pass."""
    one = facts.passes[number] if number < len(facts.passes) else None
    return with_pass(facts, number, evidence={**one.evidence, **changes}) if one and one.evidence else facts


def breached(facts: DrillFacts) -> DrillFacts:
    """The first pass took longer than its objective."""
    evidence = (facts.passes[0].evidence if facts.passes else None) or {}
    if not evidence.get("achieved"):
        return facts
    verdicts = {**evidence["achieved"]["verdicts"], "rto_seconds": {"verdict": "breached", "reason": "too slow"}}
    return telling(facts, 0, achieved={**evidence["achieved"], "downtime_seconds": 1e6, "verdicts": verdicts})


def left_open(facts: DrillFacts) -> DrillFacts:
    """The last drill left a finding open."""
    row = {"id": "F-0LD000", "severity": "major", "text": "old", "state": "open", "owner": None, "due": None}
    return replace(facts, previous={"findings": [row]})


#: A row of a move's loss, as translation writes it.
DELETED = {
    "topic": "orders",
    "partition": 0,
    "from_offset": 0,
    "certain_to": 5,
    "possible_to": 5,
    "records": 5,
    "reason": "below the target's log start",
}
FAILING: dict[str, Callable[[DrillFacts], DrillFacts]] = {
    "no pass": lambda f: replace(f, passes=()),
    "a pass without evidence": lambda f: with_pass(f, 1, evidence=None),
    "a pass that returned": lambda f: telling(f, 0, outcome="returned"),
    "a pass that did not end as it had to": lambda f: with_pass(f, 0, expected="refused"),
    "a position ahead": lambda f: counting(f, 0, positions_ahead=1),
    "a record lost without a list": lambda f: counting(f, 2, lost_unlisted=1),
    "a record that is in no place": lambda f: counting(f, 0, mirrored=4999),
    "a record lost although nothing was taken away": lambda f: counting(f, 0, lost_listed=1, mirrored=4999, read=4999),
    "records that the target had deleted, and others": lambda f: telling(
        f, 0, loss=[DELETED, DELETED | {"from_offset": 9, "possible_to": 10, "reason": "not on the target"}]
    ),
    "lost ranges in the evidence of a planned pass": lambda f: telling(
        f, 0, loss=[{"from_offset": 1, "certain_to": None, "possible_to": None}]
    ),
    "a record that no group read": lambda f: counting(f, 0, read=4999),
    "more re-reads than the bound": lambda f: counting(f, 2, reread_most=7),
    "production touched": lambda f: replace(f, untouched=Untouched(["ACLs"], ["an ACL entry is gone"])),
    "a change outside of the scope": lambda f: replace(f, scope_refusals=["topic orders"]),
    "a fault that nobody noticed": lambda f: replace(f, planted=[Planted("a fault", "named", "", False)]),
    "a drill that was stopped": lambda f: replace(f, stopped=NotDone("prepare_drill", "a live failover began")),
}
CONDITIONS: dict[str, Callable[[DrillFacts], DrillFacts]] = {
    "a breached objective": breached,
    "an unknown downtime": lambda f: telling(f, 0, achieved=None),
    "left over": lambda f: replace(f, left_over=["topic x"]),
    "a clean-up that did not end": lambda f: replace(f, left_over=None),
    "a finding that the last drill left open": left_open,
    "no sign-off": lambda f: replace(f, sign_offs=()),
    "a finding that a person reports": lambda f: replace(
        f, sign_offs=[SignOffAnswer("a", at(1), {"findings_owners": "NEW: Ann, due 2027-01-01, the list is old"})]
    ),
    "no fingerprint": lambda f: replace(f, fingerprint=None),
    "production not compared": lambda f: replace(f, untouched=None),
    "nothing compared": lambda f: replace(f, untouched=Untouched()),
    "production compared in part": lambda f: replace(f, untouched=Untouched(["ACLs"], [], ["quotas: time out"])),
    "readiness not checked": lambda f: replace(f, checks=None),
    "readiness failed": lambda f: replace(f, checks=[{"id": "lag", "severity": "failed", "text": "t"}]),
    "readiness unknown": lambda f: replace(f, checks=[{"id": "lag", "severity": "unknown", "text": "t"}]),
    "a fault of which nobody knows": lambda f: replace(f, planted=[Planted("a fault", "named")]),
    "nothing counted": lambda f: with_pass(f, 0, integrity=None),
    "positions not counted": lambda f: counting(f, 0, positions_ahead=None),
    "re-reads without a bound": lambda f: telling(f, 2, rereads={"bound": None, "mirror_maker": None}),
    "incomplete evidence": lambda f: telling(f, 0, problems=["boundary.parquet is gone"]),
    "records that the target had deleted": lambda f: telling(f, 0, loss=[DELETED]),
    "a contested move": lambda f: telling(f, 0, contested="somebody resumes the old flow"),
}


def test_a_drill_in_which_all_is_known_and_good_passes() -> None:
    """No reason, no finding; a simulated loss whose records are all listed is good."""
    judged = judge_drill(good_facts())
    assert (judged.verdict, list(judged.reasons), list(judged.findings)) == (DrillVerdict.PASSED, [], [])


@pytest.mark.parametrize("change", FAILING.values(), ids=FAILING)
def test_what_fails_a_drill(change: Callable[[DrillFacts], DrillFacts]) -> None:
    """Each of these alone fails a drill, and makes a critical finding that is open."""
    judged = judge_drill(change(good_facts()))
    assert judged.verdict is DrillVerdict.FAILED
    assert [finding for finding in judged.findings if finding.severity == "critical" and finding.is_open]


@pytest.mark.parametrize("change", CONDITIONS.values(), ids=CONDITIONS)
def test_what_makes_a_drill_conditional(change: Callable[[DrillFacts], DrillFacts]) -> None:
    """Each of these alone keeps a drill from passing, and does not fail it."""
    judged = judge_drill(change(good_facts()))
    assert judged.verdict is DrillVerdict.CONDITIONAL and judged.reasons


#: Changes of which no two touch the same fact, so that any set of them can be made together.
APART = {
    **{
        name: change
        for name, change in FAILING.items()
        if name
        in (
            "a position ahead",
            "production touched",
            "a change outside of the scope",
            "a fault that nobody noticed",
            "a drill that was stopped",
        )
    },
    **{
        name: change
        for name, change in CONDITIONS.items()
        if name
        in (
            "a breached objective",
            "left over",
            "a finding that the last drill left open",
            "no sign-off",
            "no fingerprint",
            "readiness not checked",
            "incomplete evidence",
            "a contested move",
        )
    },
    "a pass that failed": lambda f: telling(f, 3, outcome="failed"),
    "a record lost": lambda f: counting(f, 2, lost_unlisted=1),
    "a record not read": lambda f: counting(f, 1, read=0),
    "an unknown downtime on the way back": lambda f: telling(f, 1, achieved=None),
    "nothing counted in the last pass": lambda f: with_pass(f, 3, integrity=None),
}


@given(st.sets(st.sampled_from(sorted(APART))), st.sampled_from(sorted(APART)), st.sampled_from(["canary", "full"]))
def test_a_bad_fact_more_never_makes_a_verdict_better(before: set[str], more: str, kind: str) -> None:
    """Invariant 3: whatever is bad already, one more bad fact leaves the verdict or makes it worse."""
    assert WORSE.index(verdict_with({*before, more}, kind)) >= WORSE.index(verdict_with(before, kind))


def verdict_with(changes: set[str], kind: str) -> DrillVerdict:
    """The verdict on an otherwise good drill with these changes."""
    facts = good_facts(kind=kind)
    for name in sorted(changes):
        facts = APART[name](facts)
    return judge_drill(facts).verdict


@given(st.sampled_from(["observe", "canary", "full"]))
def test_a_drill_of_which_nothing_is_known_does_not_pass(kind: str) -> None:
    """Unknown is never taken for good."""
    assert judge_drill(DrillFacts("d", kind, "a", "b")).verdict is not DrillVerdict.PASSED


OUTLOOK = {"certain": 0, "possible": 3, "rereads": 0, "seconds": 44.0}


def observed(**changes: Any) -> DrillFacts:
    """An observe drill that passes."""
    objectives = {"rto_seconds": 60.0, "rpo_records": 10}
    return good_facts(**{"kind": "observe", "passes": (), "outlook": OUTLOOK, "objectives": objectives, **changes})


def test_an_observe_drill_is_judged_by_checks_and_forecast() -> None:
    """It has no passes; the forecast of what a failover now would cost stands beside the objectives."""
    judged = judge_drill(observed())
    assert (judged.verdict, list(judged.reasons)) == (DrillVerdict.PASSED, [])
    failed = [{"id": "lag", "severity": "failed", "text": "no progress"}]
    assert judge_drill(observed(checks=failed)).verdict is DrillVerdict.FAILED
    assert judge_drill(observed(checks=None)).verdict is DrillVerdict.FAILED
    for worse in ({"seconds": 61.0}, {"seconds": None}, {"possible": None}):
        assert judge_drill(observed(outlook={**OUTLOOK, **worse})).verdict is DrillVerdict.CONDITIONAL


def test_a_finding_in_words_of_another_version_stays_open() -> None:
    """A severity or state that this version does not know never makes a finding disappear."""
    row = {"id": "F-0LD000", "severity": "blocker", "text": "old", "state": "deferred"}
    judged = judge_drill(good_facts(previous={"findings": [row, {"id": "F-0LD001"}]}))
    assert [(one.severity.value, one.is_open) for one in judged.findings] == [("major", True), ("major", True)]


def test_a_full_drill_needs_no_count_of_its_own() -> None:
    """Real clients moved: the drill has no records of its own, and its passes' evidence proves what is claimed."""
    facts = good_facts(kind="full", untouched=None, left_over=None)
    bare = replace(facts, passes=[replace(one, integrity=None) for one in (facts.passes[0], facts.passes[1])])
    assert judge_drill(bare).verdict is DrillVerdict.PASSED


def test_an_id_is_the_same_in_each_drill() -> None:
    """It follows from what is wrong, so a fault that comes again is known, with its owner and date."""
    late = breached(good_facts())
    (first,) = judge_drill(late).findings
    owned = f"{first.id}: Ann Lee, due 2027-01-31"
    signed = replace(late, sign_offs=[SignOffAnswer("approver", at(690), {**TEXTS, "findings_owners": owned})])
    again = judge_drill(replace(late, drill_id="next", previous=drill_section(signed)))
    (second,) = again.findings
    assert (second.id, second.owner, second.due) == (first.id, "Ann Lee", "2027-01-31")
    assert (second.found_in, first.id) == (
        late.drill_id,
        finding_id("objective_breached", "planned_failover rto_seconds"),
    )


@pytest.mark.parametrize("answer", ["closed, the topic was deleted", "accepted by Bo, it is harmless"])
def test_a_finding_of_the_last_drill_blocks_until_a_person_answers_it(answer: str) -> None:
    """Open, the next drill is conditional although it did not find the fault again; closed or accepted, it passes."""
    last = drill_section(replace(good_facts(), left_over=["topic x"]))
    (finding,) = last["findings"]
    facts = replace(good_facts(), drill_id="next", previous=last)
    assert judge_drill(facts).verdict is DrillVerdict.CONDITIONAL
    signed = replace(facts, sign_offs=[SignOffAnswer("a", at(9), {"findings_owners": f"{finding['id']}: {answer}"})])
    judged = judge_drill(signed)
    assert judged.verdict is DrillVerdict.PASSED
    assert [(one.id, one.is_open) for one in judged.findings] == [(finding["id"], False)]
    later = judge_drill(replace(good_facts(), drill_id="later", previous=drill_section(signed)))
    assert list(later.findings) == []


def test_accepting_a_fault_of_this_drill_leaves_the_verdict() -> None:
    """What a person accepts is no longer open; the drill still showed it."""
    (finding,) = judge_drill(breached(good_facts())).findings
    answer = SignOffAnswer("a", at(9), {"findings_owners": f"{finding.id}: accepted by Bo, budget"})
    judged = judge_drill(replace(breached(good_facts()), sign_offs=[answer]))
    assert judged.verdict is DrillVerdict.CONDITIONAL
    assert [(one.state.value, one.by, one.answer) for one in judged.findings] == [("accepted", "Bo", "budget")]


def test_a_reported_finding_can_be_closed_in_a_later_answer() -> None:
    """A second sign-off names the id that the first one's report got."""
    report = SignOffAnswer("a", at(1), {"findings_owners": "NEW: Ann, due 2027-01-01, the list is old"})
    closing = SignOffAnswer(
        "b", at(2), {"findings_owners": f"{finding_id('reported', 'the list is old')}: closed, renewed"}
    )
    judged = judge_drill(replace(good_facts(), sign_offs=[report, closing]))
    assert judged.verdict is DrillVerdict.PASSED and not judged.sign_off.unread


def test_a_simulated_loss_is_judged_by_the_drills_own_count() -> None:
    """The pass cannot bound what a source lost that it could not read; the drill wrote those records and can."""
    facts = good_facts()
    assert judge_drill(facts).verdict is DrillVerdict.PASSED
    many = counting(facts, 2, lost_listed=101, mirrored=4899, read=4899)
    assert [reason.code for reason in judge_drill(many).reasons] == ["objective_breached"]
    uncounted = with_pass(facts, 2, integrity=None)
    assert {"objective_unknown", "not_counted"} == {reason.code for reason in judge_drill(uncounted).reasons}


def test_a_pass_that_had_to_be_refused_is_good_if_it_was() -> None:
    """A fault made on purpose may be the reason why a run has to refuse."""
    refused = DrillPass("refusal", "planned_failover", "primary", "standby", {"outcome": "refused"}, expected="refused")
    facts = good_facts()
    assert judge_drill(replace(facts, passes=[*facts.passes, refused])).verdict is DrillVerdict.PASSED
