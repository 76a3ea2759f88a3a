"""Evidence: what a run observed, did and measured, assembled from the journal as plain data.

Invariants
1. A journal entry states every fact that the evidence states.
2. The outcome follows from the journal alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.diagnosis.evidence_text import what_was_found
from kafka_dr.domain.evidence.achieved import achieved_of, downtime_of
from kafka_dr.domain.evidence.failures import failure_text
from kafka_dr.domain.evidence.warnings import approved_through, breach_warnings, warnings_of
from kafka_dr.domain.fencing.guarded_move import contested_text
from kafka_dr.domain.loss.loss import loss_of
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.procedure.entries import (
    ChangedFlowToStop,
    ClosingBegun,
    ConnectorsToStop,
    ConsumersDrained,
    DataLossAssessed,
    DiagnosisMade,
    Line,
    OffsetsTranslated,
    PairsNotMoved,
    PairsToFollow,
    Planned,
    PositionsToRestore,
    ProcedureAborted,
    ProcedureOpened,
    ProducersFenced,
    SourceConfirmedLost,
    SourceFenced,
    SourceReturned,
    StrandedRecordsFound,
    TargetTopicsExported,
    continued_by,
    newest_fact,
)
from kafka_dr.procedures import DRAINS, GATES, PROCEDURES
from kafka_dr.vocabulary import Entry, Outcome, Step

#: State of the step watch_old_source while the watcher still has to fence the source or to stop its MirrorMaker 2.
WATCHING = "watching"
_OMITTED_FIGURES = {"plan", "topic_ids"}


@dataclass(frozen=True)
class LossSince:
    """The loss by observations that are newer than the approved inventory of lost records.

    Attributes:
        rows: the inventory's rows of loss, corrected by the newer observations.
        grown: partitions whose loss, as observed before open_target began, is larger than approved, each with the
            approved loss, the larger loss and the reason.
    """

    rows: Sequence[Mapping[str, Any]]
    grown: Sequence[Mapping[str, Any]]


def _newest_of_kind(lines: Sequence[Line], step: str, kind: str) -> Line | None:
    matching = [line for line in lines if line.step == step and line.kind == kind]
    return matching[-1] if matching else None


def outcome_of(lines: Sequence[Line], dag_id: str) -> Outcome:
    """Return the outcome of a procedure of the DAG `dag_id`, as its journal entries `lines` show it."""
    definition = PROCEDURES[dag_id]
    if _newest_of_kind(lines, definition.last_step, Entry.OUTCOME):
        return Outcome.COMPLETED
    returned = newest_fact(lines, SourceReturned)
    if returned is not None and _newest_of_kind(lines, Step.ABORT_PROCEDURE, Entry.ABORT) is not None:
        return Outcome.ABORTED
    if returned is not None:
        return Outcome.RETURNED if returned.touched else Outcome.REFUSED
    if _newest_of_kind(lines, Step.OPEN_PROCEDURE, Entry.OUTCOME) is None:
        return Outcome.REFUSED
    not_moved = newest_fact(lines, PairsNotMoved)
    if not_moved is not None and not_moved.final:
        return Outcome.RETURNED
    changes = definition.moves_clients or any(
        newest_fact(lines, fact) for fact in (PositionsToRestore, ChangedFlowToStop, ConnectorsToStop, PairsToFollow)
    )
    return Outcome.FAILED if changes else Outcome.REFUSED


def steps_of(lines: Sequence[Line], order: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row per step that began, in the given order: id, state, times, figures, failures, notes."""
    return [row for step in order if (row := _step(lines, step)) is not None]


def _step(lines: Sequence[Line], step: str) -> dict[str, Any] | None:
    step_lines = [line for line in lines if line.step == step and line.kind != Entry.OPENED]
    if not step_lines:
        return None
    newest = _newest_state(lines, step)
    done = newest if newest and newest.kind == Entry.OUTCOME else None
    failures = [line for line in step_lines if line.kind in (Entry.REFUSAL, Entry.FAILURE)]
    # The watch over an old source continues after the procedure has ended: a watch without outcome is no failure.
    unfinished = WATCHING if step == Step.WATCH_OLD_SOURCE and not failures else "failed"
    return {
        "id": step,
        "state": "done" if done else unfinished,
        "started_at": step_lines[0].at.isoformat(),
        "ended_at": (done or step_lines[-1]).at.isoformat(),
        "figures": {k: v for k, v in (done.payload if done else {}).items() if k not in _OMITTED_FIGURES},
        "failures": [{"at": f.at.isoformat(), **f.payload} for f in failures],
        "notes": [dict(line.payload) for line in step_lines if line.kind == Entry.NOTE],
    }


