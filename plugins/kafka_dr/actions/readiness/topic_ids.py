"""Read from the journal the topic ids at the last readiness check, and of topics that were recreated since."""

from __future__ import annotations

from kafka_dr.procedure.entries import (
    ProcedureOpened,
    ReadinessChecked,
    TargetTopicsReady,
    TopicsPrepared,
    facts_of,
    newest_fact,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def known_topic_ids(procedure: Run) -> dict[str, str]:
    """Return source topic -> its id at the last readiness check of this source and target; {} without a check.

    A topic that a failback, or re_replicate_topics, recreated on the source after that check has its newer id.
    """
    request = procedure.request
    checked = [*facts_of(procedure.journal.entries(step=Step.CHECK_READINESS), ReadinessChecked)]
    for entry, ready in reversed(checked):
        opened = newest_fact(procedure.journal.entries(entry.procedure_id, Step.OPEN_PROCEDURE), ProcedureOpened)
        if opened and (opened.source, opened.target) == (request.source, request.target):
            recreated = recreated_by_failbacks(procedure, entry.sequence) | recreated_copies(procedure, entry.sequence)
            return {**ready.topic_ids, **recreated}
    return {}


def recreated_by_failbacks(procedure: Run, sequence: int) -> dict[str, str]:
    """Return the new topic id, by topic name, of each source topic that a failback recreated.

    Such a new id needs no refusal, because the failback also deleted the old topic's offset syncs, checkpoints and
    Connect offsets.

    Args:
        sequence: number of a journal entry; topics recreated before this entry are left out.
    """
    ids: dict[str, str] = {}
    for entry, prepared in facts_of(procedure.journal.entries(step=Step.PREPARE_TOPICS), TopicsPrepared):
        if entry.sequence < sequence or not prepared.recreated.rows:
            continue
        failback = procedure.other(entry.procedure_id)
        if failback is not None and failback.request.target == procedure.request.source:
            frame = failback.artifacts.load(prepared.recreated)
            ids |= zip(frame["topic"], frame["topic_id"], strict=True)
    return ids


def recreated_copies(procedure: Run, sequence: int) -> dict[str, str]:
    """Return the new topic id, by name, of each source topic that was recreated as a target of re_replicate_topics.

    Such a new id needs no refusal: offset syncs and checkpoints of the new log replaced those of the old one.

    Args:
        sequence: number of a journal entry; topics recreated before this entry are left out.
    """
    ids: dict[str, str] = {}
    for entry, ready in facts_of(procedure.journal.entries(step=Step.RECREATE_TARGET_TOPICS), TargetTopicsReady):
        writer = procedure.other(entry.procedure_id) if entry.sequence > sequence and ready.recreated else None
        if writer is not None and writer.request.target == procedure.request.source:
            ids |= ready.topic_ids
    return ids
