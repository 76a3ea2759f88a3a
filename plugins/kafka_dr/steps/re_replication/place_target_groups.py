"""Give the groups their exact places among the new copies, and resume the checkpoint connector on a new history."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_dr.actions.re_replication.first_record import set_former_reset, stop_checkpoints_too
from kafka_dr.actions.re_replication.history import commit_places, new_history, write_history
from kafka_dr.actions.re_replication.restoring import restore_settings
from kafka_dr.actions.re_replication.scope import planned_copies
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import GroupsPlaced, HistoryToBegin
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class PlaceTargetGroups(ProcedureStep):
    """Commit positions, write syncs and checkpoints of the new copies, set settings again; then resume checkpoints."""

    def act(self, procedure: Run, context: Any) -> GroupsPlaced:
        """Do so in this order, and read positions and settings back.

        First a connector gets its former `auto.offset.reset`, if the run had changed that. Without a Connect worker
        the checkpoint connector has run meanwhile, in the same processes: these are stopped first, and start at last.
        """
        reset_as_before = set_former_reset(procedure, self.task_id)
        stop_checkpoints_too(procedure, self.task_id)
        history, (plan, _) = new_history(procedure), planned_copies(procedure)
        intent = HistoryToBegin(
            places_positions=len(history.positions),
            writes_syncs=len(history.syncs),
            writes_checkpoints=len(history.checkpoints),
        )
        record_fact(procedure.authority, self.task_id, intent)
        settings = restore_settings(procedure)
        ledger, committed = commit_places(procedure, history.positions)
        write_history(procedure, history)
        worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
        resumed = [name for name in plan.connectors if name == worker.checkpoint]
        for name in resumed:
            with acting_under(procedure.authority, partial(worker.stop, name, deadline=seconds)):
                worker.resume(name, deadline=seconds, needs_tasks=False)
        return GroupsPlaced(
            positions=len(history.positions),
            committed=committed,
            syncs=len(history.syncs),
            checkpoints=len(history.checkpoints),
            ledger=ledger,
            connectors=resumed,
            settings_set=settings or None,
            reset_as_before=reset_as_before or None,
        )
