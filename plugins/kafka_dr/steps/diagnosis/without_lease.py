"""What the steps of a procedure have in common that changes nothing, and therefore takes no lease."""

from __future__ import annotations

from typing import Any

from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.run import Run


class WithoutLease:
    """Mixed into a step: it takes no epoch, and writes no anchors of the journal to the clusters."""

    task_id: str
    upstream_task_ids: set[str]

    def _checked_procedure(self, context: Any) -> Run:
        """Return the procedure; refuse if another DAG run has its id."""
        procedure: Run = self.procedure(context)  # type: ignore[attr-defined]  # of the step it is mixed into
        try:
            procedure.progress.refuse_other_run(procedure.identity.run_id)
        except SwitchbackError:
            procedure.close()
            raise
        return procedure

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Check predecessors, and write the intent of Airflow's current try."""
        for step in sorted(self.upstream_task_ids):
            procedure.progress.outcome_entry(step)
        self.intend(procedure, context)  # type: ignore[attr-defined]  # of the step it is mixed into
