"""Wait until all records below the cut-off are on the target."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.recheck import source_ends_are_cut_off
from kafka_dr.actions.replication.drain import Drain
from kafka_dr.actions.replication.running_flow import RunningFlow
from kafka_dr.domain.replication.drained import Proof
from kafka_dr.procedure.entries import ZeroLagProven
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

#: How the partitions of a flow that runs on were proven.
RUNS_ON = "all below the cut-off and the groups' positions replicated, by content"


class WaitForZeroLag(ProcedureStep):
    """Wait until every partition is drained, proven by content on source and target."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ZeroLagProven:
        """Wait until every partition is proven drained; then check that the source still ends at the cut-off."""
        if procedure.source_stays_open:
            return self._wait_for_running_flow(procedure)
        drain = Drain(procedure)
        proofs = procedure.progress.wait(
            self.task_id, "Zero lag", drain.look, procedure.request.deadlines.zero_lag_seconds
        )
        source_ends_are_cut_off(procedure)
        return ZeroLagProven(
            partitions=len(proofs),
            proofs={p.value: sum(1 for q in proofs.values() if q is p) for p in Proof},
        )

    def _wait_for_running_flow(self, procedure: Run) -> ZeroLagProven:
        """Wait until all records that the groups that move have read, or shall read, are on the target."""
        found = procedure.progress.wait(
            self.task_id, "Zero lag", RunningFlow(procedure).look, procedure.request.deadlines.zero_lag_seconds
        )
        return ZeroLagProven(partitions=len(found), proofs={RUNS_ON: len(found)})