def _newest_state(lines: Sequence[Line], step: str) -> Line | None:
    """Return a step's newest INTENT, OUTCOME, REFUSAL or FAILURE; None if it has none.

    An INTENT after an OUTCOME counts: a step whose outcome has expired was begun again.
    """
    kinds = (Entry.INTENT, Entry.OUTCOME, Entry.REFUSAL, Entry.FAILURE)
    return next((line for line in reversed(lines) if line.step == step and line.kind in kinds), None)


def reason_for(
    outcome: Outcome,
    steps: Sequence[Mapping[str, Any]],
    aborted: ProcedureAborted | None = None,
    diagnosed: DiagnosisMade | None = None,
) -> tuple[str | None, str]:
    """Return the id of the step that failed (None if none did), and the reason for the outcome as text.

    The text ends with the runbook heading of the step that failed.

    Args:
        aborted: who aborted the procedure, and why; used only if the outcome is ABORTED.
        diagnosed: what a diagnosis found: it completes also with findings; None for other procedures.
    """
    if outcome is Outcome.COMPLETED and diagnosed is not None:
        return None, what_was_found(diagnosed.findings, diagnosed.not_asked)
    if outcome is Outcome.COMPLETED:
        return None, "every step was done and read back"
    if outcome is Outcome.ABORTED and aborted is not None:
        return Step.ABORT_PROCEDURE.value, f"{aborted.by} aborted the procedure: {aborted.reason}"
    for step in steps:
        if step["state"] == "failed":
            failure = step["failures"][-1] if step["failures"] else None
            reason = failure_text(failure) if failure else "the step began and has no outcome: its process ended."
            return step["id"], f"{reason} Page: {page_of_failure(step['id'])}"
    return None, "a task failed before its step could begin"


def seconds_of(
    steps: Sequence[Mapping[str, Any]], triggered_at: str, closed_at: str, confirming: float = 0.0
) -> dict[str, float]:
    """Return a run's seconds: `whole` (trigger to end), `people` (gates), `drain` (draining), `own` (the rest).

    Args:
        steps: rows with id, started_at, ended_at.
        triggered_at, closed_at: ISO 8601.
        confirming: seconds during which the source was checked to confirm that it is lost; not counted as `own`.
    """
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


def _confirming_seconds(states: Sequence[Line]) -> float:
    confirmed = newest_fact(states, SourceConfirmedLost)
    return confirmed.window_seconds if confirmed else 0.0


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
    plan: Mapping[str, Any] | None = None,
    drill: Mapping[str, Any] | None = None,
    closing: ClosingBegun | None = None,
    files_at: str = "",
) -> dict[str, Any]:
    """Return the evidence of a procedure as plain data, with its digest.

    Args:
        request: dag_id, source, target, reason.
        lines: the procedure's journal entries.
        order: step names in the procedure's order.
        bounds: `cut_off` and `boundary`, each a list of topic, partition, offset.
        previous_digest: digest of the evidence written before this one; None for the first evidence.
        closed_at: when the run ended, ISO 8601.
        problems: parts of the evidence that are missing, each with the reason.
        since: the loss by observations newer than the approved inventory; None if the approved rows are still right.
        plan: the newest plan; None if there is none, or if a journal entry of an earlier version has it.
        drill: as of `drill_section`; None if the procedure is no drill.
        closing: the entry that began to close the run: whose clock counts, and what became of notices; None: unknown.
        files_at: what stands before the names of files: their folder's URI in the store, and `/`; empty without one.
    """
    outcome, steps = outcome_of(lines, request["dag_id"]), steps_of(lines, order)
    states = [state for step in order if (state := _newest_state(lines, step))]
    if outcome is Outcome.COMPLETED and (Step.RETURN_TO_SOURCE, Entry.REFUSAL) in [(s.step, s.kind) for s in states]:
        # return_to_source ran while the target was open, and refused: that is no failure of the procedure.
        steps = [s | {"state": "refused"} if s["id"] == Step.RETURN_TO_SOURCE else s for s in steps]
    planned, assessed = newest_fact(lines, Planned), newest_fact(states, DataLossAssessed)
    opened, aborted = newest_fact(lines, ProcedureOpened), newest_fact(lines, ProcedureAborted)
    fenced = newest_fact(states, ProducersFenced) or newest_fact(states, SourceFenced)
    translated, stranded = newest_fact(states, OffsetsTranslated), newest_fact(states, StrandedRecordsFound)
    plan, triggered_at = plan or (planned.plan if planned else None), opened.triggered_at if opened else closed_at
    failing, why = reason_for(outcome, steps, aborted, newest_fact(states, DiagnosisMade))
    evidence = {
        "warnings": warnings_of(lines, request["target"]),
        "procedure_id": procedure_id,
        **request,
        **_provenance(lines, opened, closing),
        "outcome": outcome.value,
        "failing_step": failing,
        "reason_for_outcome": why,
        "plan": plan,
        "plan_digest": planned.plan_digest if planned else None,
        "aborted_by": _plain(aborted),
        "continues": _plain(opened and opened.continues),
        "continued_by": continued_by(lines),
        **({"contested": text} if (text := contested_text(lines, request["target"])) else {}),
        "cool_down": _plain(opened and opened.cool_down),
        "excluded_groups": _excluded_groups(newest_fact(states, ConsumersDrained)),
        "approvals": [{"step": line.step, **line.payload} for line in lines if line.kind == Entry.APPROVAL],
        "steps": steps,
        "fenced_at": getattr(fenced, "fenced_at", None),
        "cut_off": bounds["cut_off"],
        "boundary": bounds["boundary"],
        **_exactness(translated),
        "loss": [*_lost(since, plan), *(loss_of(translated.holes, translated.cut) if translated else [])],
        "loss_grown": list(since.grown) if since else [],
        "positions": f"{files_at}{translated.translation.file}" if translated else None,
        "stranded": _export_place(files_at, procedure_id, assessed, stranded),
        "exports": _export_form(assessed, stranded, newest_fact(states, TargetTopicsExported)),
        "seconds": seconds_of(steps, triggered_at, closed_at, _confirming_seconds(states)),
        "drill": drill,
        "problems": list(problems),
        "closed_at": closed_at,
        "previous_digest": previous_digest,
    }
    return _with_objectives(evidence, opened.objectives if opened else None)


