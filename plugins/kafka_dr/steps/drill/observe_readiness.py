"""Check whether clients could move now, without writing anything on a cluster."""

from __future__ import annotations

from kafka_dr.actions.readiness.document import document_path, read_document
from kafka_dr.actions.readiness.fingerprint import read_fingerprint
from kafka_dr.actions.readiness.flow_check import FlowCheck
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrillObserved, Figures
from kafka_dr.procedure.find import flows_to_check
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.check_readiness import CheckReadiness


class ObserveReadiness(CheckReadiness):
    """All checks of a planned failover but those that write: MirrorMaker 2's canary, and the probe's rights.

    What is in place today, and what a failover now would cost, are noted for the drill's report.
    """

    writes = False

    def keep(self, procedure: Run, observation: Observation) -> None:
        """Note the fingerprint, the size of the flow, and the outlook of a readiness check made now."""
        size = {
            "topics": sorted(observation.scope),
            "groups": sorted(observation.groups),
            "partitions": len(observation.last.source_ends),
            "records": sum(observation.last.source_ends.values()) - sum(observation.source_starts.values()),
        }
        observed = DrillObserved(
            fingerprint=read_fingerprint(procedure, observation).as_dict(), size=size, outlook=self._outlook(procedure)
        )
        record_fact(procedure.authority, self.task_id, observed)

    def _outlook(self, procedure: Run) -> Figures | None:
        """Return what a failover now would cost, by a readiness check; None if it could not be made."""
        try:
            (run,) = flows_to_check(procedure.request.source, procedure.request.target)
            try:
                outlook: Figures = vars(
                    FlowCheck(run, read_document(document_path(*_place(run)), run.artifacts.files)).run().outlook
                )
            finally:
                run.close()
        except (SwitchbackError, OSError) as error:
            self.log.warning("The outlook is unknown: %s", error)
            return None
        return outlook


def _place(run: Run) -> tuple[str, str, str]:
    return run.topology.evidence, run.request.source, run.request.target
