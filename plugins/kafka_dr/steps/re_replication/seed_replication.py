"""Set the offsets in Connect at which the chosen topics are copied again."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.re_replication.scope import require_approved
from kafka_dr.actions.re_replication.seeding import seed_replication
from kafka_dr.procedure.entries import ReplicationSeeded, TargetTopicsReady
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class SeedReplication(ProcedureStep):
    """Write the offsets while the connectors are STOPPED; the offsets of all other topics are read back unchanged."""

    def act(self, procedure: Run, context: Any) -> ReplicationSeeded:
        """Write and read back; see `seed_replication`."""
        require_approved(procedure)
        procedure.progress.require(TargetTopicsReady)
        return seed_replication(procedure, self.task_id)
