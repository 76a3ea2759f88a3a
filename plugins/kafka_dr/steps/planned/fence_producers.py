"""Stop clients' writes on the source, and prove that no write gets through."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.clients import ask_to_stop
from kafka_dr.actions.fencing.acl_fence import WriteFence, dead_brokers, fence_writes, refuse_probe_without_rights
from kafka_dr.actions.fencing.hook_fence import fence_by_hook
from kafka_dr.actions.fencing.open_transactions import aborted_transactions, named_transactions
from kafka_dr.actions.fencing.stable_log_ends import wait_for_stable_ends
from kafka_dr.actions.scope.partition_leaders import require_leaders
from kafka_dr.actions.scope.plan_scope import partitions_of, topics_to_move
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.procedure.entries import Approval, PlannedTopic, ProducersFenced
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class FenceProducers(ProcedureStep):
    """Ask the applications to stop, fence clients' writes on the source, and prove the fence on every broker."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ProducersFenced:
        """Ask the drain hook to stop clients, fence their writes on the source, and prove the fence.

        Before the fence, every broker must accept the probe's write. A fence hook that spares MirrorMaker 2 fences,
        too. Then wait until the source's log ends and producers stand still and no transaction is open: these log ends
        are the cut-off. In a failback between clusters whose flows always run no write is fenced.
        """
        approval = procedure.approvals.require_plan()
        if procedure.source_stays_open:
            return self._leave_open(procedure, approval)
        accepting = refuse_probe_without_rights(procedure)
        # Before clients are stopped, because a change of the plan's topics ends the run.
        topics = topics_to_move(procedure)
        require_leaders(procedure.systems.source, [moved.topic for moved in topics])
        require_leaders(procedure.systems.target, [moved.remote for moved in topics])
        hook_answer = ask_to_stop(procedure)
        fence_hook = fence_by_hook(procedure, self.task_id)
        fence = self._fence(procedure, topics, fence_hook is not None)
        # Again behind the fence, because clients may have created topics in between.
        if (now := topics_to_move(procedure)) != topics:
            fence, topics = self._fence(procedure, now, fence_hook is not None), now
        still, waited = wait_for_stable_ends(procedure, self.task_id, partitions_of(topics))
        planned = set(procedure.progress.move().planned.topics)
        return ProducersFenced(
            approval=approval,
            drain_hook=hook_answer,
            acl_entries_added=fence.added,
            fence_hook=fence_hook,
            who_may_write=fence.who_may_write,
            brokers_accepting=accepting,
            brokers_refusing=fence.refusing,
            brokers_dead=dead_brokers(procedure.systems.source, [moved.topic for moved in topics]) or None,
            producers=still.producers,
            topics_since_forecast=[moved for moved in topics if moved not in planned] or None,
            still_after_seconds=round(waited, 3),
            open_transactions=named_transactions(procedure, self.task_id),
            transactions_aborted=aborted_transactions(procedure, self.task_id),
            fenced_at=procedure.now() if fence.proven else None,
            cut_off=procedure.artifacts.save("cut_off", partitions_frame(still.ends, "offset")),
        )

    def _leave_open(self, procedure: Run, approval: Approval) -> ProducersFenced:
        """Ask the drain hook to stop the clients that return; fence no write, as other clients of the source stay."""
        topics = topics_to_move(procedure)
        require_leaders(procedure.systems.target, [moved.remote for moved in topics])
        hook_answer, partitions = ask_to_stop(procedure), partitions_of(topics)
        planned = set(procedure.progress.move().planned.topics)
        return ProducersFenced(
            approval=approval,
            drain_hook=hook_answer,
            acl_entries_added=0,
            brokers_refusing=None,
            topics_since_forecast=[moved for moved in topics if moved not in planned] or None,
            left_open=True,
            still_after_seconds=0.0,
            open_transactions=[],
            transactions_aborted=[],
            fenced_at=None,
            cut_off=procedure.artifacts.save(
                "cut_off", partitions_frame(procedure.systems.source.ends(partitions), "offset")
            ),
        )

    def _fence(self, procedure: Run, topics: list[PlannedTopic], by_hook: bool) -> WriteFence:
        return fence_writes(procedure, self.task_id, [moved.topic for moved in topics], by_hook=by_hook)
