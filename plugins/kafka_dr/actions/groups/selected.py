"""Find the groups that the group filter of a flow's checkpoint connector selects, and read their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from kafka_dr.actions.history.moves import last_move
from kafka_dr.actions.scope.plan_scope import (
    excluded_groups,
    fenced_groups,
    planned_groups,
    topics_with_positions,
)
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.domain.mirror_maker.patterns import group_filter_of
from kafka_dr.domain.readiness.group_checks import IMMOVABLE_REMEDY, types_of_groups
from kafka_dr.domain.readiness.observation import GroupView
from kafka_dr.errors import Refusal
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import MOVED_GROUP_TYPES


def group_views(cluster: KafkaCluster) -> dict[str, GroupView]:
    """Return name -> state, type and members of every group of a cluster."""
    return {
        group.name: GroupView(
            group.state,
            group.type,
            group.empty,
            tuple(f"{member.client_id} at {member.host}" for member in group.members),
            group.assignor,
            tuple(sorted(member.instance for member in group.members if member.instance is not None)),
        )
        for group in cluster.groups().values()
    }


def held_in_scope(
    procedure: Run, groups: Mapping[str, GroupView], scope: Iterable[str], config: Mapping[str, str]
) -> pd.DataFrame:
    """Return the positions on source topics in `scope` of all groups that the flow's group filter selects.

    Groups of an unknown type are left out: `immovable_in_scope` names them.

    One row per position on the source, sorted: group, topic, partition, position.

    Args:
        groups: all groups of the source.
        scope: source topics.
        config: the checkpoint connector's configuration, which has the group filter.
    """
    moved, _ = _selected(procedure, groups, config)
    return _in_scope(procedure, moved, scope)


def immovable_in_scope(
    procedure: Run, groups: Mapping[str, GroupView], scope: Iterable[str], config: Mapping[str, str]
) -> dict[str, str]:
    """Return name -> type of the selected groups that cannot be moved, although they have positions in `scope`.

    Args:
        groups: all groups of the source.
        scope: source topics.
        config: the checkpoint connector's configuration, which has the group filter.
    """
    _, others = _selected(procedure, groups, config)
    holders = _in_scope(procedure, others, scope)["group"].unique().tolist() if others else []
    return {name: groups[name].group_type for name in sorted(holders)}


def _selected(
    procedure: Run, groups: Mapping[str, GroupView], config: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the groups that the group filter selects: those of types that can be moved, and the others.

    If clients that belong on the source stay there, only the groups that the last failover moved are selected.
    """
    selects, returning = group_filter_of(config), returning_groups(procedure)
    selected = [group for group in groups if selects(group) and (returning is None or group in returning)]
    moved = [group for group in selected if groups[group].group_type.lower() in MOVED_GROUP_TYPES]
    return moved, sorted(set(selected).difference(moved))


def returning_groups(procedure: Run) -> frozenset[str] | None:
    """Return the groups that the last failover moved or excluded, which alone go back; None if all clients move."""
    if not procedure.source_stays_open:
        return None
    failover = last_move(procedure)
    return frozenset() if failover is None else frozenset(fenced_groups(failover))


def _in_scope(procedure: Run, groups: list[str], scope: Iterable[str]) -> pd.DataFrame:
    committed = positions_of(procedure.systems.source, groups, require_stable=False)
    return committed[committed["topic"].isin(set(scope))].reset_index(drop=True)


def groups_now(procedure: Run) -> list[str]:
    """Return the names of the plan's groups and of all groups that a plan made now would have, sorted.

    Groups that the plan excludes are left out.

    Raises:
        Refusal: a group that cannot be moved has positions in scope now; at the readiness check no such group had.
    """
    worker = procedure.mirror_maker(procedure.flow)
    config = worker.config(worker.checkpoint)
    groups, scope = group_views(procedure.systems.source), topics_with_positions(procedure)
    immovable = immovable_in_scope(procedure, groups, scope, config)
    if immovable:
        raise Refusal(
            "Groups that cannot be moved have committed positions since the readiness check",
            f"on {procedure.request.source}: {types_of_groups(immovable)}",
            IMMOVABLE_REMEDY,
        )
    planned, excluded = planned_groups(procedure), {exclusion.group for exclusion in excluded_groups(procedure)}
    # Clients stand still meanwhile: positions of groups that count anyway are not read.
    others = {name: groups[name] for name in set(groups).difference(planned, excluded)}
    positions = held_in_scope(procedure, others, scope, config)
    return sorted({*positions["group"].tolist(), *planned} - excluded)
