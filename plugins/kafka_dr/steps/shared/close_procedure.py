"""Close a procedure: write the evidence, whatever the outcome, and release the lease."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from kafka_dr.actions.access.trials import remove_left_access
from kafka_dr.actions.evidence import close_run_with_bad_params, file_evidence
from kafka_dr.actions.fencing.exempt_canary import remove_left_canary
from kafka_dr.actions.loss.takeover import give_back
from kafka_dr.errors import BadInput, BindingBroken
from kafka_dr.procedure.binding import refuse_broken_binding
from kafka_dr.procedure.entries import ProcedureClosed
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Entry, Outcome, Step


class CloseProcedure(ProcedureStep):
    """Write the evidence and its page; release the lease unless the outcome is `failed`.

    The task succeeds only after the outcome `completed`, in the DAG abort_procedure `aborted`. Every other outcome
    fails the task, and thereby the DAG run.
    """

    expires = True
    bounded = False
    #: The only outcome that makes the task green.
    green = Outcome.COMPLETED
    #: Outcomes after which the procedure stays closed as it is.
    terminal: tuple[Outcome, ...] = (Outcome.COMPLETED, Outcome.RETURNED, Outcome.REFUSED, Outcome.ABORTED)

    def execute(self, context: Any) -> dict[str, Any]:
        """Close the run; a run with unusable params gets evidence of its refusal, too."""
        try:
            self.procedure(context)
        except BadInput as error:
            raise AirflowFailException(close_run_with_bad_params(context, error)) from None
        return super().execute(context)

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Close the procedure, even without a lease; then fail the task unless the outcome is `green`, a success.

        Return the step's name and the outcome.
        """
        closed = procedure.progress.done(ProcedureClosed)
        if closed is None or Outcome(closed.outcome) not in self.terminal:
            closed = self._close(procedure)
        self._release_lease(procedure, closed.outcome)
        if closed.outcome != self.green:
            raise AirflowFailException(f"{closed.outcome}: {closed.failing_step or '-'}: {closed.reason_for_outcome}")
        return {"done": self.task_id, "outcome": closed.outcome}

    def _close(self, procedure: Run) -> ProcedureClosed:
        if procedure.lease.ever_held:
            procedure.authority.hold()
            try:
                refuse_broken_binding(procedure)
                remove_left_canary(procedure, self.task_id)
                remove_left_access(procedure, self.task_id)
            except BindingBroken as error:
                self.log.warning("Nothing was removed: %s", error)
        return file_evidence(procedure, procedure.lease.epoch if procedure.lease.ever_held else 0)

    def _release_lease(self, procedure: Run, outcome: str) -> None:
        """Release the lease unless the outcome is `failed`; do nothing if this procedure does not hold the lease.

        If this run continues a planned run and its open_target has not begun, the planned run gets the lease back. Once
        open_target has begun, the planned run has ended: its evidence is written, too.
        """
        lease = procedure.journal.lease(procedure.pair)
        if lease is None or lease.holder != procedure.id or lease.released_at is not None:
            return
        continued = procedure.other(procedure.progress.continues) if procedure.progress.continues else None
        opening_begun = procedure.progress.began(Step.OPEN_TARGET) is not None
        if continued is not None and opening_begun and continued.journal.entries(continued.id)[-1].kind != Entry.CLOSED:
            file_evidence(continued, lease.epoch)
        if Outcome(outcome) in self.terminal and continued is not None and not opening_begun:
            give_back(procedure, continued, outcome)
        elif Outcome(outcome) in self.terminal:
            procedure.journal.release_lease(procedure.pair, procedure.id, lease.epoch, outcome)
