"""Evidence: what was seen, done and measured, assembled from the journal; data first, the page second.

Invariants
1. Nothing is claimed that no journal entry holds.
2. The outcome follows from the journal alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_dr.domain.canonical import digest_of
from kafka_dr.domain.continued import continued_by
from kafka_dr.domain.loss import loss_of
from kafka_dr.procedures import DRAINS, GATES, PROCEDURES
from kafka_dr.vocabulary import Entry, Outcome, Step

#: Key of the intent that says how many positions a restore is about to write: before it nothing was changed.
RESTORES = "restores_positions"
#: State of the watch over an old source that is not over.
WATCHING = "watching"
_HIDDEN = {"plan", "topic_ids"}


@dataclass(frozen=True)
class JournalLine:
    """One journal entry as the evidence needs it; `at` is ISO 8601 UTC."""

    step: str
    kind: str
    at: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class LossSince:
    """What is lost by what was found out since the inventory was approved.

    Attributes:
        rows: the inventory's rows as they are now.
        grown: partitions of which more was lost when the target was opened than had been approved, each with both and
            why.
    """

    rows: Sequence[Mapping[str, Any]]
    grown: Sequence[Mapping[str, Any]]


def _last(lines: Sequence[JournalLine], step: str, kind: str) -> JournalLine | None:
    found = [line for line in lines if line.step == step and line.kind == kind]
    return found[-1] if found else None


def outcome_of(lines: Sequence[JournalLine], dag_id: str) -> Outcome:
    """How a procedure of this DAG ended, by its journal."""
    definition = PROCEDURES[dag_id]
    if _last(lines, definition.last_step, Entry.OUTCOME):
        return Outcome.COMPLETED
    returned = _last(lines, Step.RETURN_TO_SOURCE, Entry.OUTCOME)
    if returned is not None and _last(lines, Step.ABORT_PROCEDURE, Entry.ABORT) is not None:
        return Outcome.ABORTED
    if returned is not None:
        return Outcome.RETURNED if returned.payload.get("touched") else Outcome.REFUSED
    if _last(lines, Step.OPEN_PROCEDURE, Entry.OUTCOME) is None:
        return Outcome.REFUSED
    return (
        Outcome.REFUSED
        if not definition.moves_clients
        and not any(line.step == Step.RESTORE_POSITIONS and RESTORES in line.payload for line in lines)
        else Outcome.FAILED
    )


def steps_of(lines: Sequence[JournalLine], order: Sequence[str]) -> list[dict[str, Any]]:
    """One row per step that began, in the procedure's order: state, times, figures, and why it failed."""
    return [row for step in order if (row := _step(lines, step)) is not None]


def _step(lines: Sequence[JournalLine], step: str) -> dict[str, Any] | None:
    mine = [line for line in lines if line.step == step and line.kind != Entry.OPENED]
    if not mine:
        return None
    verdicts = [line for line in mine if line.kind in (Entry.OUTCOME, Entry.REFUSAL, Entry.FAILURE)]
    telling = [line for line in mine if line.kind in (Entry.INTENT, Entry.OUTCOME, Entry.REFUSAL, Entry.FAILURE)]
    # Begun again after its outcome, and without another one: what it had proven may have expired.
    done = telling[-1] if telling and telling[-1].kind == Entry.OUTCOME else None
    failures = [line for line in verdicts if line.kind != Entry.OUTCOME]
    # The watch over an old source goes on after the procedure: that it is not over is no failure of this one.
    unfinished = WATCHING if step == Step.WATCH_OLD_SOURCE and not failures else "failed"
    return {
        "id": step,
        "state": "done" if done else unfinished,
        "started_at": mine[0].at,
        "ended_at": (done or mine[-1]).at,
        "figures": {k: v for k, v in (done.payload if done else {}).items() if k not in _HIDDEN},
        "failures": [{"at": f.at, **f.payload} for f in failures],
        "notes": [dict(line.payload) for line in mine if line.kind == Entry.NOTE],
    }


def reason_for(
    outcome: Outcome, steps: Sequence[Mapping[str, Any]], aborted: Mapping[str, Any] | None = None
) -> tuple[str | None, str]:
    """The step that failed and why; (None, ...) for a completed procedure."""
    if outcome is Outcome.COMPLETED:
        return None, "every step was done and read back"
    if outcome is Outcome.ABORTED and aborted is not None:
        return Step.ABORT_PROCEDURE.value, f"{aborted['by']} aborted the procedure: {aborted['reason']}"
    for step in steps:
        if step["state"] == "failed":
            failure = step["failures"][-1] if step["failures"] else None
            return step["id"], _sentence(failure) if failure else "it began and left no outcome: its process ended"
    return None, "a task failed before its step could begin"


def _sentence(failure: Mapping[str, Any]) -> str:
    parts = [
        failure["reason"],
        f"Seen: {failure['seen']}" if failure.get("seen") else "",
        f"Next: {failure['next_step']}" if failure.get("next_step") else "",
    ]
    return " ".join(part.rstrip(".") + "." for part in parts if part)


