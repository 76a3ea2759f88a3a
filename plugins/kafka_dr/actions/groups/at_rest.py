"""Groups without members, and their positions, read while nobody commits."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pandas as pd

from kafka_dr.actions.scope.plan_scope import (
    excluded_groups,
    topics_with_positions,
)
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import DeadlinePassed, KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import GroupInfo
from kafka_dr.procedure.entries import (
    ExcludedNow,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import COMMITS_TOPIC

_COMMITS_SECONDS = 5.0
#: So many positions are read again in a second; of more, what proves them unchanged is enough.
READ_AGAIN_UP_TO = 50_000


def excluded_now(procedure: Run) -> list[ExcludedNow]:
    """The excluded groups, and how many members each still has on the source."""
    excluded = excluded_groups(procedure)
    active = active_groups(procedure.systems.source, [one.group for one in excluded])
    members = {name: len(info.members) for name, info in active.items()}
    return [ExcludedNow(one.group, one.reason, one.policy, members.get(one.group, 0)) for one in excluded]


def active_groups(cluster: KafkaCluster, groups: list[str]) -> dict[str, GroupInfo]:
    """Those of the groups that have members now."""
    seen = cluster.groups()
    return {name: seen[name] for name in groups if name in seen and not seen[name].empty}


def wait_until_empty(procedure: Run, step: str, groups: list[str]) -> None:
    """Wait until none of the groups has a member on the source; name who is left, and the way out."""
    left: list[str] = []

    def empty() -> None:
        active = active_groups(procedure.systems.source, groups)
        left[:] = sorted(active)
        if active:
            who = "; ".join(
                f"{name}: {', '.join(f'{m.client_id} at {m.host}' for m in info.members[:3])}"
                for name, info in sorted(active.items())[:10]
            )
            raise NotYet(f"{len(active)} groups still have members ({who})")

    try:
        procedure.progress.wait(
            step,
            "Groups empty on the source",
            empty,
            procedure.request.deadlines.drain_seconds + procedure.request.deadlines.fence_seconds,
        )
    except DeadlinePassed as error:
        raise DeadlinePassed(error.reason, error.seen, _way_out(left)) from None


def _way_out(left: list[str]) -> str:
    names = json.dumps(dict.fromkeys(left[:3], "why it is not waited for"))
    return (
        f"Stop these consumers and start a new procedure, or start it with exclude_groups={names}: such a group is not"
        " waited for, its position is left to its policy, and the approver sees both."
    )


def commits_end(procedure: Run) -> dict[str, int]:
    """Log ends of the source's topic of commits, by partition: while they stand, no group's position changes.

    Other groups' commits move the ends, too. Empty where the topic cannot be seen, as on some hosted clusters.
    """
    try:
        topics = procedure.systems.source.topics([COMMITS_TOPIC], timeout=_COMMITS_SECONDS)
        partitions = [TopicPartition(name, p) for name, info in topics.items() for p in info.partitions]
        return {
            str(tp.partition): end
            for tp, end in procedure.systems.source.ends(partitions, timeout=_COMMITS_SECONDS).items()
        }
    except KafkaUnavailable:
        return {}


def still_held(procedure: Run, groups: list[str], positions: pd.DataFrame, since: Mapping[str, int]) -> str | None:
    """Proof that positions, read after commit ends `since`, still stand; None where they do not.

    A topic of commits without any record cannot be where this source keeps them.
    """
    if len(positions) > READ_AGAIN_UP_TO and any(since.values()) and commits_end(procedure) == since:
        return "no commit since"
    again = positions_frame(procedure, groups)
    return "read again" if positions.drop(columns="position_at").equals(again.drop(columns="position_at")) else None


def positions_frame(procedure: Run, groups: list[str]) -> pd.DataFrame:
    """Committed, stable positions of the groups on the plan's topics, sorted; a row per group, topic, partition."""
    read_at = int(time.time() * 1000)
    held = positions_of(procedure.systems.source, groups)
    held = held[held["topic"].isin(topics_with_positions(procedure))].reset_index(drop=True)
    policies = {group: procedure.topology.policy_of(group) for group in groups}
    return held.assign(position_at=read_at, policy=held["group"].map(policies).astype(object)).astype(
        {"position_at": "int64"}
    )
