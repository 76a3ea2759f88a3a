"""Close a drill: judge it, write evidence and report, and release the lease of drills."""

from __future__ import annotations

from kafka_dr.actions.drill.judgement import file_drill
from kafka_dr.procedure.entries import ProcedureClosed
from kafka_dr.procedure.run import Run
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.vocabulary import Outcome


class CloseDrill(CloseProcedure):
    """Write the evidence with the drill's verdict, and its report; a failed drill fails the task."""

    #: Also a failed drill has ended, and has no lease under which it could be closed again.
    terminal = tuple(Outcome)

    def _close(self, procedure: Run) -> ProcedureClosed:
        if procedure.lease.ever_held:
            procedure.authority.hold()
        return file_drill(procedure, procedure.lease.epoch if procedure.lease.ever_held else 0)

    def _release_lease(self, procedure: Run, outcome: str) -> None:
        """Release the lease after every outcome: a failed drill keeps no other drill from the clusters."""
        lease = procedure.journal.lease(procedure.pair)
        if lease is not None and lease.holder == procedure.id and lease.released_at is None:
            procedure.journal.release_lease(procedure.pair, procedure.id, lease.epoch, Outcome(outcome))
