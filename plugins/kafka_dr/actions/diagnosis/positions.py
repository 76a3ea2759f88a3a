"""Derive what the tree of the groups asks: positions on both sides, checkpoints and offset syncs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from kafka_dr.actions.diagnosis.records import MirrorMakerRights
from kafka_dr.actions.scope.internal_topics import checkpoints_of, offset_syncs_of, syncs_place
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.domain.diagnosis.groups import GroupPlace
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.patterns import group_filter_of, topic_filter_of
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import MOVED_GROUP_TYPES

Place = tuple[str, str, int]
#: MirrorMaker 2's defaults, and how much longer than an interval it may take, in seconds.
_REFRESH, _EMIT, _SYNC, _SPARE = 600.0, 60.0, 60.0, 3.0
#: An interval that is no longer than this is waited for; a longer one has to pass between two diagnoses.
_LONGEST_WAIT = 12.0


@dataclass(frozen=True)
class SyncSpan:
    """Of the offset syncs of one partition: the lowest source offset, and source and target offset of the last."""

    oldest: int
    upstream: int
    downstream: int


def syncs_exist(procedure: Run, o: Observation) -> bool:
    """Whether the topic of the flow's offset syncs exists."""
    alias, topic = syncs_place(procedure, procedure.flow)
    return topic in (o.source if alias == o.source.alias else o.target).topics


def sync_spans(procedure: Run, o: Observation) -> dict[TopicPartition, SyncSpan]:
    """Return the span of offset syncs of each source partition that has one; {} without the topic of offset syncs."""
    spans: dict[TopicPartition, SyncSpan] = {}
    for portion in offset_syncs_of(procedure) if syncs_exist(procedure, o) else ():
        for _, rows in portion.groupby(["topic", "partition"], sort=False):
            tp = TopicPartition(str(rows["topic"].iloc[0]), int(rows["partition"].iloc[0]))
            last, before = rows.iloc[-1], spans.get(tp)
            oldest = int(rows["upstream"].min())
            lowest = oldest if before is None else min(oldest, before.oldest)
            spans[tp] = SyncSpan(lowest, int(last["upstream"]), int(last["downstream"]))
    return spans


def group_places(
    procedure: Run,
    o: Observation,
    spans: Mapping[TopicPartition, SyncSpan],
    works: bool,
    rights: Mapping[str, MirrorMakerRights],
    seen_before: Callable[[str, str], float],
) -> list[GroupPlace]:
    """Return what the tree of the groups asks, one for each position on a partition that the flow mirrors.

    Args:
        works: whether the checkpoint connector and its settings have no finding.
        seen_before: how long ago, in seconds, an earlier diagnosis first found an end about a group; 0 if none did.
    """
    config = o.flow.checkpoint_connector.config if o.flow.checkpoint_connector else {}
    checkpoints = _checkpoints(procedure, o)
    positions = _all_positions(procedure, o, config)
    held = _target_positions(procedure, o, config)
    places = [
        _place(o, config, spans, checkpoints, held, row, works) for row in positions.itertuples(index=False, name=None)
    ]
    places = _with_expected(procedure, places, {group for group, _, _ in checkpoints})
    places = _with_rights(places, rights, o.scope)
    return _after_waiting(procedure, o, config, places, seen_before)


def _all_positions(procedure: Run, o: Observation, config: Mapping[str, str]) -> pd.DataFrame:
    """Return the positions on mirrored topics of selected groups, and of those that only this filter leaves out."""
    selects, default = group_filter_of(config), group_filter_of({})
    others = [
        name
        for name, group in o.source.groups.items()
        if not selects(name) and default(name) and group.group_type.lower() in MOVED_GROUP_TYPES
    ]
    left_out = positions_of(procedure.systems.source, others, require_stable=False)
    scope = set(o.scope)
    frame = pd.concat([o.positions, left_out], ignore_index=True)
    return frame[frame["topic"].isin(scope)]


def _checkpoints(procedure: Run, o: Observation) -> dict[Place, int]:
    """Return the newest checkpoints; {} without their topic."""
    if procedure.naming.checkpoints_topic(procedure.flow.source) not in o.target.topics:
        return {}
    frame = checkpoints_of(procedure)
    columns = (frame[name].tolist() for name in ("group", "topic", "partition", "mirror_maker_position"))
    return {
        (group, topic, partition): int(position) for group, topic, partition, position in zip(*columns, strict=True)
    }


def _target_positions(procedure: Run, o: Observation, config: Mapping[str, str]) -> dict[Place, int]:
    """Return the groups' positions on the target; {} if MirrorMaker 2 writes none."""
    if not _syncs_groups(config):
        return {}
    frame = positions_of(procedure.systems.target, sorted(o.groups & set(o.target.groups)), require_stable=False)
    columns = (frame[name].tolist() for name in ("group", "topic", "partition", "position"))
    return {
        (group, topic, partition): int(position) for group, topic, partition, position in zip(*columns, strict=True)
    }


def _syncs_groups(config: Mapping[str, str]) -> bool:
    return config.get("sync.group.offsets.enabled", "false").strip().lower() == "true"


