"""Stop MirrorMaker 2, and prove up to which record each other topic is on the target."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.re_replication.proven_offsets import prove_other_topics
from kafka_dr.actions.re_replication.scope import planned_copies, require_approved
from kafka_dr.actions.replication.stop import wait_for_stable_target_ends
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import ConnectorsToStop, FlowStopped
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class StopFlow(ProcedureStep):
    """Stop the flow's checkpoint and source connectors; prove that its writing has ended, and where."""

    def act(self, procedure: Run, context: Any) -> FlowStopped:
        """Stop the connectors; the target's log ends are stable; each other topic's last copy is found by content."""
        require_approved(procedure)
        plan, _ = planned_copies(procedure)
        worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
        record_fact(procedure.authority, self.task_id, ConnectorsToStop(stops_connectors=list(plan.connectors)))

        def undo() -> None:
            for name in plan.connectors:
                worker.resume(name, deadline=seconds, needs_tasks=False)

        with acting_under(procedure.authority, undo):
            if worker.checkpoint in plan.connectors:
                worker.stop(worker.checkpoint, deadline=seconds)
            procedure.authority.hold()
            worker.stop_sources(deadline=seconds)
        proof = prove_other_topics(
            procedure, lambda remote: wait_for_stable_target_ends(procedure, self.task_id, remote)
        )
        return FlowStopped(
            stopped=plan.connectors,
            boundary=procedure.artifacts.save("boundary", partitions_frame(proof.ends, "offset")),
            stored=procedure.artifacts.save("stored_offsets", partitions_frame(proof.stored, "offset")),
            proven=procedure.artifacts.save("proven_offsets", partitions_frame(proof.proven, "offset")),
            not_proven=[str(tp) for tp in proof.not_proven],
        )
