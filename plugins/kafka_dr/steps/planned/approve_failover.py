"""The gate of a planned failover or failback: a second person approves the plan that forecast wrote."""

from __future__ import annotations

from kafka_dr.domain.readiness.plan import plan_figures, plan_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveFailover(ProcedureGate):
    """Show the forecast; pass only when a person other than the starter of the run approves exactly this plan."""

    def digest(self, procedure: Run) -> str:
        """Return the digest of the plan that is to be approved."""
        return procedure.progress.move().plan_digest

    def question(self, procedure: Run) -> Question:
        """Return the question whether to move all clients from source to target; the body shows the forecast."""
        move = procedure.progress.move()
        return Question(
            f"Move all clients from {move.planned.source} to {move.planned.target}? Plan",
            plan_markdown(move.whole_plan, move.plan_digest),
            plan_figures(move.whole_plan),
        )
