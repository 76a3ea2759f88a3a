"""Open a diagnosis: write its first journal entries, without a lease."""

from __future__ import annotations

from typing import Any

from kafka_dr.procedure.binding import bind_run
from kafka_dr.procedure.entries import DiagnosisOpened, TryBegun
from kafka_dr.procedure.progress import not_done
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.diagnosis.without_lease import WithoutLease
from kafka_dr.steps.shared.open_procedure import opening_entry


class OpenDiagnosis(WithoutLease, ProcedureStep):
    """Write who asked for the diagnosis, and which procedure holds the clusters meanwhile; wait for nothing."""

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Write the first journal entries, unless the journal has them."""
        if procedure.progress.done(DiagnosisOpened) is None:
            procedure.refuse_open_files()
            opening = opening_entry(procedure, context, bind_run(procedure))
            for fact in (opening, TryBegun(attempt=1), DiagnosisOpened(pair_held_by=holder_of(procedure))):
                procedure.journal.append(procedure.id, self.task_id, fact.kind, 0, fact.payload())
        return {"done": self.task_id, "procedure_id": procedure.id}

    def record_failure(self, procedure: Run, error: Any) -> None:
        """Write the failure under epoch 0."""
        fact = not_done(error)
        procedure.journal.append(procedure.id, self.task_id, fact.kind, 0, fact.payload())


def holder_of(procedure: Run) -> str | None:
    """Return the procedure that holds the pair of clusters; None if none does."""
    request = procedure.request
    lease = procedure.journal.lease(procedure.topology.pair_key(request.source, request.target))
    return None if lease is None or lease.released_at is not None else lease.holder
