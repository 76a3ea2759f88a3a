"""Groups that a flow selects, and their positions on its topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from kafka_dr.actions.scope.plan_scope import (
    excluded_groups,
    planned_groups,
    topics_with_positions,
)
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.domain.mirror_maker.patterns import group_filter_of
from kafka_dr.domain.readiness.observation import (
    GroupView,
)
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.procedure.run import Run

_MOVED_TYPES = ("classic", "consumer")


def group_views(cluster: KafkaCluster) -> dict[str, GroupView]:
    """All groups of a cluster by name."""
    return {
        g.name: GroupView(g.state, g.type, g.empty, tuple(f"{m.client_id} at {m.host}" for m in g.members))
        for g in cluster.groups().values()
    }


def held_in_scope(
    procedure: Run, groups: Mapping[str, GroupView], scope: Iterable[str], config: Mapping[str, str]
) -> pd.DataFrame:
    """Committed positions on the scope's topics of the groups that the flow's filter selects."""
    selects = group_filter_of(config)
    candidates = [g for g, view in groups.items() if selects(g) and view.group_type.lower() in _MOVED_TYPES]
    held = positions_of(procedure.systems.source, candidates, require_stable=False)
    return held[held["topic"].isin(set(scope))].reset_index(drop=True)


def groups_now(procedure: Run) -> list[str]:
    """Groups the flow selects now with positions on the plan's topics, and all the plan's; no excluded groups."""
    worker, name = procedure.mirror_maker(procedure.flow), procedure.flow.connectors.checkpoint
    found = held_in_scope(
        procedure, group_views(procedure.systems.source), topics_with_positions(procedure), worker.config(name)
    )
    left_alone = {one.group for one in excluded_groups(procedure)}
    return sorted({*found["group"].tolist(), *planned_groups(procedure)} - left_alone)
