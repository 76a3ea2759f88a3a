"""Resume a flow with its new settings, and prove that records flow."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from kafka_dr.actions.flow_change.connector_changes import refuse_moved_ends
from kafka_dr.actions.flow_change.flow_progress import wait_for_progress
from kafka_dr.actions.flow_change.loops import refuse_common_names
from kafka_dr.actions.flow_change.planned_change import planned_change
from kafka_dr.errors import DeadlinePassed
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import ChangedFlowToResume, ConnectorsChanged, FlowChanged, OffsetsCorrected
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step

#: How long to wait for one connector to run; afterwards it is seen that it does not.
_RESUME_SECONDS = 20.0


class ResumeChangedFlow(ProcedureStep):
    """Resume the connectors that ran before; wait until each task that has a record to copy has copied one."""

    def act(self, procedure: Run, context: Any) -> FlowChanged:
        """Resume source connectors, then the checkpoint connector, and compare the first new copies with originals."""
        procedure.progress.require(ConnectorsChanged)
        plan = planned_change(procedure)
        if not plan.running:
            return FlowChanged(
                connectors=(), partitions_flowing=0, tasks=0, idle_tasks=0, flows="the flow is STOPPED, as before"
            )
        worker = procedure.mirror_maker(procedure.flow)
        corrected = procedure.progress.facts(OffsetsCorrected, Step.CHANGE_CONNECTORS)[-1]
        refuse_common_names(procedure, {name: worker.config(name) for name in worker.sources})
        if not procedure.progress.facts(ChangedFlowToResume, self.task_id):
            procedure.approvals.require(Step.APPROVE_CHANGE, plan.digest)
            refuse_moved_ends(procedure, corrected)
            record_fact(procedure.authority, self.task_id, ChangedFlowToResume(resumes_connectors=plan.running))
        for name in plan.running:
            with (
                acting_under(procedure.authority, partial(worker.stop, name, deadline=_RESUME_SECONDS)),
                suppress(DeadlinePassed),
            ):
                worker.resume(name, deadline=_RESUME_SECONDS, needs_tasks=False)
        progress = wait_for_progress(procedure, corrected, self.task_id, plan.running)
        return FlowChanged(
            connectors=plan.running,
            partitions_flowing=progress.flowing,
            tasks=progress.tasks,
            idle_tasks=progress.idle_tasks,
            flows=str(progress),
        )