def seconds_of(steps: Sequence[Mapping[str, Any]], triggered_at: str, closed_at: str) -> dict[str, float]:
    """Own time, drain, and people: own is trigger to end without gates, catching up, draining, waiting for zero lag,
    and the window in which a source is confirmed to be lost.
    """
    spent = {s["id"]: _between(s["started_at"], s["ended_at"]) for s in steps}
    people = sum(spent.get(gate, 0.0) for gate in GATES)
    drain = sum(spent.get(step, 0.0) for step in DRAINS)
    confirming = sum(s["figures"].get("window_seconds", 0.0) for s in steps if s["id"] == Step.CONFIRM_SOURCE_LOST)
    whole = _between(triggered_at, closed_at)
    return {
        "own": round(max(0.0, whole - people - drain - confirming), 3),
        "drain": round(drain, 3),
        "people": round(people, 3),
        "whole": round(whole, 3),
    }


def _between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def evidence_of(
    procedure_id: str,
    request: Mapping[str, str],
    lines: Sequence[JournalLine],
    order: Sequence[str],
    bounds: Mapping[str, list[dict[str, Any]]],
    closed_at: str,
    previous_digest: str | None,
    problems: Sequence[str] = (),
    since: LossSince | None = None,
) -> dict[str, Any]:
    """The evidence as plain data.

    Args:
        request: dag_id, source, target, reason.
        order: step names in the procedure's order.
        bounds: `cut_off` and `boundary`, each a list of topic, partition, offset.
        problems: what the evidence lacks, and why.
        since: what is lost by now of what an inventory lists; None where the plan's own rows stand.
    """
    outcome, steps = outcome_of(lines, request["dag_id"]), steps_of(lines, order)
    if outcome is Outcome.COMPLETED:
        steps = [
            {**s, "state": "refused"} if s["id"] == Step.RETURN_TO_SOURCE and _was_refused(lines, s["id"]) else s
            for s in steps
        ]
    figures = {s["id"]: s["figures"] for s in steps}
    plans = (_last(lines, step, Entry.OUTCOME) for step in (Step.FORECAST, Step.ASSESS_DATA_LOSS, Step.PLAN_RESTORE))
    forecast = next((plan for plan in plans if plan is not None), None)
    translated = figures.get(Step.TRANSLATE_OFFSETS, {})
    lost = since.rows if since else forecast.payload["plan"].get("loss", ()) if forecast else ()
    opened, aborted = _last(lines, Step.OPEN_PROCEDURE, Entry.OPENED), _last(lines, Step.ABORT_PROCEDURE, Entry.ABORT)
    failing, why = reason_for(outcome, steps, aborted.payload if aborted else None)
    evidence = {
        "procedure_id": procedure_id,
        **request,
        "outcome": outcome.value,
        "failing_step": failing,
        "reason_for_outcome": why,
        "plan": forecast.payload["plan"] if forecast else None,
        "plan_digest": forecast.payload["plan_digest"] if forecast else None,
        "aborted_by": dict(aborted.payload) if aborted else None,
        "continues": opened.payload.get("continues") if opened else None,
        "continued_by": continued_by(lines),
        "cool_down": opened.payload.get("cool_down") if opened else None,
        "excluded_groups": figures.get(Step.DRAIN_CONSUMERS, {}).get("excluded", []),
        "approvals": [{"step": line.step, **line.payload} for line in lines if line.kind == Entry.APPROVAL],
        "steps": steps,
        "fenced_at": figures.get(Step.FENCE_PRODUCERS, figures.get(Step.FENCE_SOURCE, {})).get("fenced_at"),
        "cut_off": bounds["cut_off"],
        "boundary": bounds["boundary"],
        "classes": translated.get("classes", {}),
        "rereads": {"bound": translated.get("bound"), "mirror_maker": translated.get("mirror_maker_bound")},
        "repeats": translated.get("repeats", {}),
        "loss": [*map(dict, lost), *loss_of(translated.get("holes", []), translated.get("cut", []))],
        "loss_grown": list(since.grown) if since else [],
        "positions": _file(translated.get("translation")),
        "stranded": (
            figures.get(Step.ASSESS_DATA_LOSS, {}).get("stranded")
            or figures.get(Step.FIND_STRANDED_RECORDS, {}).get("export", {}).get("folder")
            or None
        ),
        "seconds": seconds_of(steps, opened.payload["triggered_at"] if opened else closed_at, closed_at),
        "problems": list(problems),
        "closed_at": closed_at,
        "previous_digest": previous_digest,
    }
    return {**evidence, "digest": digest_of(evidence)}


def _was_refused(lines: Sequence[JournalLine], step: str) -> bool:
    """Whether a refusal is the last that is known of a step: in a completed procedure its way back was tried while
    the target was open.
    """
    mine = [
        line.kind
        for line in lines
        if line.step == step and line.kind in (Entry.INTENT, Entry.OUTCOME, Entry.REFUSAL, Entry.FAILURE)
    ]
    return mine[-1:] == [Entry.REFUSAL]


def _file(receipt: Mapping[str, Any] | None) -> str | None:
    return None if receipt is None else str(receipt["file"])
