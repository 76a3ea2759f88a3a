"""Give a flow its former configuration again, and let it go on behind the last copied record of each partition."""

from __future__ import annotations

from contextlib import suppress

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.connector_changes import (
    before_and_after,
    change_settings,
    correct_offsets,
    take_back_skips,
)
from kafka_dr.actions.flow_change.copied_offsets import wait_for_stable_copies
from kafka_dr.actions.flow_change.flow_progress import progress_after_return
from kafka_dr.actions.flow_change.loops import refuse_common_names
from kafka_dr.actions.flow_change.planned_change import planned_change
from kafka_dr.errors import DeadlinePassed, NotReady
from kafka_dr.procedure.entries import OffsetsCorrected, SourceReturned
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import RestoreSettings, ResumeReplication

_RESUME_SECONDS = 20.0


def return_changed_flow(
    procedure: Run, step: str, settings: RestoreSettings, resumed: ResumeReplication
) -> SourceReturned:
    """Undo a change of a flow: stop it, set the former settings, correct offsets, resume it; look whether it copies.

    If it was resumed with the former settings already, it is only looked whether it copies.

    Raises:
        NotYet: a connector was resumed meanwhile; all is to be done again.
    """
    if not _is_resumed(procedure, step, settings, resumed):
        try:
            _restore(procedure, step, settings)
        except NotReady as error:
            raise NotYet(str(error)) from None
        _resume(procedure, resumed)
    corrected = procedure.progress.facts(OffsetsCorrected, step)[-1]
    flows = (
        progress_after_return(procedure, corrected, step, resumed.names)
        if resumed.names
        else "the flow is STOPPED, as before"
    )
    if corrected.moving:
        flows += f"; before it was resumed, {corrected.moving}: records of these partitions may be repeated"
    return SourceReturned(
        touched=True,
        connectors_resumed=resumed.names,
        returned_at=procedure.now(),
        settings_restored=sorted(settings.former),
        flow_after_return=flows,
    )


def _is_resumed(procedure: Run, step: str, settings: RestoreSettings, resumed: ResumeReplication) -> bool:
    worker = changed_flow(procedure)
    configs = {name: worker.config(name) for name in settings.former}
    as_before = all(
        configs[name].get(key) == value for name, former in settings.former.items() for key, value in former.items()
    )
    runs = not any(worker.status(name).stopped for name in resumed.names)
    return as_before and runs and bool(procedure.progress.facts(OffsetsCorrected, step))


def _restore(procedure: Run, step: str, settings: RestoreSettings) -> None:
    """Stop the flow, set its former settings, and correct its offsets."""
    worker, seconds = changed_flow(procedure), procedure.request.deadlines.stop_seconds
    procedure.authority.hold()
    worker.stop(worker.checkpoint, deadline=seconds)
    procedure.authority.hold()
    worker.stop_sources(deadline=seconds)
    moving = _moving_ends(procedure, step)
    changed = {name: {key: worker.config(name).get(key) for key in former} for name, former in settings.former.items()}
    change_settings(procedure, step, settings.former, changed)
    plan = planned_change(procedure)
    take_back_skips(procedure, step, plan)
    correct_offsets(procedure, step, before_and_after(procedure, plan), moving=moving)


def _moving_ends(procedure: Run, step: str) -> str:
    """Wait until the target's log ends are stable; return which still move at the deadline, as text, or "".

    Another client that writes there must not keep the flow from going on.
    """
    try:
        wait_for_stable_copies(procedure, step)
    except DeadlinePassed as error:
        return error.seen
    return ""


def _resume(procedure: Run, resumed: ResumeReplication) -> None:
    worker = changed_flow(procedure)
    refuse_common_names(procedure, {name: worker.config(name) for name in worker.sources})
    for name in resumed.names:
        procedure.authority.hold()
        with suppress(DeadlinePassed):
            worker.resume(name, deadline=_RESUME_SECONDS, needs_tasks=False)
