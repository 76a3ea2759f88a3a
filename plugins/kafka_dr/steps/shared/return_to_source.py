"""The way back: everything as it was found, before the point of no return."""

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

#: For a connector of a source that was given up to run again.
_GIVEN_UP_SECONDS = 20.0
#: Without a journal nothing is done, and clients stand still: it is waited for half an hour, not for two more tries.
_TRIES, _BETWEEN_TRIES = 180, timedelta(seconds=10)


class ReturnToSource(ProcedureStep):
    """Resume MirrorMaker 2, lift the fences exactly as found, tell the applications; verified."""

    bounded = False

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("retries", _TRIES)
        kwargs.setdefault("retry_delay", _BETWEEN_TRIES)
        super().__init__(**kwargs)

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Without a lease nothing was touched, and there is nothing to undo."""
        if not procedure.lease.ever_held:
            return {"done": self.task_id, "touched": False}
        return super().run_once(procedure, context, woken)

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Take the lease and write the intent only: predecessors failed, and the fence's clock does not count."""
        take_new_epoch(procedure, woken)
        self.intend(procedure, context)

    def act(self, procedure: Run, context: Any) -> SourceReturned:
        """Return clients, then MirrorMaker 2; wait for a cluster or worker that is away or does not comply."""
        if (
            procedure.progress.began(Step.FENCE_PRODUCERS) is None
            and procedure.progress.began(Step.FENCE_SOURCE) is None
        ):
            left = left_on_returned_cluster(procedure)
            return SourceReturned(touched=left is not None, left_on_returned_cluster=left)

        def given_back() -> SourceReturned:
            try:
                return self._give_back(procedure)
            except (SystemUnavailable, DeadlinePassed, ReadBackFailed) as error:
                raise NotYet(str(error)) from None

        return procedure.progress.wait(
            self.task_id, "Everything as it was found", given_back, procedure.request.deadlines.return_seconds
        )

    def _give_back(self, procedure: Run) -> SourceReturned:
        progress = procedure.progress
        if progress.began(Step.OPEN_TARGET) is not None:
            self._close_target_again(procedure, removed_entries(procedure))
        if not progress.without_source:
            # It must answer first: while it cannot be given back its fence stands, and so does what another procedure
            # builds on that.
            source_rules(procedure)
        if not source_reopened(procedure):
            record_fact(procedure.authority, self.task_id, SourceToReopen(reopens_source=True))
        # After that intent: before it the watcher may still fence. By intents alone: what is repeated does all again.
        intents, parts = progress.entries(Entry.INTENT), parts_of(procedure.flow)
        left = left_to_undo(intents, procedure.request.source, parts, continues=progress.continues is not None)
        lifted = self._lift_fence(procedure, [e for one in left if isinstance(one, RemoveFence) for e in one.entries])
        let_in = lift_fence_hook(procedure)
        # What a planned run has stopped, that one's own return starts again.
        told = DrainHookAnswer(told=False) if progress.continues else tell_to_resume(procedure)
        # Only now: a worker or a target that is away must not keep clients from a source that works.
        stopped = [name for one in left if isinstance(one, ResumeReplication) for name in one.names]
        return SourceReturned(
            touched=True,
            **self._resume_replication(procedure, stopped),
            acl_entries_lifted=lifted,
            fence_hook=let_in,
            drain_hook=told,
            returned_at=procedure.now(),
            # A source that was given up, and on which nothing was changed, is not waited for.
            probe_refused_by={} if progress.without_source and not lifted else probe_refused_by(procedure),
            **seen_flowing(procedure, told),
            left_on_returned_cluster=left_on_returned_cluster(procedure),
        )

    def _close_target_again(self, procedure: Run, denials: list[AclEntry]) -> None:
        """Return is allowed only if nothing was written on the target since: fence it again, then compare its ends."""
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
        # Brokers learn of an ACL within moments; what was on its way then is in the log after this.
        time.sleep(procedure.request.deadlines.stable_seconds)
        moved = boundary_moved(procedure)
        if moved:
            raise Refusal("Clients already wrote on the target", first_few(moved), "Go on forward: clear open_target.")

    def _resume_replication(self, procedure: Run, names: list[str]) -> dict[str, Any]:
        """Resume connectors; without the source, toward a returned cluster or dedicated, only what can be; tell why."""
        # A cluster that was away once may be away again: whose clients are elsewhere keeps nobody's lease.
        flows_back = procedure.progress.began(Step.FENCE_RETURNED_CLUSTER) is not None
        if not procedure.progress.without_source and not flows_back and procedure.flow.connect:
            return {"connectors_resumed": self._resumed(procedure, names, procedure.request.deadlines.stop_seconds)}
        try:
            return {"connectors_resumed": self._resumed(procedure, names, _GIVEN_UP_SECONDS)}
        except (SystemUnavailable, DeadlinePassed, BadInput) as error:
            return {"connectors_resumed": [], "replication_left_stopped": str(error)}

    def _resumed(self, procedure: Run, names: list[str], seconds: float) -> list[str]:
        if not names:
            return []
        refuse_loop(procedure)
        worker = procedure.mirror_maker(procedure.flow)
        for name in names:
            procedure.authority.hold()
            # A checkpoint connector without groups runs without tasks, and a source connector without its source.
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
        left = [str(e) for e in source_rules(procedure).entries & frozenset(added)]
        if left:
            raise ReadBackFailed(
                "The source's fence is still there",
                first_few(left),
                "Clear return_to_source: it goes on from here.",
            )
        return len(added)
