"""The gate of a planned failover."""

from __future__ import annotations

from kafka_dr.domain.readiness.plan import plan_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveFailover(ProcedureGate):
    """Show the forecast; pass only when a person other than the starter approves this very plan."""

    def digest(self, procedure: Run) -> str:
        """Digest of the plan."""
        return procedure.progress.move().plan_digest

    def question(self, procedure: Run) -> Question:
        """Show the forecast."""
        move = procedure.progress.move()
        return Question(
            f"Move all clients from {move.planned.source} to {move.planned.target}? Plan",
            plan_markdown(move.plan, move.plan_digest),
        )
