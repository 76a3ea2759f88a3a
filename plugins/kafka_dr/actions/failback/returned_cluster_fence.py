"""Fence a returned cluster: choose groups to fence, refuse without a fence, wait for stable log ends."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka_dr.actions.failback.resync_scope import flow_runs, partitions_of, written_since
from kafka_dr.actions.fencing.acl_fence import WriteFence
from kafka_dr.actions.groups.selected import group_views, held_in_scope
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import DeadlinePassed, FenceNotProven
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run


def groups_of_source(procedure: Run, topics: Iterable[str]) -> list[str]:
    """Return groups with positions on these topics of the new primary, to be fenced on the returned cluster."""
    flow = procedure.flow
    config = procedure.mirror_maker(flow).config(flow.connectors.checkpoint.name)
    return sorted(
        set(held_in_scope(procedure, group_views(procedure.systems.source), topics, config)["group"].tolist())
    )


def refuse_unfenced(procedure: Run, fence: WriteFence) -> None:
    """Refuse if clients cannot be fenced on the returned cluster.

    Clients can be fenced if the returned cluster has an authorizer, if the topology names a drain hook, or if the fence
    hook reports a fence.
    """
    hook = procedure.systems.fence_hook
    if (
        fence.authorizer
        or procedure.systems.drain is not None
        or (hook is not None and hook.state(procedure.request.target).fenced)
    ):
        return
    raise FenceNotProven(
        f"Clients cannot be fenced on {procedure.request.target}",
        f"{procedure.request.target} has no authorizer, the topology names no drain hook, and no fence hook reports a"
        " fence",
        f"Enable an authorizer on {procedure.request.target}, name a drain hook as `drain` in the topology, or have"
        f" the fence hook fence {procedure.request.target}. Then start a new run.",
    )


def count_still_partitions(procedure: Run, step: str, topics: list[str]) -> int | None:
    """Wait until no partition of these topics on the returned cluster got a record for `stable_seconds`.

    Returns:
        Number of partitions; None, without waiting, if the flow back runs, because the flow back writes records.

    Raises:
        FenceNotProven: records still arrived after `fence_seconds`.
    """
    if flow_runs(procedure, procedure.flow):
        return None
    partitions, seconds = partitions_of(procedure, topics), procedure.request.deadlines.stable_seconds

    def count() -> int:
        before = procedure.systems.target.ends(partitions)
        time.sleep(seconds)
        written = written_since(procedure, before)
        if written:
            raise NotYet(
                f"records still arrive on {len(written)} partitions of {procedure.request.target}:"
                f" {first_few(written, separator='; ')}"
            )
        return len(partitions)

    try:
        return procedure.progress.wait(
            step,
            "Stable log ends on the returned cluster",
            count,
            procedure.request.deadlines.fence_seconds,
        )
    except DeadlinePassed as error:
        raise FenceNotProven(
            f"Records still arrive on {procedure.request.target}",
            error.seen,
            "Find out which client writes these records, and stop this client; ACLs do not refuse a super user. Then"
            " start a new run.",
        ) from None
