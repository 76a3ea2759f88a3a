"""The gate of re_replicate_topics: a second person approves which topics are copied again, and what is deleted."""

from __future__ import annotations

from kafka_dr.actions.re_replication.scope import planned_copies
from kafka_dr.domain.plain_text import count_of
from kafka_dr.domain.re_replication.plan import re_replication_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveReReplication(ProcedureGate):
    """Show the topics, what only the target holds, and whether the target topics are deleted or kept."""

    without_answer = "Nothing was changed. Start a new run when a person who may approve is available."

    def digest(self, procedure: Run) -> str | None:
        """Return the digest of the plan."""
        plan, _ = planned_copies(procedure)
        return plan.digest

    def question(self, procedure: Run) -> Question:
        """Return the question whether to copy the topics again; the body shows the plan."""
        plan, _ = planned_copies(procedure)
        first = (
            f"delete {count_of(len(plan.copied_topics), 'topic')} there first"
            if plan.deletes
            else "keep the older copies"
        )
        subject = f"Copy {count_of(len(plan.copied_topics), 'topic')} to {plan.target} again, and {first}? Plan"
        return Question(subject, re_replication_markdown(plan))
