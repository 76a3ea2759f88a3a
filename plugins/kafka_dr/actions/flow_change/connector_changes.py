"""Change settings and offsets of a stopped flow's connectors, so that it goes on behind the last copied records.

Invariants
1. Settings and offsets are changed only while all connectors of the flow are STOPPED without tasks.
2. An offset moves forward only to a source record whose copy is the target's last record. So no record is skipped, and
   none of the records that were copied is copied again.
3. Repeating the functions of this module changes nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kafka_dr.actions.flow_change.copied_offsets import copied_tails, mirrored_partitions
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.replication.change_plan import ChangePlan
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import OffsetsCorrected, OffsetsToCorrect, SettingsToChange
from kafka_dr.procedure.run import Run

_NAMED = 50


def refuse_unstopped(procedure: Run) -> None:
    """Raise Refusal unless all connectors of the flow are STOPPED without tasks."""
    worker = procedure.mirror_maker(procedure.flow)
    running = [str(status) for name in worker.names if not (status := worker.status(name)).stopped]
    if running:
        raise Refusal(
            "The flow was resumed while it is changed",
            first_few(running),
            "Find out which user or program resumed these connectors; then start a new run when this one has returned.",
        )


Settings = Mapping[str, Mapping[str, str | None]]


def change_settings(procedure: Run, step: str, wanted: Settings, former: Settings) -> list[str]:
    """Set settings of STOPPED connectors, and read them back; return the connectors.

    Args:
        wanted: connector -> setting -> value; None removes a setting.
        former: the values of the same settings before the procedure.
    """
    changes = {name: settings for name, settings in wanted.items() if settings}
    if changes:
        intent = SettingsToChange(changes_settings=changes, former_settings={name: former[name] for name in changes})
        record_fact(procedure.authority, step, intent)
    for name, settings in changes.items():
        procedure.authority.hold()
        procedure.mirror_maker(procedure.flow).change_settings(name, settings)
    return list(changes)


def correct_offsets(procedure: Run, step: str, skips: Mapping[TopicPartition, int | None]) -> OffsetsCorrected:
    """Set each partition's offset to the last copied record, where Connect's offset is behind; read all back.

    Args:
        skips: source partition -> last replicated offset that it gets in any case, because a person chose so.
    """
    worker = procedure.mirror_maker(procedure.flow)
    partitions = mirrored_partitions(procedure, worker.topic_filter())
    tails = copied_tails(procedure, (one for one in partitions if one.source not in skips))
    going_on = {tp: tail.last for tp, tail in tails.items()}
    stored = {one.source: one.stored for one in partitions}
    going_on |= {tp: last for tp, last in skips.items() if _is_ahead(last, stored.get(tp))}
    changes = {tp: last for tp, last in going_on.items() if last != stored.get(tp)}
    if changes:
        receipt = procedure.artifacts.save("offsets_to_correct", _offsets_frame(changes))
        record_fact(procedure.authority, step, OffsetsToCorrect(corrects_offsets=receipt))
        worker.change_offsets(changes, procedure.authority.hold)
    corrected = OffsetsCorrected(
        going_on=procedure.artifacts.save("going_on", _offsets_frame({**stored, **going_on})),
        ends=procedure.artifacts.save("copy_ends", _offsets_frame({one.source: one.copy_end for one in partitions})),
        partitions=len(tails),
        corrected=len(changes.keys() - skips.keys()),
        skipped=len(changes.keys() & skips.keys()),
        unproven=[str(tp) for tp, tail in sorted(tails.items()) if not tail.proven][:_NAMED],
    )
    record_fact(procedure.authority, step, corrected)
    return corrected


def skipped_offsets(plan: ChangePlan) -> dict[TopicPartition, int | None]:
    """Return the offsets of the partitions whose interval is skipped, as they were approved; {} if it is copied."""
    intervals = plan.intervals if plan.skips else ()
    return {TopicPartition(one.topic, one.partition): one.end - 1 for one in intervals}


def take_back_skips(procedure: Run, step: str, plan: ChangePlan) -> None:
    """Set the offsets of partitions whose interval was skipped back, if no record was copied since."""
    worker, skipped = procedure.mirror_maker(procedure.flow), skipped_offsets(plan)
    stored = worker.offsets().of(procedure.flow.source) if skipped else {}
    former = {
        tp: one.first - 1 if one.first else None
        for one in plan.intervals
        if stored.get(tp := TopicPartition(one.topic, one.partition)) == skipped.get(tp, -1)
    }
    if former:
        receipt = procedure.artifacts.save("offsets_to_correct", _offsets_frame(former))
        record_fact(procedure.authority, step, OffsetsToCorrect(corrects_offsets=receipt))
        worker.change_offsets(former, procedure.authority.hold)


def _is_ahead(last: int | None, stored: int | None) -> bool:
    return last is not None and (stored is None or stored < last)


def _offsets_frame(offsets: Mapping[TopicPartition, int | None]) -> pd.DataFrame:
    """Return offsets by partition as a frame; partitions without an offset are left out."""
    return partitions_frame({tp: last for tp, last in offsets.items() if last is not None}, "offset")


def refuse_moved_ends(procedure: Run, corrected: OffsetsCorrected) -> None:
    """Raise Contradiction if the target's log ends moved since offsets were corrected: somebody else writes there."""
    before = frame_partitions(procedure.artifacts.load(corrected.ends), "offset")
    now = mirrored_partitions(procedure, procedure.mirror_maker(procedure.flow).topic_filter())
    moved = [
        f"{one.copy} {before[one.source]} -> {one.copy_end}" for one in now if one.copy_end > before.get(one.source, 0)
    ]
    if moved:
        raise Contradiction(
            "Records came to the target while the flow was STOPPED",
            f"log end before -> now: {first_few(moved)}",
            "Find out which client writes to these topics, or which user or program resumed a connector; then start a"
            " new run when this one has returned.",
        )