def _place(
    o: Observation,
    config: Mapping[str, str],
    spans: Mapping[TopicPartition, SyncSpan],
    checkpoints: Mapping[Place, int],
    held: Mapping[Place, int],
    row: tuple[str, str, int, int],
    works: bool,
) -> GroupPlace:
    group, topic, partition, position = row
    tp, there = TopicPartition(topic, partition), (group, o.scope[topic], partition)
    span, view = spans.get(tp), o.target.groups.get(group)
    keys = ("groups", "groups.exclude", "groups.blacklist")
    return GroupPlace(
        group=group,
        partition=str(tp),
        position=position,
        selected=group_filter_of(config).selects(group),
        filter_text=", ".join(f"{key}={config[key]}" for key in keys if key in config),
        connector_works=works,
        topic_selected=topic_filter_of(config).selects(topic),
        mirrored=o.last.target_ends.get(tp, 0) > 0,
        oldest_sync=None if span is None else span.oldest,
        other_syncs=bool(spans),
        checkpoint=checkpoints.get(there),
        due=_due(span, position),
        synced=_syncs_groups(config),
        members=() if view is None else view.members,
        target_position=held.get(there),
    )


def _due(span: SyncSpan | None, position: int) -> int | None:
    """Return the target position that MirrorMaker 2 translates a position to by the last offset sync; None: unknown."""
    if span is None or span.upstream > position:
        return None
    return span.downstream + (position > span.upstream)


def _with_expected(procedure: Run, places: Iterable[GroupPlace], before: set[str]) -> list[GroupPlace]:
    """Return the places, each with why its group is meant to be replicated, if a filter leaves the group out."""
    stated = {key: value for key, value in procedure.flow.mirror_maker.items() if key.startswith("groups")}
    selects = group_filter_of(stated) if "groups" in stated else None

    def why(group: str) -> str:
        if selects and selects(group):
            return f"the topology states groups={stated['groups']}"
        return "it has a checkpoint" if group in before else ""

    return [place if place.selected else replace(place, expected=why(place.group)) for place in places]


def _with_rights(
    places: list[GroupPlace], rights: Mapping[str, MirrorMakerRights], scope: Mapping[str, str]
) -> list[GroupPlace]:
    names, topics = sorted({place.group for place in places}), sorted(set(scope.values()))
    describe = rights["source"].allowed("describe", "group", names)
    read = rights["target"].allowed("read", "group", names)
    # To commit, a client needs READ on the topic, too.
    read_topic = rights["target"].allowed("read", "topic", topics)

    def writable(place: GroupPlace) -> bool | None:
        topic = scope[place.partition.rpartition("-")[0]]
        return None if read is None or read_topic is None else read[place.group] and read_topic[topic]

    return [
        replace(place, describable=None if describe is None else describe[place.group], writable=writable(place))
        for place in places
    ]


def _after_waiting(
    procedure: Run,
    o: Observation,
    config: Mapping[str, str],
    places: list[GroupPlace],
    seen_before: Callable[[str, str], float],
) -> list[GroupPlace]:
    """Return the places once MirrorMaker 2 had the time to write, where its intervals are short; else as they are.

    What an earlier diagnosis found to be awaited, longer ago than the intervals, is awaited no more.
    """
    emit = float(config.get("emit.checkpoints.interval.seconds", _EMIT))
    whole = emit + float(config.get("refresh.groups.interval.seconds", _REFRESH))
    sync = float(config.get("sync.group.offsets.interval.seconds", _SYNC))
    lacking = [place for place in places if place.connector_works and place.selected and _lacks(place)]
    wait = max([*(whole if p.checkpoint is None else emit for p in lacking), *([sync] if lacking else [])], default=0.0)
    waited = min(wait + _SPARE, _LONGEST_WAIT) if lacking else 0.0
    checkpoints: dict[Place, int] = {}
    held: dict[Place, int] = {}
    if lacking:
        time.sleep(waited)
        checkpoints, held = _checkpoints(procedure, o), _target_positions(procedure, o, config)
    concerned = set(lacking)

    def renewed(place: GroupPlace) -> GroupPlace:
        tp = place.partition.rpartition("-")
        there = (place.group, o.scope[tp[0]], int(tp[2]))
        need = whole if place.checkpoint is None else emit
        ago = seen_before("checkpoint_awaited", place.group)
        sync_ago = seen_before("group_sync_awaited", place.group)
        # A checkpoint of before the wait is what the target's position had the time to reach.
        return replace(
            place,
            checkpoint=checkpoints.get(there, place.checkpoint) if _needs_checkpoint(place) else place.checkpoint,
            target_position=held.get(there, place.target_position),
            waited=max(waited, ago) >= need + _SPARE,
            wait_text=f"MirrorMaker 2 may take {need:g} s",
            sync_waited=max(waited, sync_ago) >= sync + _SPARE,
            sync_wait_text=f"sync.group.offsets.interval.seconds is {sync:g}",
        )

    return [renewed(place) if place in concerned else place for place in places]


def _needs_checkpoint(place: GroupPlace) -> bool:
    return place.checkpoint is None or (place.due is not None and place.checkpoint < place.due)


def _lacks(place: GroupPlace) -> bool:
    """Whether a position has no checkpoint that is due, or the target no position as far as the checkpoint."""
    if not place.mirrored or place.oldest_sync is None or place.position < place.oldest_sync:
        return False
    behind = place.checkpoint is not None and (place.target_position or -1) < place.checkpoint
    return _needs_checkpoint(place) or (place.synced and behind)
