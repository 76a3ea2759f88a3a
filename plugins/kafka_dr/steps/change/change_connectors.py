"""Give the stopped connectors of a flow their new settings, and the offsets behind the last copied records."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.flow_change.connector_changes import (
    before_and_after,
    change_settings,
    correct_offsets,
    refuse_unstopped,
    skipped_offsets,
)
from kafka_dr.actions.flow_change.planned_change import planned_change, refuse_other_configuration
from kafka_dr.procedure.entries import ChangedFlowStopped, ConnectorsChanged
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class ChangeConnectors(ProcedureStep):
    """Set the plan's settings while the connectors are STOPPED; set each offset that is behind; read all back."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ConnectorsChanged:
        """Change settings, then offsets: with the new settings, partitions that are included again count, too."""
        procedure.progress.require(ChangedFlowStopped)
        plan = planned_change(procedure)
        procedure.approvals.require(Step.APPROVE_CHANGE, plan.digest)
        refuse_unstopped(procedure)
        if not plan.edited_by_hand:
            refuse_other_configuration(procedure, plan)
        wanted = {name: one.wanted for name, one in plan.connectors.items()}
        former = {name: one.former for name, one in plan.connectors.items()}
        changed = change_settings(procedure, self.task_id, wanted, former)
        if plan.edited_by_hand:
            # Not before: a person may have been in the middle of the edit.
            refuse_other_configuration(procedure, plan)
        corrected = correct_offsets(procedure, self.task_id, before_and_after(procedure, plan), skipped_offsets(plan))
        return ConnectorsChanged(
            connectors=changed,
            partitions=corrected.partitions,
            corrected=corrected.corrected,
            skipped=corrected.skipped,
            unproven=corrected.unproven,
        )
