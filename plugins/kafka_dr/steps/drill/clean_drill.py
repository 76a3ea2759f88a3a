"""Remove what a canary drill has made, and compare production with before."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.actions.drill.removal import remove_drill
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.procedure.entries import DrillCleaned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.drill.after_passes import AfterPasses


class CleanDrill(AfterPasses, ProcedureStep):
    """Remove topics, groups, ACL entries and connectors by names and ids, whatever the passes came to."""

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Clean up; a drill that never took its lease, or made nothing, has nothing to clean."""
        if not procedure.lease.ever_held:
            return {"done": self.task_id, "touched": False}
        return super().run_once(procedure, context, woken)

    def act(self, procedure: Run, context: Any) -> DrillCleaned:
        """Stop if a procedure holds the pair of clusters: schedule_drills then cleans up later."""
        DrillLedger(installation_of(procedure).folder).ask_to_stop()
        procedure.refuse_if_preempted()
        return remove_drill(procedure, self.task_id)
