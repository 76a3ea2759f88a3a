"""The gate of an unplanned failover: a second person approves the inventory of the loss."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from kafka_dr.actions.history.moves import target_opened_before
from kafka_dr.domain.loss.loss_page import loss_figures, loss_markdown
from kafka_dr.domain.plain_text import table_cell
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.common_plan import PartApprovals
from kafka_dr.procedure.entries import GatePassed
from kafka_dr.procedure.progress import WaitLonger
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import WAKE_AFTER
from kafka_dr.steps.gate import ProcedureGate, Question

#: How long the other pairs may take until the common plan can be approved, in seconds.
_OTHER_PAIRS_SECONDS = 1_800.0


class ApproveDataLoss(ProcedureGate):
    """Show what is lost; pass only when a person other than the starter of the run approves exactly this loss.

    In a run that lost_cluster has started, the gate asks nobody, and waits for the approval of the common plan.
    """

    def execute(self, context: Any) -> Any:
        """Ask and wait for the answer, or wait for the approval of the common plan."""
        if context["params"].get("common_plan") is None:
            return super().execute(context)
        return self._wait_for_common(context, woken=False)

    def resume(self, context: Any, event: Any = None) -> Any:
        """Go on waiting for the approval of the common plan when Airflow wakes the gate."""
        return self._wait_for_common(context, woken=True)

    def _wait_for_common(self, context: Any, woken: bool) -> Any:
        with self.recorded(context) as procedure:
            if self.already_done(procedure) and self.still_open(procedure):
                return {"done": self.task_id}
            self.begin(procedure, context, woken)
            approvals = procedure.approvals
            if not isinstance(approvals, PartApprovals):
                record_fact(procedure.authority, self.task_id, GatePassed(asked=False))
                return {"done": self.task_id}
            wait = procedure.request.deadlines.approval_wait_seconds + _OTHER_PAIRS_SECONDS
            look = partial(approvals.wait_for_approval, self.digest(procedure))
            try:
                approval = procedure.progress.wait(self.task_id, "the approval of the common plan", look, wait)
            except WaitLonger as longer:
                self.log.info("%s", longer)
            else:
                self.record_approval(procedure, approval)
                return {"done": self.task_id}
        self.defer(trigger=TimeDeltaTrigger(WAKE_AFTER), method_name="resume")
        return None

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
