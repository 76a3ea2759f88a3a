"""Replay, quarantine or leave stranded records, as was decided."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.failback.replay import Replay, figures_of, refuse_unproven
from kafka_dr.actions.failback.replay_plan import parts_of
from kafka_dr.actions.failback.stranded_decision import require_decided
from kafka_dr.procedure.entries import StrandedRecordsReconciled
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class ReconcileStrandedRecords(ProcedureStep):
    """Replay, quarantine or leave stranded records, as a second person decided; what is written is written once."""

    def act(self, procedure: Run, context: Any) -> StrandedRecordsReconciled:
        """Write what is not written yet, and read back all of it; nothing else is touched.

        Raises:
            NotReady: there is no place for records that were to be written, or the new primary does not take one of
                them.
            Contradiction: the export is not the one that was decided on, or what was read back is not what was
                exported.
        """
        require_decided(procedure)
        parts = parts_of(procedure)
        if not parts:
            return figures_of(procedure, [], {}, None)
        replay = Replay(procedure, parts, self.task_id, lambda text: self.log.info("%s", text))
        replay.run()
        proven = replay.prove()
        refuse_unproven(procedure, proven)
        return figures_of(procedure, proven, replay.aborted(), replay.transactional_id)
