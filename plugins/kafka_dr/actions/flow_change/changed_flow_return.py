"""Give a flow its former configuration again, and let it go on behind the last copied record of each partition."""

from __future__ import annotations

from contextlib import suppress

from kafka_dr.actions.flow_change.connector_changes import change_settings, correct_offsets, take_back_skips
from kafka_dr.actions.flow_change.copied_offsets import mirrored_partitions
from kafka_dr.actions.flow_change.flow_progress import progress_after_return
from kafka_dr.actions.flow_change.loops import refuse_common_names
from kafka_dr.actions.flow_change.planned_change import planned_change
from kafka_dr.actions.replication.stop import wait_for_stable_target_ends
from kafka_dr.errors import DeadlinePassed
from kafka_dr.procedure.entries import OffsetsCorrected, SourceReturned
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import RestoreSettings, ResumeReplication

_RESUME_SECONDS = 20.0


def return_changed_flow(
    procedure: Run, step: str, settings: RestoreSettings, resumed: ResumeReplication
) -> SourceReturned:
    """Undo a change of a flow: stop it, set the former settings, correct offsets, resume it; look whether it copies.

    If it was resumed with the former settings already, it is only looked whether it copies.
    """
    if not _is_resumed(procedure, step, settings, resumed):
        _restore(procedure, step, settings)
        _resume(procedure, resumed)
    corrected = procedure.progress.facts(OffsetsCorrected, step)[-1]
    flows = (
        progress_after_return(procedure, corrected, step, resumed.names)
        if resumed.names
        else "the flow is STOPPED, as before"
    )
    return SourceReturned(
        touched=True,
        connectors_resumed=resumed.names,
        returned_at=procedure.now(),
        settings_restored=sorted(settings.former),
        flow_after_return=flows,
    )


def _is_resumed(procedure: Run, step: str, settings: RestoreSettings, resumed: ResumeReplication) -> bool:
    worker = procedure.mirror_maker(procedure.flow)
    configs = {name: worker.config(name) for name in settings.former}
    as_before = all(
        configs[name].get(key) == value for name, former in settings.former.items() for key, value in former.items()
    )
    runs = not any(worker.status(name).stopped for name in resumed.names)
    return as_before and runs and bool(procedure.progress.facts(OffsetsCorrected, step))


def _restore(procedure: Run, step: str, settings: RestoreSettings) -> None:
    """Stop the flow, set its former settings, and correct its offsets."""
    worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
    procedure.authority.hold()
    worker.stop(worker.checkpoint, deadline=seconds)
    worker.stop_sources(deadline=seconds)
    copies = {one.copy for one in mirrored_partitions(procedure, worker.topic_filter()) if one.copy_end}
    wait_for_stable_target_ends(procedure, step, sorted(copies))
    changed = {name: {key: worker.config(name).get(key) for key in former} for name, former in settings.former.items()}
    change_settings(procedure, step, settings.former, changed)
    take_back_skips(procedure, step, planned_change(procedure))
    correct_offsets(procedure, step, {})


def _resume(procedure: Run, resumed: ResumeReplication) -> None:
    worker = procedure.mirror_maker(procedure.flow)
    refuse_common_names(procedure, {name: worker.config(name) for name in worker.sources})
    for name in resumed.names:
        procedure.authority.hold()
        with suppress(DeadlinePassed):
            worker.resume(name, deadline=_RESUME_SECONDS, needs_tasks=False)
