"""The gate of a full drill: a second person announces that real clients will be moved."""

from __future__ import annotations

from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class AnnounceDrill(ProcedureGate):
    """Ask whether a full drill is announced; drills of other kinds move no real client, and pass."""

    def digest(self, procedure: Run) -> str | None:
        """Return the digest of the plan; None unless the drill is a full one."""
        return procedure.progress.move().plan_digest if kind_of(procedure) == "full" else None

    def question(self, procedure: Run) -> Question:
        """Return the question, with the plan of the move."""
        move, hours = procedure.progress.move(), procedure.flow.objectives.notice_hours
        return Question(
            f"Announce a full drill of {move.planned.source}->{move.planned.target}? Plan",
            f"The real clients will be moved to {move.planned.target} and back by ordinary runs of planned_failover and"
            f" failback, which people start and approve, at the earliest {hours} hours after this answer.",
        )
