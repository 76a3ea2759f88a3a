"""Wait until groups on the source have no members, read their positions, and prove that no position changes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pandas as pd

from kafka_dr.actions.scope.plan_scope import excluded_groups, topics_with_positions
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import DeadlinePassed, KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import GroupInfo
from kafka_dr.procedure.entries import ExcludedNow
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import COMMITS_TOPIC

_COMMITS_SECONDS = 5.0
#: Up to so many positions of so many groups are read again as proof, which takes a second or two. For more, unchanged
#: log ends of __consumer_offsets are the proof.
_POSITIONS_READ_AGAIN, _GROUPS_READ_AGAIN = 50_000, 1_000


def are_many(positions: pd.DataFrame) -> bool:
    """Whether reading these groups' positions again takes long: clients may stand still meanwhile."""
    return len(positions) > _POSITIONS_READ_AGAIN or positions["group"].nunique() > _GROUPS_READ_AGAIN


def excluded_now(procedure: Run) -> list[ExcludedNow]:
    """Return the groups that the plan excludes, each with its current number of members on the source."""
    excluded = excluded_groups(procedure)
    active = active_groups(procedure.systems.source, [exclusion.group for exclusion in excluded])
    members = {name: len(info.members) for name, info in active.items()}
    return [
        ExcludedNow(exclusion.group, exclusion.reason, exclusion.policy, members.get(exclusion.group, 0))
        for exclusion in excluded
    ]


def active_groups(cluster: KafkaCluster, groups: list[str]) -> dict[str, GroupInfo]:
    """Return name -> description of the given groups that have members on the cluster now."""
    descriptions = cluster.groups()
    return {name: descriptions[name] for name in groups if name in descriptions and not descriptions[name].empty}


def wait_until_empty(procedure: Run, step: str, groups: list[str]) -> None:
    """Wait until none of these groups has a member on the source.

    Raises:
        DeadlinePassed: groups still have members after `drain_seconds` + `fence_seconds`; the error names these groups
            and says what to do.
    """
    remaining: list[str] = []

    def empty() -> None:
        active = active_groups(procedure.systems.source, groups)
        remaining[:] = sorted(active)
        if active:
            members_text = "; ".join(
                f"{name}: {', '.join(f'{member.client_id} at {member.host}' for member in info.members[:3])}"
                for name, info in sorted(active.items())[:10]
            )
            raise NotYet(f"{len(active)} groups still have members ({members_text})")

    try:
        procedure.progress.wait(
            step,
            "Groups empty on the source",
            empty,
            procedure.request.deadlines.drain_seconds + procedure.request.deadlines.fence_seconds,
        )
    except DeadlinePassed as error:
        raise DeadlinePassed(error.reason, error.seen, _remedy(procedure.request.source, remaining)) from None


def _remedy(source: str, remaining: list[str]) -> str:
    names = json.dumps(dict.fromkeys(remaining[:3], "reason"))
    return (
        f"The procedure returns to the source by itself. Stop the consumers of these groups on {source}, then start a"
        f" new run. Or start a new run with the param exclude_groups={names}, with all groups that cannot be stopped,"
        " and a reason for each: that run does not wait for excluded groups, and the approver sees groups and reasons."
        " The policy of each excluded group, under `groups` in the topology, decides at which position the group begins"
        " on the target."
    )


def commits_end(procedure: Run) -> dict[str, int]:
    """Return partition number (as text) of the source's topic __consumer_offsets -> log end.

    While none of these log ends moves, no group's position changes. {} if the log ends cannot be read, or if the topic
    is not visible, as on some hosted clusters.
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
    """Return as text how the groups' positions on the source are proven to be unchanged; None if one has changed.

    If no partition of __consumer_offsets has records, its log ends are no proof, because the source must then store
    positions elsewhere.

    Args:
        positions: the groups' earlier positions, one row per group, topic and partition.
        since: partition number (as text) of the source's __consumer_offsets -> log end before `positions` were read.
    """
    if are_many(positions) and any(since.values()) and commits_end(procedure) == since:
        return "no commit since drain_consumers"
    reread = positions_frame(procedure, groups)
    return (
        "read again, unchanged"
        if positions.drop(columns="position_at").equals(reread.drop(columns="position_at"))
        else None
    )


def positions_frame(procedure: Run, groups: list[str]) -> pd.DataFrame:
    """Return these groups' positions on the plan's topics of the source; wait for transactions that commit any.

    One row per group, topic and partition, sorted: group, topic, partition, position, position_at (time of reading, in
    milliseconds since 1970), policy (of the group).
    """
    read_at = int(time.time() * 1000)
    committed = positions_of(procedure.systems.source, groups)
    committed = committed[committed["topic"].isin(topics_with_positions(procedure))].reset_index(drop=True)
    policies = {group: procedure.topology.policy_of(group) for group in groups}
    return committed.assign(position_at=read_at, policy=committed["group"].map(policies).astype(object)).astype(
        {"position_at": "int64"}
    )
