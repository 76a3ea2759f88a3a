"""The way back: everything as it was found, before the point of no return."""

from __future__ import annotations

import time
from typing import Any

from kafka_dr.errors import ReadBackFailed, Refusal
from kafka_dr.operators.clients import removed_entries, tell_to_resume
from kafka_dr.operators.fencing import added_entries, boundary_moved
from kafka_dr.operators.observing import source_rules
from kafka_dr.operators.procedure import Procedure
from kafka_dr.operators.procedure_step import ProcedureStep
from kafka_dr.operators.reverse_replication import refuse_loop
from kafka_dr.vocabulary import Entry, Step


class ReturnToSource(ProcedureStep):
    """Resume MirrorMaker 2, lift the fences exactly as found, tell the applications; verified."""

    def run_once(self, procedure: Procedure, context: Any) -> dict[str, Any]:
        """Without a lease nothing was touched, and there is nothing to undo."""
        if not procedure.took_lease:
            return {"done": self.task_id, "touched": False}
        return super().run_once(procedure, context)

    def begin(self, procedure: Procedure, context: Any) -> None:
        """Lease and intent only: predecessors failed, that is why this step runs, and the fence's clock does not count."""
        procedure.hold_lease()
        self.intend(procedure, context)

    def act(self, procedure: Procedure, context: Any) -> dict[str, Any]:
        """Undo in the order that keeps the source usable: replication, fence, applications."""
        if procedure.began(Step.FENCE_PRODUCERS) is None:
            return {"touched": False}
        if procedure.began(Step.OPEN_TARGET) is not None:
            self._close_target_again(procedure)
        procedure.write(self.task_id, Entry.INTENT, {"reopens_source": True})
        resumed = self._resume_replication(procedure)
        lifted = self._lift_fence(procedure)
        told = tell_to_resume(procedure)
        return {"touched": True, "connectors_resumed": resumed, "acl_entries_lifted": lifted, "drain_hook": told, "returned_at": procedure.now()}

    def _close_target_again(self, procedure: Procedure) -> None:
        """Return is allowed only if nothing was written on the target since: fence it again, then compare its ends."""
        if procedure.outcome(Step.OPEN_TARGET) is not None:
            raise Refusal("The target is open", "open_target has an outcome", "Go on forward, or fail back later.")
        procedure.hold_lease()
        procedure.target_acls.add(removed_entries(procedure))
        missing = procedure.target_acls.missing(removed_entries(procedure))
        if missing:
            raise ReadBackFailed("The target could not be fenced again", ", ".join(map(str, missing[:5])), "Clear return_to_source: it goes on from here.")
        # Brokers learn of an ACL within moments; what was on its way then is in the log after this.
        time.sleep(procedure.request.deadlines.stable_seconds)
        moved = boundary_moved(procedure)
        if moved:
            raise Refusal("Clients already wrote on the target", ", ".join(moved[:10]), "Go on forward: clear open_target.")

    def _resume_replication(self, procedure: Procedure) -> list[str]:
        if procedure.began(Step.STOP_MIRROR_MAKER) is None:
            return []
        refuse_loop(procedure)
        worker, connectors = procedure.mirror_maker(procedure.flow), procedure.flow.connectors
        for name in (connectors.source, connectors.checkpoint):
            procedure.hold_lease()
            # A checkpoint connector without groups runs without tasks.
            worker.resume(name, deadline=procedure.request.deadlines.stop_seconds, needs_tasks=name == connectors.source)
        return [connectors.source, connectors.checkpoint]

    def _lift_fence(self, procedure: Procedure) -> int:
        added = added_entries(procedure)
        if not added:
            return 0
        procedure.write(self.task_id, Entry.INTENT, {"removes_acl_entries": len(added)})
        procedure.hold_lease()
        procedure.source_acls.remove(added)
        left = [str(e) for e in source_rules(procedure).entries & frozenset(added)]
        if left:
            raise ReadBackFailed("The source's fence is still there", ", ".join(left[:5]), "Clear return_to_source: it goes on from here.")
        return len(added)
