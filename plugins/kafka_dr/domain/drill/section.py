"""The `drill` section of a drill's evidence: the contract's fields, and those that the report needs besides.

Invariant: every field stands in the section of every drill, null or empty where the drill has no such fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from kafka_dr.domain.drill.account import (
    list_passes,
    list_retries,
    own_account,
    time_on_other_cluster,
    was_restored,
)
from kafka_dr.domain.drill.comparison import compare_drills
from kafka_dr.domain.drill.facts import DrillFacts, Participant, Untouched
from kafka_dr.domain.drill.not_tested import list_steps_not_run, list_untested
from kafka_dr.domain.drill.objectives import OBJECTIVES, JudgedObjective, judge_objectives, measure_pass
from kafka_dr.domain.drill.verdict import DrillVerdict, Judgement, judge_drill
from kafka_dr.domain.objectives.verdict import Measured, Verdict
from kafka_dr.domain.plain_text import parse_moment

_SIZES = ("topics", "partitions", "groups", "records")
_KEPT_OF_PREVIOUS = ("procedure_id", "kind", "verdict", "ended_at", "next_due", "retest_due")


def drill_section(facts: DrillFacts) -> dict[str, Any]:
    """Return the `drill` section of a drill's evidence, as a JSON object."""
    judgement = judge_drill(facts)
    section = {
        "kind": facts.kind,
        "verdict": judgement.verdict.value,
        "reasons": [
            {**asdict(reason), "verdict": reason.verdict.value, "id": reason.id} for reason in judgement.reasons
        ],
        **_identity(facts),
        "scenario": "\n".join(filter(None, [facts.scenario.strip(), *judgement.sign_off.scenario])) or None,
        "reference": (facts.objectives or {}).get("basis"),
        "scope": dict(facts.scope),
        "size": _size(facts.scope),
        "not_tested": list_untested(facts),
        "steps": own_account(facts.steps),
        "steps_not_run": list_steps_not_run(facts),
        "assumptions": list(facts.assumptions),
        "objectives": None if facts.objectives is None else dict(facts.objectives),
        "achieved": _achieved(facts),
        "passes": list_passes(facts.passes),
        "planted": [asdict(fault) for fault in facts.planted],
        "deviations": [asdict(one) for one in facts.deviations],
        "retries": list_retries(facts),
        "findings": [finding.as_dict() for finding in judgement.findings],
        **_people(facts, judgement),
        "previous": _previous(facts),
        "fingerprint": None if facts.fingerprint is None else dict(facts.fingerprint),
        "untouched": _untouched(facts.untouched),
        "left_over": None if facts.left_over is None else list(facts.left_over),
        "scope_refusals": list(facts.scope_refusals),
        "stopped": facts.stopped.text if facts.stopped else None,
        "versions": dict(sorted(facts.versions.items())),
        "code_digest": facts.code_digest,
        "folder": facts.folder,
        "signature": facts.signature,
        **_kept(facts),
        **_due(facts, judgement.verdict),
    }
    return {**section, "comparison": compare_drills(section, facts.previous)}


def _identity(facts: DrillFacts) -> dict[str, Any]:
    began, ended = parse_moment(facts.triggered_at), parse_moment(facts.closed_at)
    return {
        "procedure_id": facts.drill_id,
        "source": facts.source,
        "target": facts.target,
        "started_by": facts.started_by,
        "announced": facts.announced,
        "reason": facts.reason,
        "triggered_at": facts.triggered_at,
        "ended_at": facts.closed_at,
        "seconds": round((ended - began).total_seconds(), 3) if began and ended else None,
    }


def _size(scope: Mapping[str, Any]) -> dict[str, int | None]:
    """Return how much the drill moved: numbers as the scope states them, lists by their length."""
    return {name: _count(scope.get(name)) for name in _SIZES}


