"""The gate of restore_group_offsets: a second person approves which positions are written on the target."""

from __future__ import annotations

from kafka_dr.actions.restore import planned_restore
from kafka_dr.domain.offsets.restore_plan import restore_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveRestore(ProcedureGate):
    """Show the positions to write, and positions changed after the commit; pass by itself if the plan is empty."""

    def digest(self, procedure: Run) -> str | None:
        """Return the digest of the plan; None if the plan changes nothing."""
        plan, _ = planned_restore(procedure)
        return plan.digest if plan.changes else None

    def question(self, procedure: Run) -> Question:
        """Return the question whether to restore the positions on the target; the body shows the plan."""
        plan, _ = planned_restore(procedure)
        return Question(
            f"Restore {plan.writes} positions on {plan.cluster}, and delete {len(plan.deletes)} groups? Plan",
            restore_markdown(plan),
        )
