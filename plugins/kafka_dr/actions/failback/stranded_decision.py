"""The decision on stranded records: findings, requested mode and decisions, and the approval."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_dr.actions.failback.stranded_export import Writers, written_with
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.domain.failback.stranded import Decision, Mode, PlannedReturn, decide_topics, impossible_decisions
from kafka_dr.domain.failback.stranded_page import stranded_by_topic
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.topics import READ_COMMITTED
from kafka_dr.procedure.entries import Approval, StrandedRecordsFound, StrandedRecordsFoundWithSizes
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def mode_of(procedure: Run) -> Mode:
    """Return the requested mode of the failback, append by default."""
    return Mode(procedure.request.choices.get("mode", Mode.APPEND))


def planned_return(procedure: Run) -> PlannedReturn:
    """Return what the run will do with the returned cluster's logs, by the listed stranded records and the params.

    Raises:
        NotReady: the requested mode or decisions are impossible for the listed stranded records.
    """
    findings, mode = procedure.progress.require(StrandedRecordsFound), mode_of(procedure)
    sizes = findings if mode is Mode.RECREATE and isinstance(findings, StrandedRecordsFoundWithSizes) else None
    stranded, gone = stranded_by_topic(findings.topics, findings.compacted), tuple(findings.gone or ())
    decisions, problems = decide_topics(
        [totals.topic for totals in stranded], procedure.request.choices.get("stranded", {})
    )
    problems += impossible_decisions(
        mode, stranded, decisions, procedure.request.target, names_separate_directions(procedure), gone
    )
    problems += decided_otherwise(procedure, decisions)
    if problems:
        raise NotReady(
            "Params mode and stranded do not fit the stranded records",
            "; ".join(problems),
            "Start a new run with another mode, or with other decisions (param stranded). The export of this run"
            " remains in its evidence folder.",
        )
    return PlannedReturn(
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        mode=mode,
        found=findings.digest,
        stranded=stranded,
        decisions=decisions,
        deleted=sizes.bytes_there if sizes else None,
        copied=findings.records_to_copy,
        copied_bytes=sizes.bytes_to_copy if sizes else None,
        apart=names_separate_directions(procedure),
        gone=gone,
        left_out=_left_out(findings.export.form or {}),
    )


def _left_out(form: Mapping[str, str]) -> str:
    """Return what an export of this form leaves out, in words; empty for whole records."""
    parts = ["without values"] if form.get("values") == "omit" else []
    return " and ".join(parts + (["with hashed keys"] if form.get("keys") == "hash" else []))


def decided_otherwise(procedure: Run, decisions: Mapping[str, Decision]) -> list[str]:
    """Return, as text, topics whose stranded records an earlier run wrote by another decision; [] if there are none.

    The decision of such a topic can no longer change, because written records remain on the new primary, and no record
    is written twice.
    """
    writers = Writers.of(procedure)
    if all(writer.id == procedure.id for writer in writers.procedures):
        return []
    committed = procedure.systems.reader(procedure.request.source, READ_COMMITTED)
    written = written_with(committed, procedure.systems.own_names.progress, writers.exports)
    return [
        f"{topic}: {writer} has already written records of this topic with {earlier}; decide {earlier} again"
        for topic, (earlier, writer) in sorted(written.items())
        if decisions.get(topic, earlier) is not earlier
    ]


def require_decided(procedure: Run) -> Approval | None:
    """Return the valid approval of the mode and of the decisions on stranded records; None if no approval is needed.

    No approval is needed in mode append if the returned cluster has no stranded records and has lost no records that
    the new primary still has.

    Raises:
        Refusal: decide_stranded_records is not done.
        ApprovalMissing: there is no approval, or the approval is of another plan.
    """
    procedure.progress.outcome_entry(Step.DECIDE_STRANDED_RECORDS)
    planned = planned_return(procedure)
    return procedure.approvals.require(Step.DECIDE_STRANDED_RECORDS, planned.digest) if planned.needs_a_person else None
