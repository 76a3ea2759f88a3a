"""Resume a flow with its new settings, and prove that records flow."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kafka_dr.actions.fencing.exempt_canary import CanaryVerdict, copy_through_changed_flow
from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.checkpoint_progress import checkpoints_before, new_checkpoints
from kafka_dr.actions.flow_change.connector_changes import refuse_moved_ends
from kafka_dr.actions.flow_change.flow_progress import FlowProgress, wait_for_progress
from kafka_dr.actions.flow_change.loops import refuse_common_names
from kafka_dr.actions.flow_change.planned_change import planned_change
from kafka_dr.domain.replication.change_plan import ChangePlan
from kafka_dr.errors import DeadlinePassed
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.authority import record_fact
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
        worker = changed_flow(procedure)
        corrected = procedure.progress.facts(OffsetsCorrected, Step.CHANGE_CONNECTORS)[-1]
        resumed = self._resume(procedure, plan, corrected)
        progress = wait_for_progress(procedure, corrected, self.task_id, plan.running, plan.adds)
        checkpoints = new_checkpoints(procedure, self.task_id, resumed)
        idle = procedure.flow.connect is not None and self._is_idle(plan.running, worker, progress)
        proof = copy_through_changed_flow(procedure, self.task_id) if idle else None
        return FlowChanged(
            connectors=plan.running,
            partitions_flowing=progress.flowing,
            tasks=progress.tasks,
            idle_tasks=progress.idle_tasks,
            proof_seconds=proof.seconds if proof else None,
            flows="; ".join(filter(None, [str(progress), _sentence(proof)])),
            checkpoints=checkpoints.sentence,
            new_checkpoints=checkpoints.number,
        )

    def _resume(self, procedure: Run, plan: ChangePlan, corrected: OffsetsCorrected) -> ChangedFlowToResume:
        """Resume the connectors; return the intent to do so, of which a repeated step writes no second one."""
        worker = changed_flow(procedure)
        refuse_common_names(procedure, {name: worker.config(name) for name in worker.sources})
        intents = procedure.progress.facts(ChangedFlowToResume, self.task_id)
        if not intents:
            procedure.approvals.require(Step.APPROVE_CHANGE, plan.digest)
            refuse_moved_ends(procedure, corrected)
            end, at = checkpoints_before(procedure)
            intents = [ChangedFlowToResume(resumes_connectors=plan.running, checkpoints_end=end, checkpoint_at=at)]
            record_fact(procedure.authority, self.task_id, intents[0])
        for name in plan.running:
            # A late request needs no undo: a rollback resumes these connectors, too, and stops them first.
            procedure.authority.hold()
            with suppress(DeadlinePassed):
                worker.resume(name, deadline=_RESUME_SECONDS, needs_tasks=False)
        return intents[0]

    def _is_idle(self, running: tuple[str, ...], worker: FlowConnectors, progress: FlowProgress) -> bool:
        """Whether a source connector runs, and no task had a record to copy."""
        return not progress.tasks and any(name in running for name in worker.sources)


def _sentence(proof: CanaryVerdict | None) -> str:
    if proof is None:
        return ""
    copied = f"a connector with the same settings copied a record of Switchback's own in {proof.seconds} s"
    return "; ".join(filter(None, [copied if proof.proven else "", proof.note]))
