"""Correct the assessed loss: target logs may have become shorter, the lost source may have accepted records."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss import loss_of
from kafka_dr.domain.loss.loss_increase import LossIncrease, NewerEvidence, loss_increases, loss_now
from kafka_dr.procedure.entries import (
    AcceptedRecords,
    DataLossAssessed,
    MirrorMakerStopped,
    OffsetsTranslated,
    StepOutcome,
    TargetToOpen,
    facts_of,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step


def loss_beyond_approval(procedure: Run, until: int | None = None) -> list[LossIncrease]:
    """Return the partitions with more loss than was approved; [] unless the source is declared lost.

    Only journal entries that open_target could take into account count, because later entries can no longer stop it.

    Args:
        until: sequence number of a journal entry; this entry and later entries do not count, either. None: no such
            limit.
    """
    if not procedure.progress.without_source:
        return []
    translated = procedure.progress.done(OffsetsTranslated)
    missing = loss_of(translated.holes, translated.cut) if translated else []
    limits = [sequence for sequence in (until, _opened_at(procedure)) if sequence is not None]
    return loss_increases(
        procedure.progress.move().planned.loss, [*loss_since(procedure, min(limits, default=None)), *missing]
    )


def loss_since(procedure: Run, until: int | None = None) -> list[dict[str, Any]]:
    """Return the plan's rows of loss, corrected by journal entries before sequence number `until` (None: by all).

    Corrections are the target's log ends once MirrorMaker 2 has stopped, and records that the source accepted after
    loss was assessed.
    """
    accepted_ends = _accepted_ends(procedure, until)
    stopped = procedure.progress.done(MirrorMakerStopped)
    return loss_now(
        procedure.progress.move().planned.loss,
        NewerEvidence(accepted_to=accepted_ends)
        if stopped is None
        else _evidence_of_stop(procedure, stopped, accepted_ends),
    )


def _evidence_of_stop(
    procedure: Run, stopped: MirrorMakerStopped, accepted: dict[TopicPartition, int]
) -> NewerEvidence:
    """Return observations by which the assessed loss must be corrected, once MirrorMaker 2 is stopped.

    These are the target's log ends when loss was assessed and when MirrorMaker 2 was stopped, the replicated offsets,
    and `accepted`. Replicated offsets of recreated topics are left out, because these offsets belong to another log.

    Args:
        accepted: source partition -> log end behind the fence, where the source accepted records after the assessment.
    """
    assessed = procedure.progress.require(DataLossAssessed)
    bounds = procedure.artifacts.load(assessed.bounds)
    partitions = [TopicPartition(topic, int(p)) for topic, p in zip(bounds["topic"], bounds["partition"], strict=True)]
    assessed_ends = dict(zip(partitions, bounds["boundary"].astype("Int64"), strict=True))
    remote = dict(zip(partitions, bounds["target_topic"], strict=True))
    ends_at_stop = frame_partitions(procedure.artifacts.load(stopped.boundary), "offset")
    replicated = frame_partitions(procedure.artifacts.load(stopped.replicated), "offset") if stopped.replicated else {}
    recreated = {*bounds.loc[bounds["recreated"], "topic"], *assessed.copied_anew}
    return NewerEvidence(
        target_ends={
            tp: (None if pd.isna(end) else int(end), ends_at_stop.get(TopicPartition(remote[tp], tp.partition)))
            for tp, end in assessed_ends.items()
        },
        replicated={tp: offset for tp, offset in replicated.items() if tp.topic not in recreated},
        accepted_to=accepted,
    )


def _accepted_ends(procedure: Run, until: int | None) -> dict[TopicPartition, int]:
    """Return source partition -> log end behind the fence, where the source accepted records after the assessment.

    From the newest outcome before sequence number `until` that lists such records; {} without such an outcome.
    """
    outcomes = facts_of(procedure.journal.entries(procedure.id, kind=Entry.OUTCOME), StepOutcome)
    receipts = [
        fact.accepted
        for entry, fact in outcomes
        if isinstance(fact, AcceptedRecords) and (until is None or entry.sequence < until)
    ]
    return frame_partitions(procedure.artifacts.load(receipts[-1]), "to_offset") if receipts else {}


def _opened_at(procedure: Run) -> int | None:
    """Return the sequence number of the first journal entry that open_target could not take into account.

    None if open_target has no intent yet. This journal entry and later journal entries do not count as reasons against
    opening the target, because the target stays open.
    """
    intents = procedure.journal.entries(procedure.id, Step.OPEN_TARGET, Entry.INTENT)
    opening = next(facts_of(intents, TargetToOpen), None)
    if opening is None:
        return None
    entry, intent = opening
    return entry.sequence if intent.looked_at_entry is None else intent.looked_at_entry + 1
