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

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.loss.loss import loss_of
from kafka_dr.procedure.entries import (
    ConsumersDrained,
    DataLossAssessed,
    Line,
    OffsetsTranslated,
    Planned,
    PositionsToRestore,
    ProcedureAborted,
    ProcedureOpened,
    ProducersFenced,
    SourceConfirmedLost,
    SourceFenced,
    SourceReturned,
    StrandedRecordsFound,
    continued_by,
    newest_fact,
)
from kafka_dr.procedures import DRAINS, GATES, PROCEDURES
from kafka_dr.vocabulary import Entry, Outcome, Step

#: State of the watch over an old source that is not over.
WATCHING = "watching"
_HIDDEN = {"plan", "topic_ids"}


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


def _last(lines: Sequence[Line], step: str, kind: str) -> Line | None:
    found = [line for line in lines if line.step == step and line.kind == kind]
    return found[-1] if found else None


def outcome_of(lines: Sequence[Line], dag_id: str) -> Outcome:
    """How a procedure of this DAG ended, by its journal."""
    definition = PROCEDURES[dag_id]
    if _last(lines, definition.last_step, Entry.OUTCOME):
        return Outcome.COMPLETED
    returned = newest_fact(lines, SourceReturned)
    if returned is not None and _last(lines, Step.ABORT_PROCEDURE, Entry.ABORT) is not None:
        return Outcome.ABORTED
    if returned is not None:
        return Outcome.RETURNED if returned.touched else Outcome.REFUSED
    if _last(lines, Step.OPEN_PROCEDURE, Entry.OUTCOME) is None:
        return Outcome.REFUSED
    changes = definition.moves_clients or newest_fact(lines, PositionsToRestore) is not None
    return Outcome.FAILED if changes else Outcome.REFUSED


def steps_of(lines: Sequence[Line], order: Sequence[str]) -> list[dict[str, Any]]:
    """One row per step that began, in the procedure's order: state, times, figures, and why it failed."""
    return [row for step in order if (row := _step(lines, step)) is not None]


def _step(lines: Sequence[Line], step: str) -> dict[str, Any] | None:
    mine = [line for line in lines if line.step == step and line.kind != Entry.OPENED]
    if not mine:
        return None
    last = _newest_state(lines, step)
    done = last if last and last.kind == Entry.OUTCOME else None
    failures = [line for line in mine if line.kind in (Entry.REFUSAL, Entry.FAILURE)]
    # The watch over an old source goes on after the procedure: that it is not over is no failure of this one.
    unfinished = WATCHING if step == Step.WATCH_OLD_SOURCE and not failures else "failed"
    return {
        "id": step,
        "state": "done" if done else unfinished,
        "started_at": mine[0].at.isoformat(),
        "ended_at": (done or mine[-1]).at.isoformat(),
        "figures": {k: v for k, v in (done.payload if done else {}).items() if k not in _HIDDEN},
        "failures": [{"at": f.at.isoformat(), **f.payload} for f in failures],
        "notes": [dict(line.payload) for line in mine if line.kind == Entry.NOTE],
    }


def _newest_state(lines: Sequence[Line], step: str) -> Line | None:
    """Find a step's newest state entry; an INTENT after an OUTCOME counts, since the outcome may have expired."""
    kinds = (Entry.INTENT, Entry.OUTCOME, Entry.REFUSAL, Entry.FAILURE)
    return next((line for line in reversed(lines) if line.step == step and line.kind in kinds), None)


def reason_for(
    outcome: Outcome, steps: Sequence[Mapping[str, Any]], aborted: ProcedureAborted | None = None
) -> tuple[str | None, str]:
    """The step that failed and why; (None, ...) for a completed procedure."""
    if outcome is Outcome.COMPLETED:
        return None, "every step was done and read back"
    if outcome is Outcome.ABORTED and aborted is not None:
        return Step.ABORT_PROCEDURE.value, f"{aborted.by} aborted the procedure: {aborted.reason}"
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


def seconds_of(
    steps: Sequence[Mapping[str, Any]], triggered_at: str, closed_at: str, confirming: float = 0.0
) -> dict[str, float]:
    """Seconds by kind: own is trigger to end less gates, catching up, drain, zero-lag and confirmation waits."""
    spent = {s["id"]: _between(s["started_at"], s["ended_at"]) for s in steps}
    people = sum(spent.get(gate, 0.0) for gate in GATES)
    drain = sum(spent.get(step, 0.0) for step in DRAINS)
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
    lines: Sequence[Line],
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
    states = [state for step in order if (state := _newest_state(lines, step))]
    if outcome is Outcome.COMPLETED and (Step.RETURN_TO_SOURCE, Entry.REFUSAL) in [(s.step, s.kind) for s in states]:
        # Its way back was tried while the target was open.
        steps = [s | {"state": "refused"} if s["id"] == Step.RETURN_TO_SOURCE else s for s in steps]
    planned, assessed = newest_fact(lines, Planned), newest_fact(states, DataLossAssessed)
    opened, aborted = newest_fact(lines, ProcedureOpened), newest_fact(lines, ProcedureAborted)
    confirmed, drained = newest_fact(states, SourceConfirmedLost), newest_fact(states, ConsumersDrained)
    fenced = newest_fact(states, ProducersFenced) or newest_fact(states, SourceFenced)
    translated, stranded = newest_fact(states, OffsetsTranslated), newest_fact(states, StrandedRecordsFound)
    inventory = newest_fact(lines, DataLossAssessed)
    lost = since.rows if since else inventory.planned.loss if inventory else ()
    missing = loss_of(translated.holes, translated.cut) if translated else []
    failing, why = reason_for(outcome, steps, aborted)
    evidence = {
        "procedure_id": procedure_id,
        **request,
        "outcome": outcome.value,
        "failing_step": failing,
        "reason_for_outcome": why,
        "plan": planned.plan if planned else None,
        "plan_digest": planned.plan_digest if planned else None,
        "aborted_by": _plain(aborted),
        "continues": _plain(opened and opened.continues),
        "continued_by": continued_by(lines),
        "cool_down": _plain(opened and opened.cool_down),
        "excluded_groups": [_plain(group) for group in drained.excluded] if drained else [],
        "approvals": [{"step": line.step, **line.payload} for line in lines if line.kind == Entry.APPROVAL],
        "steps": steps,
        "fenced_at": getattr(fenced, "fenced_at", None),
        "cut_off": bounds["cut_off"],
        "boundary": bounds["boundary"],
        **_exactness(translated),
        "loss": [*map(dict, lost), *missing],
        "loss_grown": list(since.grown) if since else [],
        "positions": translated.translation.file if translated else None,
        "stranded": (assessed and assessed.stranded) or (stranded and stranded.export.folder) or None,
        "seconds": seconds_of(
            steps,
            opened.triggered_at if opened else closed_at,
            closed_at,
            confirmed.window_seconds if confirmed else 0.0,
        ),
        "problems": list(problems),
        "closed_at": closed_at,
        "previous_digest": previous_digest,
    }
    return {**evidence, "digest": digest_of(evidence)}


def _exactness(found: OffsetsTranslated | None) -> dict[str, Any]:
    return {
        "classes": found.classes if found else {},
        "rereads": {
            "bound": found.bound if found else None,
            "mirror_maker": found.mirror_maker_bound if found else None,
        },
        "repeats": found.repeats if found else {},
    }


def _plain(record: object | None) -> dict[str, Any] | None:
    """A record as the journal holds it, in the order of its keys."""
    return None if record is None else dict(sorted(vars(record).items()))
