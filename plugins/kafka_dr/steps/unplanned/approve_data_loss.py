"""The gate of an unplanned failover: a second person approves the inventory of the loss."""

from __future__ import annotations

from kafka_dr.actions.history.moves import target_opened_before
from kafka_dr.domain.loss.loss_page import loss_figures, loss_markdown
from kafka_dr.domain.plain_text import table_cell
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveDataLoss(ProcedureGate):
    """Show what is lost; pass only when a person other than the starter of the run approves exactly this loss."""

    def digest(self, procedure: Run) -> str:
        """Return the digest of the plan, which contains the inventory of the loss."""
        return procedure.progress.move().plan_digest

    def question(self, procedure: Run) -> Question:
        """Return the question whether to give up the source; the body shows the inventory of the loss."""
        move = procedure.progress.move()
        plan = move.planned
        moved = target_opened_before(procedure)
        warning = (
            ""
            if moved is None
            else f"**By the journal, clients already work on {plan.target}: {table_cell(moved.id)} moved them. If so,"
            f" this run can only list the records that {plan.target} lacks: reject this run.**\n\n"
        )
        return Question(
            f"Give up {plan.source}, lose {plan.inventory['certain']} records or more, and continue on {plan.target}?"
            " Plan",
            warning + loss_markdown(move.whole_plan, move.plan_digest),
            loss_figures(move.whole_plan),
        )
