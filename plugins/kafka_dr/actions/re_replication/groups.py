"""Groups with positions on the chosen target topics: refused while active there, exported, placed again."""

from __future__ import annotations

import pandas as pd

from kafka_dr.actions.re_replication.scope import ChosenTopics
from kafka_dr.actions.scope.position_frames import COLUMNS, PLACE, TYPES, in_order, positions_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.descriptions import GroupInfo


def target_positions(chosen: ChosenTopics) -> pd.DataFrame:
    """Return the groups' positions on the chosen topics of the target: group, topic, partition, position."""
    target = chosen.procedure.systems.target
    rows = positions_of(target, sorted(target.groups()), require_stable=False)
    return rows[rows["topic"].isin(list(chosen.names.values()))].reset_index(drop=True)


def refuse_active_groups(chosen: ChosenTopics, positions: pd.DataFrame, next_step: str) -> None:
    """Refuse if a group with a position on, or an assignment of, a chosen target topic has members on the target.

    A group that is active on other topics alone may stay active.

    Args:
        positions: the groups' positions on the chosen topics of the target.
        next_step: what a person has to do then.
    """
    names, holding = set(chosen.names.values()), set(positions["group"])
    active = [
        f"{info.name} ({len(info.members)} members)"
        for info in chosen.procedure.systems.target.groups().values()
        if not info.empty and (info.name in holding or _reads(info, names))
    ]
    if active:
        raise NotReady(
            f"Groups on {chosen.procedure.request.target} have members, and read the chosen topics or have positions on"
            " them",
            first_few(sorted(active)),
            next_step,
        )


def _reads(info: GroupInfo, topics: set[str]) -> bool:
    return any(tp.topic in topics for member in info.members for tp in member.assignment)


def source_positions(chosen: ChosenTopics, groups: list[str]) -> pd.DataFrame:
    """Return these groups' positions on the chosen topics of the source: group, topic, partition, position."""
    rows = positions_of(chosen.procedure.systems.source, groups, require_stable=False)
    return rows[rows["topic"].isin(list(chosen.names))].reset_index(drop=True)


def without_source(chosen: ChosenTopics, on_target: pd.DataFrame, on_source: pd.DataFrame) -> pd.DataFrame:
    """Return those positions on the target whose group has no position on the source partition."""
    remote = {name: topic for topic, name in chosen.names.items()}
    held = set(zip(on_source["group"], on_source["topic"], on_source["partition"], strict=True))
    lacking = [
        (group, remote[topic], partition) not in held
        for group, topic, partition in zip(on_target["group"], on_target["topic"], on_target["partition"], strict=True)
    ]
    return on_target[pd.Series(lacking, index=on_target.index, dtype=bool)]


def asked_positions(lacking: pd.DataFrame) -> dict[TopicPartition, list[int]]:
    """Return target partition -> the positions on it of groups that have none on the source."""
    asked: dict[TopicPartition, list[int]] = {}
    for topic, partition, position in zip(lacking["topic"], lacking["partition"], lacking["position"], strict=True):
        asked.setdefault(TopicPartition(topic, int(partition)), []).append(int(position))
    return asked


def with_source_places(
    chosen: ChosenTopics, lacking: pd.DataFrame, places: dict[TopicPartition, dict[int, int]]
) -> pd.DataFrame:
    """Return positions on the source for groups that have none there: group, topic, partition, position.

    Args:
        lacking: their positions on the target.
        places: source partition -> position on the target -> position on the source at the same record.
    """
    source = {name: topic for topic, name in chosen.names.items()}
    rows = [
        (group, source[topic], partition, places[TopicPartition(source[topic], int(partition))][int(position)])
        for group, topic, partition, position in zip(*(lacking[name] for name in COLUMNS), strict=True)
    ]
    return in_order(pd.DataFrame(rows, columns=COLUMNS).astype(TYPES))


def merged_positions(stated: pd.DataFrame, derived: pd.DataFrame) -> pd.DataFrame:
    """Return positions on the source; a position that the group itself has there counts before a derived one."""
    own = set(zip(*(stated[name] for name in PLACE), strict=True))
    extra = [place not in own for place in zip(*(derived[name] for name in PLACE), strict=True)]
    return in_order(pd.concat([stated, derived[pd.Series(extra, index=derived.index, dtype=bool)]]).astype(TYPES))
