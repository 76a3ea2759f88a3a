"""Roll back before the point of no return: reopen the source to clients, and resume replication."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafka_dr.actions.clients import begun_opening, tell_to_resume
from kafka_dr.actions.fencing.hook_fence import lift_fence_hook
from kafka_dr.actions.fencing.rules import source_rules
from kafka_dr.actions.flow_change.changed_flow_return import return_changed_flow
from kafka_dr.actions.re_replication.rollback import copies_again, refuse_past_return, resume_flow
from kafka_dr.actions.recheck import source_reopened
from kafka_dr.actions.undo import (
    close_target,
    count_mirrored_records,
    left_on_returned_cluster,
    lift_source_fence,
    list_undos,
    probe_refused_by,
    resume_replication,
)
from kafka_dr.errors import BindingBroken, DeadlinePassed, ReadBackFailed, SystemUnavailable
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.binding import refuse_broken_binding
from kafka_dr.procedure.entries import DrainHookAnswer, SourceReturned, SourceToReopen
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import RemoveFence, ResumeReplication, changed_flow_to_undo
from kafka_dr.steps.base import ProcedureStep, take_new_epoch
from kafka_dr.vocabulary import Entry, Step

#: While the journal does not answer, no rollback can run and clients stay fenced: retry for half an hour, not twice.
_TRIES, _BETWEEN_TRIES = 180, timedelta(seconds=10)


class ReturnToSource(ProcedureStep):
    """Remove exactly the fences that the run added, ask applications to resume, resume MirrorMaker 2; read back."""

    bounded = False

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("retries", _TRIES)
        kwargs.setdefault("retry_delay", _BETWEEN_TRIES)
        super().__init__(**kwargs)

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Roll back; a run that never held the lease has changed no cluster, and has nothing to undo.

        Args:
            woken: whether Airflow wakes the step after a wait; the step then keeps the newest epoch.
        """
        if not procedure.lease.ever_held:
            return {"done": self.task_id, "touched": False}
        # Before the intent: after the intent no step of the run could go forward.
        refuse_past_return(procedure)
        return super().run_once(procedure, context, woken)

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Take a new epoch and write the intent; check neither predecessors' outcomes nor the fence's deadline.

        Args:
            woken: whether Airflow wakes the step after a wait; the step then keeps the newest epoch.
        """
        take_new_epoch(procedure, woken)
        self.intend(procedure, context)

    def act(self, procedure: Run, context: Any) -> SourceReturned:
        """Let clients back onto the source, then resume MirrorMaker 2.

        If a system does not answer, a value read back differs, or the run is bound to other clusters than these, try
        again until `return_seconds` have passed.
        """
        if (undo := changed_flow_to_undo(procedure.progress.entries(Entry.INTENT))) is not None:
            return self._until_done(procedure, lambda: return_changed_flow(procedure, self.task_id, *undo))
        if (
            not copies_again(procedure)
            and procedure.progress.began(Step.FENCE_PRODUCERS) is None
            and procedure.progress.began(Step.FENCE_SOURCE) is None
        ):
            steps_left = left_on_returned_cluster(procedure)
            return SourceReturned(touched=steps_left is not None, left_on_returned_cluster=steps_left)
        return self._until_done(procedure, lambda: self._give_back(procedure))

    def _until_done(self, procedure: Run, give_back: Callable[[], SourceReturned]) -> SourceReturned:
        def try_to_return() -> SourceReturned:
            try:
                refuse_broken_binding(procedure)
                return give_back()
            except (SystemUnavailable, DeadlinePassed, ReadBackFailed, BindingBroken) as error:
                raise NotYet(str(error)) from None

        return procedure.progress.wait(
            self.task_id, "The rollback", try_to_return, procedure.request.deadlines.return_seconds
        )

    def _give_back(self, procedure: Run) -> SourceReturned:
        if copies_again(procedure):
            return resume_flow(procedure)
        progress = procedure.progress
        if progress.began(Step.OPEN_TARGET) is not None:
            close_target(procedure, begun_opening(procedure))
        if not progress.without_source:
            # The source must answer before the intent: the fence of a source that does not answer stays, and another
            # procedure may rely on that fence.
            source_rules(procedure)
        if not source_reopened(procedure):
            record_fact(procedure.authority, self.task_id, SourceToReopen(reopens_source=True))
        # Undos are listed only after the intent to reopen: before that intent the watcher may still add ACL entries.
        undos, kept_for = list_undos(procedure), procedure.approvals.pair_in("opened")
        fences = [] if kept_for else [undo.fence for undo in undos if isinstance(undo, RemoveFence)]
        entries_lifted = sum(lift_source_fence(procedure, self.task_id, fence) for fence in fences)
        hook_answer = None if kept_for else lift_fence_hook(procedure)
        # Applications that a continued planned run stopped are resumed by the rollback of that planned run.
        drain_answer = DrainHookAnswer(told=False) if progress.continues else tell_to_resume(procedure)
        # Replication comes last: a worker or target that does not answer must not keep clients from a working source.
        stopped = [name for undo in undos if isinstance(undo, ResumeReplication) for name in undo.names]
        return SourceReturned(
            touched=True,
            **resume_replication(procedure, stopped),
            acl_entries_lifted=entries_lifted,
            fence_hook=hook_answer,
            drain_hook=drain_answer,
            returned_at=procedure.now(),
            # No probe, and no wait, for a source declared lost whose ACLs were not changed.
            probe_refused_by={} if progress.without_source and not entries_lifted else probe_refused_by(procedure),
            **count_mirrored_records(procedure, drain_answer),
            left_on_returned_cluster=left_on_returned_cluster(procedure),
            fence_kept_for=kept_for,
        )
