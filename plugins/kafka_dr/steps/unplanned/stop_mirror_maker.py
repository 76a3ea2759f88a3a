"""Stop MirrorMaker 2 of a source declared lost."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.loss.assessment import existing_partitions
from kafka_dr.actions.loss.last_known_state import from_connect
from kafka_dr.actions.old_source.lost_source_fence import is_source_lost
from kafka_dr.actions.replication.stop import STOPPED, stop_flow, wait_for_stable_target_ends
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import partitions_of_plan
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.errors import SystemUnavailable
from kafka_dr.procedure.entries import MirrorMakerStopped
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep

#: With a source that answers, connectors stop at once. With a lost source each connector takes a minute to stop, but
#: nothing can be mirrored from a lost source meanwhile.
_STOP_SECONDS, _ASK_SECONDS = 10.0, 5.0


class StopLeftMirrorMaker(RecheckedStep):
    """Ask the flow from the lost source to stop; the target's stable log ends prove that the flow writes no more."""

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """Ask the flow to stop, then wait for stable log ends on the target, which are the boundary."""
        procedure.approvals.require_plan()
        remote = existing_partitions(procedure, remote_partitions(procedure, partitions_of_plan(procedure)).values())
        states, silent = asked_to_stop(procedure, self.task_id)
        still_stopping = [name for name, state in states.items() if state != STOPPED]
        # Records in flight at the stop request are in the log once its ends are stable.
        ends = wait_for_stable_target_ends(procedure, self.task_id, sorted(remote))
        # Connect answers offset requests in the thread that stops tasks: with a connector still stopping, or a worker
        # that does not answer, the offsets are not requested.
        replicated = from_connect(procedure, []) if states and not still_stopping else {}
        return MirrorMakerStopped(
            asked=silent is None,
            states=states,
            worker_silent=silent,
            still_stopping=still_stopping or None,
            boundary=procedure.artifacts.save("boundary", partitions_frame(ends, "offset")),
            replicated=procedure.artifacts.save("replicated", partitions_frame(replicated, "offset")),
        )


def asked_to_stop(procedure: Run, step: str) -> tuple[dict[str, str], str | None]:
    """Ask MirrorMaker 2 of the flow source->target to stop.

    Args:
        step: the step in whose name journal entries are written.

    Returns:
        Connector -> its state; in dedicated mode flow -> its state. And why the Connect worker or the stop hook did not
        answer; None if it answered.
    """
    seconds = 0.0 if is_source_lost(procedure) else _STOP_SECONDS
    try:
        return stop_flow(procedure, step, procedure.flow, _ASK_SECONDS, seconds), None
    except SystemUnavailable as error:
        return {}, str(error)
