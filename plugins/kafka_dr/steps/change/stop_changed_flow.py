"""Stop the connectors of a flow that is changed, and prove that nothing is copied any more."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.connector_changes import resume_as_returned
from kafka_dr.actions.flow_change.copied_offsets import wait_for_stable_copies
from kafka_dr.actions.flow_change.planned_change import planned_change, refuse_other_configuration
from kafka_dr.actions.replication.stop import STOPPED
from kafka_dr.actions.scope.internal_topics import offset_syncs_of
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.errors import SystemUnavailable
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import ChangedFlowStopped, ChangedFlowToStop
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class StopChangedFlow(ProcedureStep):
    """Save the offset syncs; stop checkpoint and source connectors; wait until the target's log ends are stable."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ChangedFlowStopped:
        """Stop the flow; return the target's log ends and the offsets that Connect stores.

        A task that does not stop within five seconds is cancelled by Connect: it may still write for a moment, and its
        last offsets are not stored. Only stable log ends show that it writes no more.
        """
        plan = planned_change(procedure)
        approval = procedure.approvals.require(Step.APPROVE_CHANGE, plan.digest)
        refuse_other_configuration(procedure, plan)
        flow, seconds = procedure.flow, procedure.request.deadlines.stop_seconds
        worker = changed_flow(procedure)
        if not procedure.progress.facts(ChangedFlowToStop, self.task_id):
            record_fact(procedure.authority, self.task_id, self._intent(procedure, plan.running))

        undo = partial(resume_as_returned, procedure, plan.running)
        with acting_under(procedure.authority, undo):
            worker.stop(worker.checkpoint, deadline=seconds)
        with acting_under(procedure.authority, undo):
            worker.stop_sources(deadline=seconds)
        ends = wait_for_stable_copies(procedure, self.task_id)
        stored = {tp: last for tp, last in worker.offsets().of(flow.source).items() if last is not None}
        return ChangedFlowStopped(
            approval=approval,
            states=dict.fromkeys(worker.names, STOPPED),
            ends=procedure.artifacts.save("target_ends", partitions_frame(ends, "offset")),
            stored=procedure.artifacts.save("stored_offsets", partitions_frame(stored, "offset")),
        )

    def _intent(self, procedure: Run, running: tuple[str, ...]) -> ChangedFlowToStop:
        """Return the intent to stop, with the offset syncs: tasks that start anew lose what they know of older ones."""
        intent = partial(ChangedFlowToStop, stops_connectors_to_change=running)
        try:
            syncs = pd.concat(list(offset_syncs_of(procedure)), ignore_index=True)
        except SystemUnavailable as error:
            return intent(syncs_missing=str(error))
        return intent(syncs=procedure.artifacts.save("offset_syncs", syncs))
