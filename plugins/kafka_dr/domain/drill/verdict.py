"""The verdict on a drill: passed, conditional or failed, with every reason.

Invariants
1. One reason that fails a drill makes it failed, whatever else is good.
2. A drill passes only without any reason: what is not known is a reason, too.
3. A fact more that is bad, or a fact less that is known, never makes a verdict better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka_dr.domain.drill.account import why_not_completed
from kafka_dr.domain.drill.facts import DrillFacts, DrillPass, Integrity, NotDone
from kafka_dr.domain.drill.findings import (
    PAGE,
    DrillFinding,
    FindingSeverity,
    finding_id,
    open_before,
    reported_findings,
    same_in_each_drill,
    with_answers,
)
from kafka_dr.domain.drill.objectives import judge_objectives
from kafka_dr.domain.drill.sign_off import SignOff, read_sign_offs
from kafka_dr.domain.objectives.verdict import Verdict, objective_text
from kafka_dr.domain.plain_text import count_of, first_few, format_moment
from kafka_dr.domain.readiness.state import Gravity
from kafka_dr.domain.runbook_pages import page_of_failure

OBSERVE, CANARY, FULL = "observe", "canary", "full"
#: Reason of a row of the evidence's `loss`: the target has deleted the copies, and the source still has the records.
EXPIRED = "below the target's log start"


class DrillVerdict(StrEnum):
    """How a drill went, best first."""

    PASSED = "passed"
    CONDITIONAL = "conditional"
    FAILED = "failed"


@dataclass(frozen=True)
class Reason:
    """Why a drill did not pass.

    Attributes:
        verdict: the best verdict that a drill with this reason can have: conditional or failed.
        code: what is wrong; a heading of the runbook page.
        about: which pass, objective or check it is about, in words that are the same in each drill.
        text: with what was seen, and what to do if a step said so.
        heading: the page and heading of the step that failed; "" if the code is the heading.
    """

    verdict: DrillVerdict
    code: str
    about: str
    text: str
    heading: str = ""

    @property
    def id(self) -> str:
        """Id of the finding that the reason makes."""
        return finding_id(self.code, self.about)


@dataclass(frozen=True)
class Judgement:
    """The verdict on a drill, its reasons, its findings with their owners, and what people signed."""

    verdict: DrillVerdict
    reasons: Sequence[Reason]
    findings: Sequence[DrillFinding]
    sign_off: SignOff


def judge_drill(facts: DrillFacts) -> Judgement:
    """Return the verdict on a drill; before the gate sign_off_drill is answered it lacks the sign-off, and says so."""
    seen = [*_of_passes(facts), *_of_objectives(facts), *_of_production(facts), *_of_the_drill(facts)]
    found, sign_off = _findings(facts, seen)
    reasons = [*seen, *_of_people(facts, found, {reason.id for reason in seen})]
    verdicts = {reason.verdict for reason in reasons}
    verdict = next((v for v in (DrillVerdict.FAILED, DrillVerdict.CONDITIONAL) if v in verdicts), DrillVerdict.PASSED)
    return Judgement(verdict, reasons, found, sign_off)


# -- reasons -----------------------------------------------------------------------------------------------------


def _failed(code: str, about: str, text: str) -> Reason:
    return Reason(DrillVerdict.FAILED, code, about, text)


def _conditional(code: str, about: str, text: str) -> Reason:
    return Reason(DrillVerdict.CONDITIONAL, code, about, text)


def _not_done(code: str, where: str, begin: str, why: NotDone) -> Reason:
    """Return the reason that a step makes which did not do its work; another fault of that step is another finding."""
    about = f"{where} {why.step} {why.check} {same_in_each_drill(why.reason)}"
    return Reason(DrillVerdict.FAILED, code, about, f"{begin}{why.text}", page_of_failure(why.step))


def _of_passes(facts: DrillFacts) -> Iterator[Reason]:
    if not facts.passes and facts.kind != OBSERVE:
        yield _failed("pass_not_completed", "", "no pass of this drill has run")
    for one in facts.passes:
        yield from _of_pass(one)
        yield from _of_integrity(one, facts.kind)


def _of_pass(one: DrillPass) -> Iterator[Reason]:
    outcome = (one.evidence or {}).get("outcome")
    if one.evidence is None:
        yield _failed("pass_not_completed", one.name, f"{one.name} has no evidence: it did not end, or never began")
    elif outcome != one.expected:
        yield from _of_incomplete(one, one.evidence)
    problems = (one.evidence or {}).get("problems") or ()
    if problems:
        yield _conditional(
            "evidence_incomplete", one.name, f"the evidence of {one.name} is incomplete: {first_few(problems, 5, '; ')}"
        )
    if contested := (one.evidence or {}).get("contested"):
        yield _conditional("contested", one.name, f"{one.name}: {contested}")


def _of_incomplete(one: DrillPass, evidence: Mapping[str, Any]) -> Iterator[Reason]:
    begin = f"{one.name} had to end as {one.expected}, and ended as {evidence.get('outcome')}: "
    causes = why_not_completed(evidence)
    yield from (_not_done("pass_not_completed", one.name, begin, why) for why in causes)
    if not causes:
        why = evidence.get("reason_for_outcome") or "no reason is recorded"
        yield _failed("pass_not_completed", one.name, f"{begin}{why}")


def _of_integrity(one: DrillPass, kind: str) -> Iterator[Reason]:
    """Yield reasons of a pass's records and positions: by the drill's own count, in a full drill by the evidence."""
    counted, outcome = one.integrity or Integrity(), (one.evidence or {}).get("outcome")
    unlisted, listed = _unlisted(counted), counted.lost_listed or 0
    if unlisted:
        text = f"{one.name}: {count_of(unlisted, 'record')} are neither on {one.target} nor listed as lost"
        yield _failed("record_lost", one.name, text)
    gone, rows = _expired_and_lost(one)
    if gone:
        records, topics = sum(row["records"] for row in gone), first_few(sorted({row["topic"] for row in gone}))
        text = (
            f"{one.name}: {count_of(records, 'record')} of {topics}, which {one.source} still had, had been deleted on"
            f" {one.target} before the move: groups that had not read them skip them"
        )
        yield _conditional("record_expired", one.name, text)
    if not one.simulated_loss and (listed or rows):
        lost = listed or len(rows)
        text = f"{one.name}: {count_of(lost, 'record' if listed else 'range')} lost, although no loss was simulated"
        yield _failed("record_lost", f"{one.name} listed", text)
    if counted.positions_ahead:
        text = f"{one.name}: {count_of(counted.positions_ahead, 'position')} ahead of records that were not read"
        yield _failed("position_ahead", one.name, text)
    yield from _of_reading(one, counted)
    needed = (counted.written, counted.mirrored, counted.lost_listed, counted.lost_unlisted, counted.positions_ahead)
    if kind != FULL and outcome == one.expected == "completed" and None in (*needed, counted.reread_most):
        text = (
            f"{one.name}: records or positions were not counted by the drill itself, so that its claims are unchecked"
        )
        yield _conditional("not_counted", one.name, text)


def _unlisted(counted: Integrity) -> int:
    """Return how many records are in no place: neither on the target nor on a list."""
    stated, written, mirrored = counted.lost_unlisted or 0, counted.written, counted.mirrored
    missing = 0 if written is None or mirrored is None else written - mirrored - (counted.lost_listed or 0)
    return max(stated, missing, 0)


def _expired_and_lost(one: DrillPass) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the rows of a pass's loss that the target's retention explains, and all other rows with a record."""
    rows = (one.evidence or {}).get("loss") or ()
    expired = [row for row in rows if row.get("reason") == EXPIRED]
    return expired, [
        row
        for row in rows
        if row not in expired and (row["possible_to"] is None or row["possible_to"] > row["from_offset"])
    ]


