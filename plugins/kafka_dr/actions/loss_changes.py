"""Loss since the approval: the target's log may have shrunk, a returned source may have accepted records."""

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
    """Partitions with more loss than approved, by what was known before the opening; [] if no source was given up.

    Args:
        until: entries of the journal from this number on are not looked at.
    """
    if not procedure.progress.without_source:
        return []
    translated = procedure.progress.done(OffsetsTranslated)
    missing = loss_of(translated.holes, translated.cut) if translated else []
    limits = [number for number in (until, _opened_at(procedure)) if number is not None]
    return loss_increases(
        procedure.progress.move().planned.loss, [*loss_since(procedure, min(limits, default=None)), *missing]
    )


def loss_since(procedure: Run, until: int | None = None) -> list[dict[str, Any]]:
    """The approved rows of loss as they are by what was found out since, by entries before a number of the journal."""
    accepted = _accepted(procedure, until)
    stopped = procedure.progress.done(MirrorMakerStopped)
    return loss_now(
        procedure.progress.move().planned.loss,
        NewerEvidence(accepted_to=accepted) if stopped is None else _since_stopped(procedure, stopped, accepted),
    )


def _since_stopped(procedure: Run, stopped: MirrorMakerStopped, accepted: dict[TopicPartition, int]) -> NewerEvidence:
    """Compare the target's ends with the assessment's; offsets of a topic made anew are of another log."""
    assessed = procedure.progress.require(DataLossAssessed)
    bounds = procedure.artifacts.load(assessed.bounds)
    places = [TopicPartition(topic, int(p)) for topic, p in zip(bounds["topic"], bounds["partition"], strict=True)]
    then = dict(zip(places, bounds["boundary"].astype("Int64"), strict=True))
    remote = dict(zip(places, bounds["target_topic"], strict=True))
    now = frame_partitions(procedure.artifacts.load(stopped.boundary), "offset")
    kept = frame_partitions(procedure.artifacts.load(stopped.replicated), "offset") if stopped.replicated else {}
    anew = {*bounds.loc[bounds["recreated"], "topic"], *assessed.copied_anew}
    return NewerEvidence(
        target_ends={
            tp: (None if pd.isna(end) else int(end), now.get(TopicPartition(remote[tp], tp.partition)))
            for tp, end in then.items()
        },
        replicated={tp: offset for tp, offset in kept.items() if tp.topic not in anew},
        accepted_to=accepted,
    )


def _accepted(procedure: Run, until: int | None) -> dict[TopicPartition, int]:
    """Source log ends behind its fence where it accepted records since assessment; by the newest such list."""
    outcomes = facts_of(procedure.journal.entries(procedure.id, kind=Entry.OUTCOME), StepOutcome)
    listed = [
        fact.accepted
        for entry, fact in outcomes
        if isinstance(fact, AcceptedRecords) and (until is None or entry.sequence < until)
    ]
    return frame_partitions(procedure.artifacts.load(listed[-1]), "to_offset") if listed else {}


def _opened_at(procedure: Run) -> int | None:
    """First entry number the opening did not look at, None before its intent; later findings move nobody back."""
    intents = procedure.journal.entries(procedure.id, Step.OPEN_TARGET, Entry.INTENT)
    begun = next(facts_of(intents, TargetToOpen), None)
    if begun is None:
        return None
    entry, intent = begun
    return entry.sequence if intent.looked_at_entry is None else intent.looked_at_entry + 1
