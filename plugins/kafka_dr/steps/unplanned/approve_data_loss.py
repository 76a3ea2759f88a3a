"""The gate of an unplanned failover: the inventory of the loss."""

from __future__ import annotations

from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveDataLoss(ProcedureGate):
    """Show the loss inventory; pass only when a person other than the starter approves this very inventory."""

    def digest(self, procedure: Run) -> str:
        """Digest of the plan, which holds the inventory."""
        return procedure.progress.move().plan_digest

    def question(self, procedure: Run) -> Question:
        """Show the inventory."""
        move = procedure.progress.move()
        plan = move.planned
        return Question(
            f"Give up {plan.source}, lose {plan.inventory['certain']} records or more, and go on with {plan.target}?"
            " Plan",
            loss_markdown(move.plan, move.plan_digest),
        )
