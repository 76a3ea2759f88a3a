"""The decision on stranded records: what was found, what the run was asked to do, a second person's answer."""

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
    """How the returned cluster gets what it lacks."""
    return Mode(procedure.request.choices.get("mode", Mode.APPEND))


def planned_return(procedure: Run) -> PlannedReturn:
    """Plan what the run does with the returned cluster's logs, from find_stranded_records and the request.

    Raises:
        NotReady: what was asked for cannot be done with what was found.
    """
    found, mode = procedure.progress.require(StrandedRecordsFound), mode_of(procedure)
    sizes = found if mode is Mode.RECREATE and isinstance(found, StrandedRecordsFoundWithSizes) else None
    stranded, gone = stranded_by_topic(found.topics, found.compacted), tuple(found.gone or ())
    decisions, problems = decide_topics([one.topic for one in stranded], procedure.request.choices.get("stranded", {}))
    problems += impossible_decisions(
        mode, stranded, decisions, procedure.request.target, names_separate_directions(procedure), gone
    )
    problems += decided_otherwise(procedure, decisions)
    if problems:
        raise NotReady(
            "What was asked for cannot be done with the stranded records",
            "; ".join(problems),
            "Start a new run with another mode or other decisions; the export of this one stays.",
        )
    return PlannedReturn(
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        mode=mode,
        found=found.digest,
        stranded=stranded,
        decisions=decisions,
        deleted=sizes.bytes_there if sizes else None,
        copied=found.records_to_copy,
        copied_bytes=sizes.bytes_to_copy if sizes else None,
        apart=names_separate_directions(procedure),
        gone=gone,
    )


def decided_otherwise(procedure: Run, decisions: Mapping[str, Decision]) -> list[str]:
    """Topics with stranded records already written by another decision: these stay, and are never written twice."""
    writers = Writers.of(procedure)
    if all(one.id == procedure.id for one in writers.procedures):
        return []
    written = written_with(procedure.systems.reader(procedure.request.source, READ_COMMITTED), writers.exports)
    return [
        f"{topic}: {writer} has written some of its records with {was}; decide the same"
        for topic, (was, writer) in sorted(written.items())
        if decisions.get(topic, was) is not was
    ]


def require_decided(procedure: Run) -> Approval | None:
    """The valid approval of what is done with the returned cluster's logs; None where nothing had to be asked.

    Raises:
        ApprovalMissing: nobody gave one, or it is of something else.
    """
    procedure.progress.outcome_entry(Step.DECIDE_STRANDED_RECORDS)
    planned = planned_return(procedure)
    return procedure.approvals.require(Step.DECIDE_STRANDED_RECORDS, planned.digest) if planned.needs_a_person else None
