"""Fence the returned cluster, because records that clients still write on that cluster would be lost unnoticed."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.failback.resync_scope import (
    refuse_overlapping,
    refuse_unusable_flows,
    refuse_unusable_pair,
    stop_flows,
)
from kafka_dr.actions.failback.returned_cluster_fence import count_still_partitions, groups_of_source, refuse_unfenced
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.failback.stranded_search import last_failover
from kafka_dr.actions.fencing.acl_fence import add_fence, fence_writes
from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.scope.flow_scope import copies_of_target, mirrored_of
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.fencing.fence import FenceScope
from kafka_dr.procedure.entries import ReturnedClusterFenced
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.watcher.duties import disarm_fences


class FenceReturnedCluster(ProcedureStep):
    """Fence writes and group reads on the returned cluster, prove the fence, and stop the flow from that cluster.

    The fence stays however the run ends, until open_target opens the returned cluster to clients.
    """

    expires = True

    def act(self, procedure: Run, context: Any) -> ReturnedClusterFenced:
        """Fence the returned cluster, prove the fence, stop the flow from it, and wait until its log ends are stable.

        Mode recreate stops the flow back, too. In mode append a flow back that runs is no obstacle: it writes to the
        returned cluster, and no stable log ends are awaited.
        """
        last_failover(procedure)  # With source and target swapped, this fence would stop every client.
        refuse_unusable_pair(procedure)
        refuse_unusable_flows(procedure)
        refuse_overlapping(procedure)
        swapped, mirrored = procedure.reversed, mirrored_of(procedure, procedure.systems.source.topics())
        copies = {procedure.naming.remote(procedure.flow.source, topic) for topic in mirrored}
        topics = sorted({*mirrored_of(swapped, swapped.systems.source.topics()), *mirrored, *copies})
        fence = fence_writes(swapped, self.task_id, topics)
        refuse_unfenced(procedure, fence)
        groups = groups_of_source(
            procedure, [*mirrored, *copies_of_target(procedure, procedure.systems.source.topics())]
        )
        add_fence(swapped, self.task_id, FenceScope.group_reads(groups))
        # Topics that will be recreated must not change after the search for stranded records.
        flows = [swapped.flow, procedure.flow] if mode_of(procedure) is Mode.RECREATE else [swapped.flow]
        stopped = stop_flows(procedure, self.task_id, flows)
        disarmed = disarm_fences(
            procedure,
            procedure.request.target,
            f"fenced by {procedure.id}, which moves clients back to {procedure.request.target}",
        )
        return ReturnedClusterFenced(
            returned_cluster=procedure.request.target,
            topics=len(topics),
            groups=len(groups),
            acl_entries_added=fence.added,
            authorizer=fence.authorizer,
            brokers_refusing=fence.refusing,
            fenced_at=procedure.now() if fence.proven else None,
            groups_active=sorted(active_groups(procedure.systems.target, groups)),
            stopped=stopped,
            disarmed=[armed_fence.procedure_id for armed_fence in disarmed],
            still_partitions=count_still_partitions(procedure, self.task_id, topics),
        )
