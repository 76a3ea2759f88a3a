"""The gate of change_replication: a second person approves what a flow will mirror, and with which settings."""

from __future__ import annotations

from kafka_dr.actions.flow_change.planned_change import planned_change
from kafka_dr.domain.plain_text import count_of
from kafka_dr.domain.replication.change_plan import change_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveChange(ProcedureGate):
    """Show what the flow mirrors from now on, what it no longer mirrors, and the settings that change."""

    without_answer = "Nothing was changed. Start a new run when a person who may approve is available."

    def digest(self, procedure: Run) -> str:
        """Return the digest of the plan."""
        return planned_change(procedure).digest

    def question(self, procedure: Run) -> Question:
        """Return the question whether to change the flow; the body shows the plan."""
        plan = planned_change(procedure)
        figures = (
            f"{count_of(len(plan.adds), 'topic')} added, {len(plan.drops)} dropped",
            f"{count_of(len(plan.adds_groups), 'group')} added, {len(plan.drops_groups)} dropped",
        )
        return Question(f"Change the flow {plan.source}->{plan.target}? Plan", change_markdown(plan), figures)
