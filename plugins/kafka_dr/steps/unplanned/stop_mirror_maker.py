"""Stop MirrorMaker 2 of a source that was given up."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.loss.assessment import existing_partitions
from kafka_dr.actions.loss.last_known_state import from_connect
from kafka_dr.actions.old_source.lost_source_fence import found_lost
from kafka_dr.actions.replication.stop import STOPPED, still_target_ends, stop_flow
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import partitions_of_plan
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.errors import SystemUnavailable
from kafka_dr.procedure.entries import MirrorMakerStopped
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep

#: A source that still answers lets its connectors go at once. One that is dead keeps each for a minute, and nothing can
#: be mirrored from it meanwhile.
_STOP_SECONDS, _ASK_SECONDS = 10.0, 5.0


class StopLeftMirrorMaker(RecheckedStep):
    """Ask MirrorMaker 2 of the lost source to stop; the target's still ends prove that it writes no more."""

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """Ask to stop, then wait for still target ends: the boundary, which a later failback begins at."""
        procedure.approvals.require_plan()
        remote = existing_partitions(procedure, remote_partitions(procedure, partitions_of_plan(procedure)).values())
        states, silent = asked_to_stop(procedure, self.task_id)
        left = [name for name, state in states.items() if state != STOPPED]
        # What was on its way when the connectors were asked is in the log once its ends stand still.
        ends = still_target_ends(procedure, self.task_id, sorted(remote))
        # Connect answers this where it also stops tasks: one that is at it, or died with the source, is not waited for.
        replicated = from_connect(procedure, []) if states and not left else {}
        return MirrorMakerStopped(
            asked=silent is None,
            states=states,
            worker_silent=silent,
            still_stopping=left or None,
            boundary=procedure.artifacts.save("boundary", partitions_frame(ends, "offset")),
            replicated=procedure.artifacts.save("replicated", partitions_frame(replicated, "offset")),
        )


def asked_to_stop(procedure: Run, step: str) -> tuple[dict[str, str], str | None]:
    """Ask the flow's MirrorMaker 2 to stop: states by connector or flow; why the worker was not asked, else None."""
    seconds = 0.0 if found_lost(procedure) else _STOP_SECONDS
    try:
        return stop_flow(procedure, step, procedure.flow, _ASK_SECONDS, seconds), None
    except SystemUnavailable as error:
        return {}, str(error)
