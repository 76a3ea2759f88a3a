"""Stop MirrorMaker 2; the target's log ends after the stop are the boundary."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_dr.actions.failback.resync_scope import refuse_replaced
from kafka_dr.actions.replication.drain import Drain
from kafka_dr.actions.replication.running_flow import RunningFlow
from kafka_dr.actions.replication.stop import wait_for_stable_target_ends
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.concurrently import run_concurrently
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import MirrorMakerStopped
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep


class StopMirrorMaker(RecheckedStep):
    """Stop the flow's source and checkpoint connectors; the target's log ends after the stop are the boundary.

    In dedicated mode the stop hook stops MirrorMaker 2's processes instead. In a failback between clusters whose flows
    always run, nothing is stopped.
    """

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """Stop the flow source->target; prove it STOPPED, the target's log ends stable and every partition drained."""
        procedure.approvals.require_plan()
        if procedure.source_stays_open:
            return self._stop_while_clients_write(procedure)
        worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds

        with acting_under(procedure.authority, partial(_resume, worker, seconds)), run_concurrently() as start:
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

    def _stop_while_clients_write(self, procedure: Run) -> MirrorMakerStopped:
        """Save log ends that belong together, as clients stay on the source; then stop the flow, unless it runs on.

        A step that is tried again finds log ends also where the flow is stopped already: it has copied no less.
        """
        worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
        found = procedure.progress.wait(
            self.task_id,
            "Log ends of both clusters that belong together",
            RunningFlow(procedure).look,
            procedure.request.deadlines.zero_lag_seconds,
        )
        refuse_replaced(procedure)
        remote = remote_partitions(procedure, found)
        boundary = partitions_frame({remote[tp]: ends.target for tp, ends in found.items()}, "offset")
        cut_off = partitions_frame({tp: ends.source for tp, ends in found.items()}, "offset")
        if not procedure.flow_runs_on:
            with acting_under(procedure.authority, partial(_resume, worker, seconds)):
                worker.stop_sources(deadline=seconds)
                worker.stop(worker.checkpoint, deadline=seconds)
        return MirrorMakerStopped(
            stopped=[] if procedure.flow_runs_on else worker.names,
            partitions_drained=len(found),
            boundary=procedure.artifacts.save("boundary", boundary),
            cut_off=procedure.artifacts.save("joint_cut_off", cut_off),
        )


def _resume(worker: FlowConnectors, seconds: float) -> None:
    """Resume the connectors that a step has stopped which has lost the lease."""
    # A stop hook may be unable to start the processes that it ended.
    for name in worker.names if worker.can_resume() else ():
        worker.resume(name, deadline=seconds, needs_tasks=False)
