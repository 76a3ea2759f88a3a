"""Stop MirrorMaker 2; the target's log ends after the stop are the boundary."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.failback.resync_scope import refuse_replaced
from kafka_dr.actions.replication.drain import Drain
from kafka_dr.actions.replication.stop import wait_for_stable_target_ends
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.concurrently import run_concurrently
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import MirrorMakerStopped
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep


class StopMirrorMaker(RecheckedStep):
    """Stop the flow's source and checkpoint connectors; the target's log ends after the stop are the boundary.

    In dedicated mode the stop hook stops MirrorMaker 2's processes instead.
    """

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """Stop the flow source->target; prove it STOPPED, the target's log ends stable and every partition drained."""
        procedure.approvals.require_plan()
        worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds

        def undo() -> None:
            # A stop hook may be unable to start the processes that it ended.
            for name in worker.names if worker.can_resume() else ():
                worker.resume(name, deadline=seconds, needs_tasks=False)

        with acting_under(procedure.authority, undo), run_concurrently() as start:
            worker.stop_sources(deadline=seconds)
            procedure.authority.hold()
            # Connect gives the checkpoint connector's busy tasks five seconds; their writes move no boundary.
            checkpoint = start(worker.stop, worker.checkpoint, deadline=seconds)
            ends = wait_for_stable_target_ends(procedure, self.task_id)
            checkpoint.result()
        proofs = procedure.progress.wait(
            self.task_id,
            "Drained partitions after the stop",
            Drain(procedure).look,
            procedure.request.deadlines.zero_lag_seconds,
        )
        refuse_replaced(procedure)
        replicated = {tp: n for tp, n in worker.offsets().of(procedure.flow.source).items() if n is not None}
        return MirrorMakerStopped(
            stopped=worker.names,
            partitions_drained=len(proofs),
            boundary=procedure.artifacts.save("boundary", partitions_frame(ends, "offset")),
            replicated=procedure.artifacts.save("replicated", partitions_frame(replicated, "offset")),
        )
