"""Abort a procedure by a run of the DAG abort_procedure.

The aborted run rolls itself back. Only if it does not do so, the run of abort_procedure rolls back in its place.
"""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.re_replication.rollback import refuse_past_return
from kafka_dr.errors import BadInput, Refusal, SwitchbackError
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import AbortNoted, ProcedureAborted, facts_of
from kafka_dr.procedure.find import procedure_holding
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import foreign_params
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class AbortedStep(ProcedureStep):
    """A step of the DAG abort_procedure: acts on, and writes to the journal for, the procedure that is aborted."""

    bounded = False

    def procedure(self, context: Any) -> Run:
        """Return the procedure that this run has aborted; before this run aborts one, the holder of the lease."""
        holder = procedure_holding(str(context["params"]["source"]), str(context["params"]["target"]))
        aborts = facts_of(holder.journal.entries(step=Step.ABORT_PROCEDURE), ProcedureAborted)
        own_aborts = [entry for entry, abort in aborts if abort.run_id == context["dag_run"].run_id]
        return (holder.other(own_aborts[-1].procedure_id) if own_aborts else None) or holder


class AbortProcedure(AbortedStep):
    """Record who aborts the procedure and why; after that entry no step of the procedure goes forward."""

    def procedure(self, context: Any) -> Run:
        """Return the procedure to abort, which holds the lease; first refuse params that abort_procedure lacks."""
        unusable_params = sorted(
            name for name in foreign_params(Step.ABORT_PROCEDURE) if context["params"].get(name) is not None
        )
        if unusable_params:
            raise BadInput(
                "the params cannot be used",
                f"{', '.join(unusable_params)}: this procedure does not take it",
                "trigger the DAG again without these params; nothing was aborted",
            )
        return super().procedure(context)

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Record the abort. Take no new epoch, because the aborted run could then not roll itself back.

        Raises:
            Refusal: open_target has begun, or re_replicate_topics has passed its point of no return.
        """
        if procedure.progress.done(ProcedureAborted) is None:
            procedure.authority.hold()
            if procedure.progress.began(Step.OPEN_TARGET) is not None:
                raise Refusal(
                    f"{procedure.id} has passed the point of no return",
                    "open_target had begun",
                    f"Nothing was aborted. In Airflow clear the failed step of {procedure.id}, if there is a failed"
                    " step; to move clients back, run failback once that procedure has completed.",
                )
            refuse_past_return(procedure)
            run = context["dag_run"]
            reason, at = str(context["params"]["reason"]), procedure.now()
            abort = ProcedureAborted(by=starter_of(procedure, run), reason=reason, run_id=run.run_id, at=at)
            for fact in (abort, AbortNoted(aborted=procedure.id)):
                record_fact(procedure.authority, self.task_id, fact)
        return {"done": self.task_id, "procedure_id": procedure.id}


def starter_of(procedure: Run, run: Any) -> str:
    """Return the user who triggered the abort, as Airflow's API states; "unknown" if the API does not state a user."""
    try:
        return procedure.systems.api.dag_run(run.dag_id, run.run_id).triggering_user_name or "unknown"
    except SwitchbackError:
        return "unknown"
