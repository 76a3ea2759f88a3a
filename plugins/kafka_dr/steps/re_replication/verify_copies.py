"""Prove by content that every record of the chosen topics is on the target again."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.re_replication.verification import await_copies, verify_copies
from kafka_dr.procedure.entries import CopiesVerified, ReplicationStarted
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class VerifyCopies(ProcedureStep):
    """Wait for the copies, then compare the whole logs, record by record; find the groups' places on the way."""

    def act(self, procedure: Run, context: Any) -> CopiesVerified:
        """Wait up to `catch_up_seconds`; return the figures of the comparison."""
        procedure.progress.require(ReplicationStarted)
        return verify_copies(procedure, await_copies(procedure, self.task_id))
