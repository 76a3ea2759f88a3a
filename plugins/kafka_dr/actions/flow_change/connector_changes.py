"""Change settings and offsets of a stopped flow's connectors, so that it goes on behind the last copied records.

Invariants
1. Settings and offsets are changed only while all connectors of the flow are STOPPED without tasks.
2. An offset moves forward only to a source record whose copy is the target's last record. So no record is skipped, and
   none of the records that were copied is copied again.
3. Repeating the functions of this module changes nothing more.
4. A process that is late, because the rollback of its own procedure has begun, takes back its change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import pandas as pd

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.copied_offsets import MirroredPartition, copied_tails, mirrored_partitions
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.replication.change_plan import ChangePlan
from kafka_dr.domain.replication.copied_tail import CopiedTail
from kafka_dr.domain.replication.flow_change import with_changes
from kafka_dr.errors import Contradiction, NotReady
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import ChangedFlowToStop, OffsetsCorrected, OffsetsToCorrect, SettingsToChange
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_NAMED = 50
_KNOWN = CopiedTail(None, None, proven=True)


def refuse_unstopped(procedure: Run) -> None:
    """Raise NotReady unless all connectors of the flow are STOPPED without tasks."""
    worker = changed_flow(procedure)
    running = [str(status) for name in worker.names if not (status := worker.status(name)).stopped]
    if running:
        raise NotReady(
            "The flow was resumed while it is changed",
            first_few(running),
            "Find out which user or program resumed these connectors; then start a new run when this one has returned.",
        )


Settings = Mapping[str, Mapping[str, str | None]]


def change_settings(procedure: Run, step: str, wanted: Settings, former: Settings) -> list[str]:
    """Set settings of STOPPED connectors, and read them back; return the connectors.

    Without a Connect worker a person edits them, and this waits until the stop hook reports them.

    Args:
        wanted: connector -> setting -> value; None removes a setting.
        former: the values of the same settings before the procedure.
    """
    changes = {name: settings for name, settings in wanted.items() if settings}
    if changes:
        intent = SettingsToChange(changes_settings=changes, former_settings={name: former[name] for name in changes})
        record_fact(procedure.authority, step, intent)
    if procedure.flow.connect is None:
        _await_edit(procedure, step, changes)
        return list(changes)
    for name, settings in changes.items():
        # The rollback itself takes nothing back: what it sets is what is to stay.
        late = partial(_set_back, procedure, name, former[name]) if step == Step.CHANGE_CONNECTORS else _leave
        with acting_under(procedure.authority, late):
            changed_flow(procedure).change_settings(name, settings)
    return list(changes)


def _await_edit(procedure: Run, step: str, changes: Settings) -> None:
    """Wait until a person has edited the settings, at most as long as for an approval; in a rollback until its end."""

    def look() -> None:
        refuse_unstopped(procedure)
        flow = changed_flow(procedure)
        todo = {
            f"remove {key}" if value is None else f"set {key} = {value}"
            for name, settings in changes.items()
            for key, value in settings.items()
            if flow.config(name).get(key) != value
        }
        if todo:
            raise NotYet(f"edit these settings of {procedure.flow.source}->{procedure.flow.target}: {_edits(todo)}")

    deadlines = procedure.request.deadlines
    seconds = deadlines.return_seconds if step == Step.RETURN_TO_SOURCE else deadlines.approval_wait_seconds
    procedure.progress.wait(step, "The settings that a person edits", look, seconds)


def _edits(todo: set[str]) -> str:
    return first_few(sorted(todo), _NAMED, "; ")


def _leave() -> None:
    """Take nothing back."""


def _set_back(procedure: Run, name: str, former: Mapping[str, str | None]) -> None:
    """Give a connector its former settings again, while it is STOPPED."""
    worker = changed_flow(procedure)
    worker.stop(name, deadline=procedure.request.deadlines.stop_seconds)
    worker.change_settings(name, former)
    resume_as_returned(procedure, [name])


def resume_as_returned(procedure: Run, names: Iterable[str]) -> None:
    """Resume those of the connectors that the rollback of this run resumes, if it may have resumed them already.

    A rollback that has not corrected offsets yet still resumes them itself.
    """
    if not procedure.progress.facts(OffsetsCorrected, Step.RETURN_TO_SOURCE):
        return
    ran = {name for intent in procedure.progress.facts(ChangedFlowToStop) for name in intent.stops_connectors_to_change}
    for name in names:
        if name in ran:
            changed_flow(procedure).resume(name, deadline=procedure.request.deadlines.stop_seconds, needs_tasks=False)


def correct_offsets(
    procedure: Run,
    step: str,
    mirrors: FlowFilter,
    chosen: Mapping[TopicPartition, int | None] | None = None,
    moving: str = "",
) -> OffsetsCorrected:
    """Set each partition's offset to the last copied record, where Connect's offset is behind; read all back.

    Args:
        mirrors: selects the topics whose partitions count.
        chosen: source partition -> last replicated offset that it gets in place of the last copied one.
        moving: which log ends of the target still move, as text.
    """
    skips, worker = chosen or {}, changed_flow(procedure)
    partitions = mirrored_partitions(procedure, mirrors)
    tails = copied_tails(procedure, (one for one in partitions if one.source not in skips))
    if step == Step.CHANGE_CONNECTORS:
        _refuse_unknown_start(procedure, partitions, tails)
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
        moving=moving,
    )
    record_fact(procedure.authority, step, corrected)
    return corrected


def before_and_after(procedure: Run, plan: ChangePlan) -> FlowFilter:
    """Return a filter that selects the topics that the flow mirrors before the change, or after it.

    Partitions that leave the flow need their offsets, too: the flow goes on there when they are included again.
    """
    worker = changed_flow(procedure)
    configs = {name: worker.config(name) for name in worker.sources}
    both = {
        f"{name} {when}": with_changes(config, settings)
        for name, config in configs.items()
        for when, settings in (("before", plan.connectors[name].former), ("after", plan.connectors[name].wanted))
    }
    return FlowFilter(both, procedure.naming, procedure.flow.target, worker.worker().version)


def _refuse_unknown_start(
    procedure: Run, partitions: Iterable[MirroredPartition], tails: Mapping[TopicPartition, CopiedTail]
) -> None:
    """Raise Contradiction for partitions with copies that the flow would copy again from their beginning."""
    mirrors = changed_flow(procedure).topic_filter()
    unknown = [
        str(one.source)
        for one in partitions
        if one.stored is None and one.copy_end and not tails.get(one.source, _KNOWN).proven
        if mirrors.selects(one.source.topic)
    ]
    if unknown:
        raise Contradiction(
            "Connect stores no offset of partitions that have copies, and their last copy is not on the source",
            f"on {procedure.request.source}: {first_few(unknown)}",
            "The flow would copy these partitions again from their beginning. Replicate their topics again with"
            " re_replicate_topics; then start a new run when this one has returned.",
        )


def skipped_offsets(plan: ChangePlan) -> dict[TopicPartition, int | None]:
    """Return the offsets of the partitions whose interval is skipped, as they were approved; {} if it is copied."""
    intervals = plan.intervals if plan.skips else ()
    return {TopicPartition(one.topic, one.partition): one.end - 1 for one in intervals}


def take_back_skips(procedure: Run, step: str, plan: ChangePlan) -> None:
    """Set the offsets of partitions whose interval was skipped back, if no record was copied since."""
    worker, skipped = changed_flow(procedure), skipped_offsets(plan)
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
    now = mirrored_partitions(procedure, changed_flow(procedure).topic_filter())
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