def _export_place(
    files_at: str, procedure_id: str, assessed: DataLossAssessed | None, stranded: StrandedRecordsFound | None
) -> str | None:
    """Return the folder with exported records, as a URI if there is a store; None if none was exported."""
    if assessed and assessed.stranded:
        return f"{files_at}{assessed.stranded}"
    if not stranded or not stranded.export.folder:
        return None
    # Another run may have written the export.
    finder = stranded.export.procedure_id or procedure_id
    return (
        f"{files_at.removesuffix(f'{procedure_id}/')}{finder}/{stranded.export.folder}"
        if files_at
        else (stranded.export.folder)
    )


def _export_form(
    assessed: DataLossAssessed | None,
    stranded: StrandedRecordsFound | None,
    only_on_target: TargetTopicsExported | None,
) -> dict[str, str] | None:
    """Return what exports hold of each record; None if no record was exported."""
    form = (
        (assessed and assessed.exports)
        or (stranded and stranded.export.form)
        or (only_on_target and only_on_target.exports)
    )
    return dict(form) if form else None


def _with_objectives(evidence: Mapping[str, Any], objectives: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the evidence with downtime, objectives, what was achieved, warnings of breaches, and its digest."""
    downtime = downtime_of(evidence)
    told = {
        **evidence,
        "seconds": {**evidence["seconds"], "downtime": downtime.seconds.least if downtime else None},
        "objectives": None if objectives is None else dict(objectives),
    }
    achieved = achieved_of(told)
    warnings = [*evidence["warnings"], *breach_warnings(told["objectives"], achieved)]
    told |= {"achieved": achieved, "warnings": warnings}
    return {**told, "digest": digest_of(told)}


def _provenance(lines: Sequence[Line], opened: ProcedureOpened | None, closing: ClosingBegun | None) -> dict[str, Any]:
    """Return how the run was approved, to which clusters and topology it was bound, its clock, and its notices."""
    binding = opened.binding if opened else None
    clusters = binding.clusters if binding else {}
    return {
        "approved_through": approved_through(lines),
        "clusters": {
            alias: {"id": cluster.id, "bootstrap_servers": cluster.bootstrap_servers}
            for alias, cluster in clusters.items()
        },
        "topology_digest": binding.topology_digest if binding else None,
        "clock": closing.clock if closing else None,
        "notices": [dict(notice) for notice in (closing and closing.notices) or ()],
    }


def _excluded_groups(drained: ConsumersDrained | None) -> list[dict[str, Any] | None]:
    return [_plain(group) for group in drained.excluded] if drained else []


def _lost(since: LossSince | None, plan: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the rows of loss, as corrected since the approval, else as approved."""
    return [dict(row) for row in (since.rows if since else (plan or {}).get("loss", ()))]


def _exactness(translated: OffsetsTranslated | None) -> dict[str, Any]:
    return {
        "classes": translated.classes if translated else {},
        "rereads": {
            "bound": translated.bound if translated else None,
            "mirror_maker": translated.mirror_maker_bound if translated else None,
        },
        "repeats": translated.repeats if translated else {},
    }


def _plain(record: object | None) -> dict[str, Any] | None:
    """Return an object's fields as plain data, sorted by name; None for None."""
    return None if record is None else dict(sorted(vars(record).items()))