def _of_reading(one: DrillPass, counted: Integrity) -> Iterator[Reason]:
    """Yield reasons if a group skipped records, or read more records again than the plan said."""
    written, read = counted.written, counted.read
    unread = 0 if written is None or read is None else written - (counted.lost_listed or 0) - read
    if unread > 0:
        yield _failed("record_unread", one.name, f"{one.name}: the groups skipped {count_of(unread, 'record')}")
    bound = ((one.evidence or {}).get("rereads") or {}).get("bound")
    if counted.reread_most is not None and bound is not None and counted.reread_most > bound:
        text = f"{one.name}: one group read {counted.reread_most:,} records again; the bound was {bound:,}"
        yield _failed("rereads_beyond_bound", one.name, text)
    if counted.reread_most and bound is None:
        text = f"{one.name}: one group read {counted.reread_most:,} records again, and the pass states no bound"
        yield _conditional("not_counted", f"{one.name} re-reads", text)


def _of_objectives(facts: DrillFacts) -> Iterator[Reason]:
    for judged in judge_objectives(facts):
        objective = objective_text(judged.name, judged.objective)
        about = f"{judged.of} {judged.name}"
        if judged.verdict is Verdict.BREACHED:
            yield _conditional("objective_breached", about, f"{judged.of}: {objective} was breached: {judged.reason}")
        elif judged.verdict is not Verdict.MET:
            text = f"{judged.of}: whether {objective} was kept is not known: {judged.reason}"
            yield _conditional("objective_unknown", about, text)


