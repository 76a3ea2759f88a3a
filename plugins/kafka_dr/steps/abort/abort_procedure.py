"""Aborting a procedure from outside: its own run returns if it still runs, this one does if it does not."""

from __future__ import annotations

from typing import Any

from kafka_dr.errors import BadInput, Refusal, SwitchbackError
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import AbortNoted, ProcedureAborted, facts_of
from kafka_dr.procedure.find import procedure_holding
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import foreign_params
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class AbortedStep(ProcedureStep):
    """A step that acts for the procedure it aborts, not for the run that it is a task of."""

    bounded = False

    def procedure(self, context: Any) -> Run:
        """Find the procedure that this run aborted, even if it passed the pair on; else the one that holds the pair."""
        holder = procedure_holding(str(context["params"]["source"]), str(context["params"]["target"]))
        aborts = facts_of(holder.journal.entries(step=Step.ABORT_PROCEDURE), ProcedureAborted)
        mine = [entry for entry, abort in aborts if abort.run_id == context["dag_run"].run_id]
        return (holder.other(mine[-1].procedure_id) if mine else None) or holder


class AbortProcedure(AbortedStep):
    """Write down who aborts and why; from then on no step of the procedure goes forward."""

    def procedure(self, context: Any) -> Run:
        """Find the procedure that holds the pair; refuse params of other procedures before anything is written."""
        given = sorted(name for name in foreign_params(Step.ABORT_PROCEDURE) if context["params"].get(name) is not None)
        if given:
            raise BadInput(
                "the params cannot be used",
                f"{', '.join(given)}: this procedure does not take it",
                "leave it out and trigger the DAG again; nothing was aborted",
            )
        return super().procedure(context)

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """No new epoch is taken: the procedure's own processes shall see the abort and return by themselves."""
        if procedure.progress.done(ProcedureAborted) is None:
            procedure.authority.hold()
            if procedure.progress.began(Step.OPEN_TARGET) is not None:
                raise Refusal(
                    f"{procedure.id} has passed the point of no return",
                    "open_target had begun",
                    "Go on forward: clear its failed step, or fail back later.",
                )
            run = context["dag_run"]
            reason, at = str(context["params"]["reason"]), procedure.now()
            abort = ProcedureAborted(by=starter_of(procedure, run), reason=reason, run_id=run.run_id, at=at)
            for fact in (abort, AbortNoted(aborted=procedure.id)):
                record_fact(procedure.authority, self.task_id, fact)
        return {"done": self.task_id, "procedure_id": procedure.id}


def starter_of(procedure: Run, run: Any) -> str:
    """Who triggered the abort, or "unknown": an abort is the safe direction and is never refused for that."""
    try:
        return procedure.systems.api.dag_run(run.dag_id, run.run_id).triggering_user_name or "unknown"
    except SwitchbackError:
        return "unknown"
