"""Fence the returned cluster: while clients work on the new primary, records written here are lost unnoticed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka_dr.actions.failback.resync_scope import flow_runs, partitions_of, refuse_dedicated, stop_flows, written_since
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.fencing.acl_fence import WriteFence, add_fence, fence_writes
from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.groups.selected import group_views, held_in_scope
from kafka_dr.actions.scope.flow_scope import copies_of_target, mirrored_of
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.fencing.fence import FenceScope
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import DeadlinePassed, FenceNotProven
from kafka_dr.procedure.entries import ReturnedClusterFenced
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.watcher.duties import disarm_fences


class FenceReturnedCluster(ProcedureStep):
    """Fence writes and group reads on the returned cluster, prove the fence, and stop the flow from that cluster.

    The fence stays however the run ends, until open_target opens the returned cluster to clients.
    """

    expires = True

    def act(self, procedure: Run, context: Any) -> ReturnedClusterFenced:
        """Fence, probe, stop the flow; then wait for stable log ends, unless the flow back writes there."""
        refuse_dedicated(procedure)
        swapped, mirrored = procedure.reversed, mirrored_of(procedure, procedure.systems.source.topics())
        copies = {procedure.naming.remote(procedure.flow.source, topic) for topic in mirrored}
        topics = sorted({*mirrored_of(swapped, swapped.systems.source.topics()), *mirrored, *copies})
        fence = fence_writes(swapped, self.task_id, topics)
        self._refuse_unfenced(procedure, fence)
        groups = groups_of_source(
            procedure, [*mirrored, *copies_of_target(procedure, procedure.systems.source.topics())]
        )
        add_fence(swapped, self.task_id, FenceScope.group_reads(groups))
        # Topics that will be recreated must not change after the search for stranded records.
        flows = [swapped.flow, procedure.flow] if mode_of(procedure) is Mode.RECREATE else [swapped.flow]
        stopped = stop_flows(procedure, self.task_id, flows)
        disarmed = disarm_fences(
            procedure, procedure.request.target, f"fenced by {procedure.id}, which takes clients back to it"
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
            disarmed=[armed.procedure_id for armed in disarmed],
            still_partitions=self._still(procedure, topics),
        )

    def _refuse_unfenced(self, procedure: Run, fence: WriteFence) -> None:
        """Refuse a cluster without authorizer unless the fence hook confirms a fence, or a drain hook exists."""
        hook = procedure.systems.fence_hook
        if (
            fence.authorizer
            or procedure.systems.drain is not None
            or (hook is not None and hook.state(procedure.request.target).fenced)
        ):
            return
        raise FenceNotProven(
            f"Nothing keeps clients from {procedure.request.target}",
            "no authorizer, no drain hook, and no fence hook that fences it",
            "Enable an authorizer there, or fence it by a hook; then start a new run.",
        )

    def _still(self, procedure: Run, topics: list[str]) -> int | None:
        """Wait until no partition gets a record for a window; return their number, None if the flow back runs."""
        if flow_runs(procedure, procedure.flow):
            return None
        partitions, seconds = partitions_of(procedure, topics), procedure.request.deadlines.stable_seconds

        def count_still() -> int:
            before = procedure.systems.target.ends(partitions)
            time.sleep(seconds)
            written = written_since(procedure, before)
            if written:
                raise NotYet(f"records still arrive on {len(written)} partitions: {first_few(written, separator='; ')}")
            return len(partitions)

        try:
            return procedure.progress.wait(
                self.task_id,
                "Still log ends on the returned cluster",
                count_still,
                procedure.request.deadlines.fence_seconds,
            )
        except DeadlinePassed as error:
            raise FenceNotProven(
                f"Somebody writes on {procedure.request.target}",
                error.seen,
                "A super user passes every ACL: stop this writer, then start a new run.",
            ) from None


def groups_of_source(procedure: Run, topics: Iterable[str]) -> list[str]:
    """Groups of the new primary with positions on these topics; they must not read on the returned cluster too."""
    flow = procedure.flow
    config = procedure.mirror_maker(flow).config(flow.connectors.checkpoint)
    return sorted(
        set(held_in_scope(procedure, group_views(procedure.systems.source), topics, config)["group"].tolist())
    )
