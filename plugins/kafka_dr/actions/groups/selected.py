"""Find the groups that the group filter of a flow's checkpoint connector selects, and read their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from kafka_dr.actions.scope.plan_scope import excluded_groups, planned_groups, topics_with_positions
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.domain.mirror_maker.patterns import group_filter_of
from kafka_dr.domain.readiness.observation import GroupView
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.procedure.run import Run

_MOVED_TYPES = ("classic", "consumer")


def group_views(cluster: KafkaCluster) -> dict[str, GroupView]:
    """Return name -> state, type and members of every group of a cluster."""
    return {
        group.name: GroupView(
            group.state,
            group.type,
            group.empty,
            tuple(f"{member.client_id} at {member.host}" for member in group.members),
        )
        for group in cluster.groups().values()
    }


def held_in_scope(
    procedure: Run, groups: Mapping[str, GroupView], scope: Iterable[str], config: Mapping[str, str]
) -> pd.DataFrame:
    """Return the positions on source topics in `scope` of all groups that the flow's group filter selects.

    One row per position on the source, sorted: group, topic, partition, position.

    Args:
        groups: all groups of the source.
        scope: source topics.
        config: the checkpoint connector's configuration, which has the group filter.
    """
    selects = group_filter_of(config)
    candidates = [group for group, view in groups.items() if selects(group) and view.group_type.lower() in _MOVED_TYPES]
    committed = positions_of(procedure.systems.source, candidates, require_stable=False)
    return committed[committed["topic"].isin(set(scope))].reset_index(drop=True)


def groups_now(procedure: Run) -> list[str]:
    """Return the names of the plan's groups and of all groups that a plan made now would have, sorted.

    Groups that the plan excludes are left out.
    """
    worker, name = procedure.mirror_maker(procedure.flow), procedure.flow.connectors.checkpoint
    positions = held_in_scope(
        procedure, group_views(procedure.systems.source), topics_with_positions(procedure), worker.config(name)
    )
    excluded = {exclusion.group for exclusion in excluded_groups(procedure)}
    return sorted({*positions["group"].tolist(), *planned_groups(procedure)} - excluded)