def _count(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    return len(value) if isinstance(value, Sequence) and not isinstance(value, str) else None


def _achieved(facts: DrillFacts) -> dict[str, Any]:
    """Return the drill's figures over all passes, and each objective beside each pass.

    Figures: the longest downtime, all lost records, the oldest lost record; null if a pass that had to complete does
    not state its own. A simulated loss is stated here, never at the top of the evidence.
    """
    judged = judge_objectives(facts)
    passes = [one for one in facts.passes if one.expected == "completed"]
    downtime, records, seconds = ([measure_pass(one, name)[0] for one in passes] for name in OBJECTIVES)
    return {
        "downtime_seconds": _over(max, [one.least for one in downtime]),
        "lost_records": _sides(sum, records),
        "lost_seconds": _sides(max, seconds),
        "verdicts": _worst(judged),
        "by_pass": [one.as_dict() for one in judged],
        "outlook": None if facts.outlook is None else dict(facts.outlook),
        "other_cluster": time_on_other_cluster(facts),
        "restored": was_restored(facts),
    }


def _sides(combine: Any, measured: Sequence[Measured]) -> dict[str, float | None]:
    return {
        "certain": _over(combine, [one.least for one in measured]),
        "possible": _over(combine, [one.most for one in measured]),
    }


def _over(combine: Any, values: Sequence[float | None]) -> float | None:
    """Return the sum or maximum of figures; None if there are none, or if one of them is not known."""
    result: float | None = None if not values or None in values else combine(values)
    return result


def _worst(judged: Sequence[JudgedObjective]) -> dict[str, dict[str, str]]:
    """Return for each objective the worst verdict over all passes, with the reason."""
    order = [Verdict.BREACHED, Verdict.UNKNOWN, Verdict.MET]
    worst: dict[str, dict[str, str]] = {}
    for one in sorted(judged, key=lambda each: order.index(each.verdict)):
        worst.setdefault(one.name, {"verdict": one.verdict.value, "reason": f"{one.of}: {one.reason}"})
    return worst


def _people(facts: DrillFacts, judgement: Judgement) -> dict[str, Any]:
    sign_off = judgement.sign_off
    return {
        "people": [asdict(one) for one in (*facts.participants, *_approvers(facts), *sign_off.observers)],
        "third_parties": "\n".join(sign_off.third_parties) or None,
        "sign_offs": [_sign_off(one.by, one.at, one.texts) for one in facts.sign_offs],
        "unread": [asdict(line) for line in sign_off.unread],
    }


def _sign_off(by: str, at: str, texts: Mapping[str, str]) -> dict[str, Any]:
    return {"by": by, "at": at, "conclusion": texts.get("conclusion", "").strip() or None, "texts": dict(texts)}


def _approvers(facts: DrillFacts) -> Iterator[Participant]:
    """Yield everyone who answered a gate of a pass, once for each gate."""
    for one in facts.passes:
        for approval in (one.evidence or {}).get("approvals") or ():
            yield Participant(
                str(approval.get("by")), f"approved {approval.get('step')} of {one.name}", approval.get("at")
            )


def _previous(facts: DrillFacts) -> dict[str, Any] | None:
    if facts.previous is None:
        return None
    return {**{name: facts.previous.get(name) for name in _KEPT_OF_PREVIOUS}, "digest": facts.previous_digest}


def _untouched(untouched: Untouched | None) -> dict[str, Any] | None:
    """Return what was compared; `held` is true only if all was compared and nothing differs, null if unknown."""
    if untouched is None:
        return None
    known = bool(untouched.compared) and not untouched.unknown
    sides = {name: list(items) for name, items in asdict(untouched).items()}
    return {"held": False if untouched.changed else (True if known else None), **sides}


def _kept(facts: DrillFacts) -> dict[str, Any]:
    """Return how long the evidence is kept, and until when at least."""
    days = facts.kept_days
    return {
        "retention": None if days is None else f"{days:,} days, by evidence_kept_days of the topology",
        "kept_until": _after(facts.closed_at, days),
    }


def _due(facts: DrillFacts, verdict: DrillVerdict) -> dict[str, Any]:
    """Return when the next drill is due by the calendar, and when a failed one is to be repeated."""
    failed = verdict is DrillVerdict.FAILED
    retest = _after(facts.closed_at, facts.retest_days) if failed else None
    due = _after(facts.closed_at, facts.drill_days)
    return {"next_due": min(filter(None, (retest, due)), default=None), "retest_due": retest}


def _after(moment: str | None, days: float | None) -> str | None:
    at = parse_moment(moment)
    return None if at is None or days is None else (at + timedelta(days=days)).isoformat()
