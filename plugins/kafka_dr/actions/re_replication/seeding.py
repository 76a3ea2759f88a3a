"""Set the offsets at which the chosen topics are copied again; all other topics go on behind their last copy."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_dr.actions.re_replication.first_record import begin_at_first_record, held_offsets
from kafka_dr.actions.re_replication.proven_offsets import stored_offsets
from kafka_dr.actions.re_replication.scope import planned_copies
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.re_replication.starts import offset_before
from kafka_dr.errors import Contradiction, ReadBackFailed
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FlowStopped, OffsetsToReset, ReplicationSeeded
from kafka_dr.procedure.run import Run

#: Stands for "no offset" in files of offsets.
NO_OFFSET = -1
Offsets = dict[TopicPartition, int]


def seed_replication(procedure: Run, step: str) -> ReplicationSeeded:
    """Write the wanted offsets to Connect, and read all offsets of the flow back. Safe to repeat.

    Where a start at 0 needs it, `auto.offset.reset` is `earliest` from now on. Other partitions without an offset then
    get the one before the end that they had at planning, and the copying of their older records does not begin.

    Raises:
        Contradiction: an offset of another topic changed after MirrorMaker 2 was stopped.
        ReadBackFailed: Connect stores another offset than wanted.
    """
    stopped = procedure.progress.require(FlowStopped)
    stored = frame_partitions(procedure.artifacts.load(stopped.stored), "offset")
    proven = frame_partitions(procedure.artifacts.load(stopped.proven), "offset")
    plan, firsts = planned_copies(procedure)
    again = {tp: offset_before(first) for tp, first in firsts.items()}
    advanced = {tp: last for tp, last in proven.items() if stored.get(tp, NO_OFFSET) < last}
    held = held_offsets(plan, {**stored, **proven, **again})
    expected = {tp: last for tp, last in ({**stored, **again, **advanced, **held}).items() if last is not None}
    now = stored_offsets(procedure)
    _refuse_changed(now, stored, expected)
    changes = {tp: last for tp, last in {**again, **advanced, **held}.items() if now.get(tp) != last}
    before = {tp: stored.get(tp, NO_OFFSET) for tp in {**again, **advanced}}
    receipt = procedure.artifacts.save("offsets_before", partitions_frame(before, "offset"))
    record_fact(procedure.authority, step, OffsetsToReset(resets_offsets=receipt))
    if plan.resets:
        begin_at_first_record(procedure, step, plan.resets)
    if changes:
        procedure.mirror_maker(procedure.flow).change_offsets(changes, procedure.authority.hold)
    refuse_other_offsets_stored(stored_offsets(procedure), expected)
    return ReplicationSeeded(
        seeded=len(again),
        advanced=[str(tp) for tp in sorted(advanced)],
        untouched=len(expected.keys() - again.keys() - advanced.keys() - held.keys()),
        held=[str(tp) for tp in sorted(held)] if plan.resets else None,
        begin_at_first_record=list(plan.resets) or None,
    )


def _refuse_changed(now: Offsets, stored: Offsets, expected: Offsets) -> None:
    """Refuse an offset that is neither as after the stop nor as this step sets it."""
    strange = [
        f"{tp}: {stored.get(tp)} after the stop, {now.get(tp)} now"
        for tp in sorted({*now, *stored})
        if now.get(tp) not in (stored.get(tp), expected.get(tp))
    ]
    if strange:
        raise Contradiction(
            "Offsets in Connect changed although MirrorMaker 2 is stopped",
            first_few(strange),
            "Find out which user or tool changes offsets of the flow's source connectors, and whether a connector was"
            " resumed. Then clear the red step; if topics were not deleted yet, start a new run instead.",
        )


def refuse_other_offsets_stored(stored: Mapping[TopicPartition, int], expected: Mapping[TopicPartition, int]) -> None:
    """Refuse unless Connect stores exactly the expected offsets of the flow."""
    wrong = [
        f"{tp}: {expected.get(tp)} expected, {stored.get(tp)} read back"
        for tp in sorted({*stored, *expected})
        if stored.get(tp) != expected.get(tp)
    ]
    if wrong:
        raise ReadBackFailed(
            "Connect does not store the offsets as they are to be",
            first_few(wrong),
            "The flow was not resumed. Find out which user or tool changes offsets of the flow's source connectors."
            " Then clear seed_replication with its downstream tasks.",
        )
