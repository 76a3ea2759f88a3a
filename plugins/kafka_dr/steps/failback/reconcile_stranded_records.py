"""Replay, quarantine or leave stranded records, as decided at the gate."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.failback.replay import Replay, figures_of, refuse_unproven
from kafka_dr.actions.failback.replay_plan import parts_of
from kafka_dr.actions.failback.stranded_decision import require_decided
from kafka_dr.procedure.entries import StrandedRecordsReconciled
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class ReconcileStrandedRecords(ProcedureStep):
    """Replay, quarantine or leave stranded records, as a second person decided; no record is written twice."""

    def act(self, procedure: Run, context: Any) -> StrandedRecordsReconciled:
        """Write to the new primary the records to replay or quarantine that are not written yet; read all back.

        Raises:
            NotReady: a record has no partition to be written to, or the new primary does not accept it.
            Contradiction: the export is not the approved one, or records read back differ from the export.
        """
        require_decided(procedure)
        parts = parts_of(procedure)
        if not parts:
            return figures_of(procedure, [], {}, None)
        replay = Replay(procedure, parts, self.task_id, lambda text: self.log.info("%s", text))
        replay.run()
        proofs = replay.prove()
        refuse_unproven(procedure, proofs)
        return figures_of(procedure, proofs, replay.aborted(), replay.transactional_id)
