"""Topic ids of earlier runs, and a trial of the transaction tool before any fence."""

from __future__ import annotations

from kafka_dr.actions.fencing.open_transactions import transaction_tool
from kafka_dr.errors import NotReady, SwitchbackError
from kafka_dr.procedure.entries import (
    ProcedureOpened,
    ReadinessChecked,
    TopicsPrepared,
    facts_of,
    newest_fact,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def transactions_can_be_ended(procedure: Run) -> None:
    """If the run may abort transactions, try the tool on an id of our own before any fence; raises NotReady."""
    tool = transaction_tool(procedure) if procedure.request.abort_open_transactions else None
    try:
        if tool is not None:
            tool.check()
    except SwitchbackError as error:
        raise NotReady(
            "Open transactions could not be aborted",
            str(error),
            "Mend this, or leave abort_open_transactions out: they are then waited for.",
        ) from None


def known_topic_ids(procedure: Run) -> dict[str, str]:
    """Topic -> id at the last readiness check in this direction, with ids of topics that failbacks recreated since."""
    request = procedure.request
    checked = [*facts_of(procedure.journal.entries(step=Step.CHECK_READINESS), ReadinessChecked)]
    for entry, ready in reversed(checked):
        opened = newest_fact(procedure.journal.entries(entry.procedure_id, Step.OPEN_PROCEDURE), ProcedureOpened)
        if opened and (opened.source, opened.target) == (request.source, request.target):
            return {**ready.topic_ids, **recreated_by_failbacks(procedure, entry.sequence)}
    return {}


def recreated_by_failbacks(procedure: Run, sequence: int) -> dict[str, str]:
    """Topic -> id of topics that failbacks recreated on the source; MirrorMaker 2's data on old topics is deleted."""
    ids: dict[str, str] = {}
    for entry, prepared in facts_of(procedure.journal.entries(step=Step.PREPARE_TOPICS), TopicsPrepared):
        if entry.sequence < sequence or not prepared.recreated.rows:
            continue
        failback = procedure.other(entry.procedure_id)
        if failback is not None and failback.request.target == procedure.request.source:
            frame = failback.artifacts.load(prepared.recreated)
            ids |= zip(frame["topic"], frame["topic_id"], strict=True)
    return ids