def _of_production(facts: DrillFacts) -> Iterator[Reason]:
    if facts.scope_refusals:
        text = f"the drill tried to change what is not its own, and was refused: {_listed(facts.scope_refusals)}"
        yield _failed("outside_scope", "", text)
    untouched = facts.untouched
    if untouched is not None and untouched.changed:
        yield _failed(
            "production_touched",
            "",
            f"production changed during the drill, by the drill or by others: {_listed(untouched.changed)}",
        )
    if untouched is not None and untouched.unknown:
        text = f"whether production stayed as it was is not known in part: {_listed(untouched.unknown)}"
        yield _conditional("untouched_unknown", "", text)
    if facts.kind == CANARY and (untouched is None or not untouched.compared):
        yield _conditional("untouched_unknown", "nothing compared", "production was not compared before and after")
    yield from _of_checks(facts)


def _of_checks(facts: DrillFacts) -> Iterator[Reason]:
    """Yield reasons of what readiness found; in an observe drill, which does nothing else, a failed check fails it."""
    worst = _failed if facts.kind == OBSERVE else _conditional
    if facts.checks is None:
        yield worst("readiness_unknown", "", "readiness was not checked")
    for check in facts.checks or ():
        about = f"{check.get('id')} {check.get('about', '')}".strip()
        if check.get("severity") == Gravity.FAILED:
            yield worst("readiness_failed", about, f"readiness: {check.get('id')}: {check.get('text')}")
        elif check.get("severity") == Gravity.UNKNOWN:
            yield _conditional("readiness_unknown", about, f"readiness: {check.get('id')}: {check.get('text')}")


def _of_the_drill(facts: DrillFacts) -> Iterator[Reason]:
    if facts.stopped:
        yield _not_done("drill_stopped", "", "the drill stopped before its end: ", facts.stopped)
    if facts.rejected:
        yield _failed("drill_rejected", "", f"sign_off_drill was answered with a rejection by {facts.rejected}")
    for fault in facts.planted:
        if not fault.noticed:
            how = _failed if fault.noticed is False else _conditional
            seen = fault.seen or ("nothing" if fault.noticed is False else "unknown")
            yield how("fault_unnoticed", fault.what, f"{fault.what}: expected: {fault.expected}; seen: {seen}")
    if facts.left_over is None and facts.kind == CANARY:
        yield _conditional("left_over_unknown", "", "the clean-up has not ended: what it left is not known")
    if facts.left_over:
        yield _conditional("left_over", "", f"the clean-up could not remove: {_listed(facts.left_over)}")
    if facts.fingerprint is None:
        yield _conditional("fingerprint_unknown", "", "what was in place during the drill could not be read")


def _of_people(facts: DrillFacts, found: Iterable[DrillFinding], seen: set[str]) -> Iterator[Reason]:
    """Yield reasons of open findings that this drill did not make itself, and of a missing sign-off."""
    for finding in found:
        if finding.is_open and finding.id not in seen:
            new = finding.found_in == facts.drill_id
            code = "finding_reported" if new else "finding_open"
            since = "reported by a person" if new else "open since an earlier drill"
            overdue = f"; was due on {finding.due}" if _is_overdue(finding, facts.closed_at) else ""
            yield _conditional(code, finding.id, f"{finding.id}, {since}{overdue}: {finding.text}")
    if not facts.sign_offs:
        yield _conditional("no_sign_off", "", "nobody has answered sign_off_drill")


def _is_overdue(finding: DrillFinding, closed_at: str | None) -> bool:
    return bool(finding.due and closed_at and finding.due < format_moment(closed_at)[:10])


def _listed(items: Sequence[str]) -> str:
    return first_few(items, 5, "; ")


# -- findings ----------------------------------------------------------------------------------------------------


def _findings(facts: DrillFacts, seen: Iterable[Reason]) -> tuple[list[DrillFinding], SignOff]:
    """Return the drill's findings and those that the last drill left open, with what the sign-offs say of them."""
    before = {finding.id: finding for finding in open_before(facts.previous)}
    listed = {**before, **{reason.id: _finding(reason, facts, before.get(reason.id)) for reason in seen}}
    reported = reported_findings(read_sign_offs(facts.sign_offs, listed).answers, facts.drill_id)
    listed = {**{finding.id: finding for finding in reported}, **listed}
    sign_off = read_sign_offs(facts.sign_offs, listed)
    found = with_answers(listed.values(), sign_off.answers)
    return found, sign_off


def _finding(reason: Reason, facts: DrillFacts, before: DrillFinding | None) -> DrillFinding:
    """Return the finding of a reason; a fault that the last drill found, too, keeps its owner and date."""
    return DrillFinding(
        reason.id,
        FindingSeverity.CRITICAL if reason.verdict is DrillVerdict.FAILED else FindingSeverity.MAJOR,
        reason.text,
        owner=before.owner if before else None,
        due=before.due if before else None,
        heading=reason.heading or f"{PAGE}#{reason.code}",
        found_in=(before.found_in if before else "") or facts.drill_id,
    )
