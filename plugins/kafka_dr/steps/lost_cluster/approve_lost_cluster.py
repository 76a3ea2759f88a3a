"""The gate of lost_cluster: a second person approves the unplanned failovers of all pairs at once."""

from __future__ import annotations

from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.loss.lost_cluster import lost_cluster_markdown
from kafka_dr.procedure.common_plan import common_plan_of
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question


class ApproveLostCluster(ProcedureGate):
    """Show the loss of every pair; pass only when a person other than the starter approves exactly this plan."""

    without_answer = (
        "The runs of all pairs end by themselves. Start a new run when a person who may approve is available."
    )

    def digest(self, procedure: Run) -> str:
        """Return the digest of the common plan, which contains the digest of each pair's plan."""
        return common_plan_of(procedure).digest

    def question(self, procedure: Run) -> Question:
        """Return the question whether to give up the cluster; the body shows the common plan, and each pair's."""
        common = common_plan_of(procedure)
        pages, plan = {}, common.document
        for part in plan["pairs"]:
            moved = procedure.require_other(part["procedure_id"]).progress.move()
            pages[part["procedure_id"]] = loss_markdown(moved.whole_plan, moved.plan_digest)
        targets = ", ".join(part["target"] for part in plan["pairs"])
        figures = tuple(f"{part['target']}: {part['certain']} records certainly lost." for part in plan["pairs"])
        subject = f"Give up {plan['source']}, and move its clients to {targets}? Plan"
        return Question(subject, lost_cluster_markdown(plan, common.digest, pages), figures)
