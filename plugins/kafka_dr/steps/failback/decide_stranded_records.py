"""The gate of a failback: a second person approves what is done with stranded records, and mode recreate."""

from __future__ import annotations

from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.failback.stranded_page import return_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class DecideStrandedRecords(ProcedureGate):
    """Pass by itself if no record is stranded and no topic will be deleted; else ask, with figures and decisions."""

    def digest(self, procedure: Run) -> str | None:
        """Return the digest of stranded records' figures and the params' decisions; None if no approval is needed."""
        planned = planned_return(procedure)
        return planned.digest if planned.needs_a_person else None

    def question(self, procedure: Run) -> Question:
        """Return the question whether to move clients back as decided; the body shows figures and decisions."""
        planned = planned_return(procedure)
        records = sum(topic.records for topic in planned.stranded)
        subject = (
            f"Delete and recreate topics on {planned.target}, and treat"
            if planned.mode is Mode.RECREATE
            else f"Move clients back to {planned.target}, and treat"
        )
        return Question(f"{subject} {records} stranded records as described below? Decision", return_markdown(planned))
