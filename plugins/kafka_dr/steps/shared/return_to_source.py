"""Roll back before the point of no return: restore everything to its state before the procedure."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from kafka_dr.actions.clients import removed_entries, tell_to_resume
from kafka_dr.actions.fencing.hook_fence import lift_fence_hook
from kafka_dr.actions.fencing.rules import source_rules
from kafka_dr.actions.recheck import source_reopened
from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.actions.replication.stop import parts_of
from kafka_dr.actions.scope.plan_scope import boundary_moved
from kafka_dr.actions.undo import left_on_returned_cluster, probe_refused_by, seen_flowing
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, DeadlinePassed, ReadBackFailed, Refusal, SystemUnavailable
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    DrainHookAnswer,
    SourceAclEntriesToRemove,
    SourceReturned,
    SourceToReopen,
    TargetOpened,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import RemoveFence, ResumeReplication, left_to_undo
from kafka_dr.steps.base import ProcedureStep, take_new_epoch
from kafka_dr.vocabulary import Entry, Step

#: How long a connector of a source declared lost may take to run again.
_LOST_SOURCE_SECONDS = 20.0
#: Without the journal no rollback can run and clients stay fenced: retry for half an hour, not only two more times.
_TRIES, _BETWEEN_TRIES = 180, timedelta(seconds=10)


class ReturnToSource(ProcedureStep):
    """Remove exactly the fences added, tell the applications, resume MirrorMaker 2, and verify all three."""

    bounded = False

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("retries", _TRIES)
        kwargs.setdefault("retry_delay", _BETWEEN_TRIES)
        super().__init__(**kwargs)

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Roll back; without a lease no cluster was changed, so nothing is to be undone."""
        if not procedure.lease.ever_held:
            return {"done": self.task_id, "touched": False}
        return super().run_once(procedure, context, woken)

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Take a new epoch and write the intent; skip predecessors, which failed, and the fence's clock."""
        take_new_epoch(procedure, woken)
        self.intend(procedure, context)

    def act(self, procedure: Run, context: Any) -> SourceReturned:
        """Return clients, then resume MirrorMaker 2; wait for a cluster or worker that is away or does not comply."""
        if (
            procedure.progress.began(Step.FENCE_PRODUCERS) is None
            and procedure.progress.began(Step.FENCE_SOURCE) is None
        ):
            left = left_on_returned_cluster(procedure)
            return SourceReturned(touched=left is not None, left_on_returned_cluster=left)

        def try_to_return() -> SourceReturned:
            try:
                return self._return_clients(procedure)
            except (SystemUnavailable, DeadlinePassed, ReadBackFailed) as error:
                raise NotYet(str(error)) from None

        return procedure.progress.wait(
            self.task_id, "Everything as it was found", try_to_return, procedure.request.deadlines.return_seconds
        )

    def _return_clients(self, procedure: Run) -> SourceReturned:
        progress = procedure.progress
        if progress.began(Step.OPEN_TARGET) is not None:
            self._close_target_again(procedure, removed_entries(procedure))
        if not progress.without_source:
            # The source must answer before the intent: while it does not, its fence stays, and another procedure may
            # rely on that fence.
            source_rules(procedure)
        if not source_reopened(procedure):
            record_fact(procedure.authority, self.task_id, SourceToReopen(reopens_source=True))
        # Read only after that intent: before it the watcher may still add fence entries. Outcomes are left out, so
        # that a repeated rollback undoes everything again.
        intents, parts = progress.entries(Entry.INTENT), parts_of(procedure.flow)
        undos = left_to_undo(intents, procedure.request.source, parts, continues=progress.continues is not None)
        lifted = self._lift_fence(procedure, [e for u in undos if isinstance(u, RemoveFence) for e in u.entries])
        hook_answer = lift_fence_hook(procedure)
        # Applications that a continued planned run stopped are resumed by the rollback of that planned run.
        drain_answer = DrainHookAnswer(told=False) if progress.continues else tell_to_resume(procedure)
        # Replication comes last: a worker or target that is away must not keep clients from a working source.
        stopped = [name for undo in undos if isinstance(undo, ResumeReplication) for name in undo.names]
        return SourceReturned(
            touched=True,
            **self._resume_replication(procedure, stopped),
            acl_entries_lifted=lifted,
            fence_hook=hook_answer,
            drain_hook=drain_answer,
            returned_at=procedure.now(),
            # No probe, and no wait, for a source declared lost whose ACLs were not changed.
            probe_refused_by={} if progress.without_source and not lifted else probe_refused_by(procedure),
            **seen_flowing(procedure, drain_answer),
            left_on_returned_cluster=left_on_returned_cluster(procedure),
        )

    def _close_target_again(self, procedure: Run, denials: list[AclEntry]) -> None:
        """Fence the target again; refuse to roll back if its log ends moved past the boundary."""
        if procedure.progress.done(TargetOpened) is not None:
            raise Refusal("The target is open", "open_target has an outcome", "Go on forward, or fail back later.")
        procedure.authority.hold()
        procedure.systems.target_acls.add(denials)
        missing = procedure.systems.target_acls.missing(denials)
        if missing:
            raise ReadBackFailed(
                "The target could not be fenced again",
                first_few(missing),
                "Clear return_to_source: it goes on from here.",
            )
        # Brokers apply an ACL within moments; records accepted until then are in the log after this wait.
        time.sleep(procedure.request.deadlines.stable_seconds)
        moved = boundary_moved(procedure)
        if moved:
            raise Refusal("Clients already wrote on the target", first_few(moved), "Go on forward: clear open_target.")

    def _resume_replication(self, procedure: Run, names: list[str]) -> dict[str, Any]:
        """Resume connectors this run stopped; return the outcome's fields.

        If the source is declared lost, in a failback, or in dedicated mode, resuming may be impossible: then report the
        reason instead of waiting.
        """
        # A returned cluster may fail again; a cluster without clients must not block the rollback and its lease.
        flows_back = procedure.progress.began(Step.FENCE_RETURNED_CLUSTER) is not None
        if not procedure.progress.without_source and not flows_back and procedure.flow.connect:
            return {
                "connectors_resumed": self._resume_connectors(
                    procedure, names, procedure.request.deadlines.stop_seconds
                )
            }
        try:
            return {"connectors_resumed": self._resume_connectors(procedure, names, _LOST_SOURCE_SECONDS)}
        except (SystemUnavailable, DeadlinePassed, BadInput) as error:
            return {"connectors_resumed": [], "replication_left_stopped": str(error)}

    def _resume_connectors(self, procedure: Run, names: list[str], seconds: float) -> list[str]:
        if not names:
            return []
        refuse_loop(procedure)
        worker = procedure.mirror_maker(procedure.flow)
        for name in names:
            procedure.authority.hold()
            # A checkpoint connector without groups has no tasks; neither has a source connector without its source.
            worker.resume(
                name,
                deadline=seconds,
                needs_tasks=name == procedure.flow.connectors.source and not procedure.progress.without_source,
            )
        return names

    def _lift_fence(self, procedure: Run, added: list[AclEntry]) -> int:
        if not added:
            return 0
        if not source_rules(procedure).entries & frozenset(added):
            return len(added)
        record_fact(procedure.authority, self.task_id, SourceAclEntriesToRemove(removes_acl_entries=len(added)))
        procedure.authority.hold()
        procedure.systems.source_acls.remove(added)
        remaining = [str(e) for e in source_rules(procedure).entries & frozenset(added)]
        if remaining:
            raise ReadBackFailed(
                "The source's fence is still there",
                first_few(remaining),
                "Clear return_to_source: it goes on from here.",
            )
        return len(added)
