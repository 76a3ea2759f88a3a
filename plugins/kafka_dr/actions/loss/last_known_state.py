"""What is known of a flow without its source: by the recorder's archive, MirrorMaker 2's topics and Connect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kafka_dr.actions.concurrently import run_concurrently
from kafka_dr.actions.old_source.views import newest_heartbeats
from kafka_dr.actions.scope.flow_scope import copies_of_target, existing_originals
from kafka_dr.actions.scope.internal_topics import checkpoints_with_origin, syncs_location, syncs_on_target
from kafka_dr.actions.scope.position_frames import TYPES
from kafka_dr.config.topology import Recorder
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.patterns import topic_filter_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import ArchiveUnavailable, BadInput, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION, Recorded, last_known, read_samples

NO_POSITION = "no position of any group is known: none is moved"
_CONNECT_SECONDS, _HEARTBEAT_SECONDS = 5.0, 5.0
#: Sampling intervals in which groups may not have been told: the source may die between its answers of one sample, and
#: one sample is slow.
_LOOKS = 3
#: A heartbeat is newer than the sample by up to this, and no sign that nobody looked.
_HEARTBEAT_LATE_SECONDS = 10.0


@dataclass(frozen=True)
class LastKnown:
    """What is known, as frames of `recorder.history.Recorded`, completed by what the target tells.

    Attributes:
        topics: source topic -> its name on the target, partitions, and its id as last seen (None where nobody recorded
            it).
        heartbeat_at: when the newest heartbeat that was mirrored had been written on the source, in milliseconds since
            1970; None without one.
        active: of the groups that move, those that had members when they were seen last.
        moving: of the groups that move, those that may have gone on since their positions were seen.
        missing: what could not be asked, each with why: it limits what can be said.
        gone: topics that the source had deleted when it was seen last: no part of what moves.
    """

    recorded: Recorded
    topics: dict[str, tuple[str, int, str | None]]
    syncs: pd.DataFrame
    positions: pd.DataFrame
    replicated: dict[TopicPartition, int]
    heartbeat_at: int | None
    active: frozenset[str]
    moving: frozenset[str]
    missing: tuple[str, ...]
    gone: tuple[str, ...] = ()


def what_is_known(procedure: Run) -> LastKnown:
    """Ask the archive, the target and Connect; whatever of them does not answer is named, and lacks."""
    (kept, replicated, stated, on_target), heartbeat_at, missing = asked_side_by_side(procedure)
    syncs = all_syncs(kept, on_target)
    topics = topics_of_flow(procedure, kept, {*replicated, *partitions_in(syncs), *partitions_in(stated)}, missing)
    positions = all_positions(kept, stated_since(procedure, kept, stated), {*topics, *copies_known(procedure, kept)})
    active = groups_last_seen_active(kept) & frozenset(positions["group"])
    if not len(syncs):
        missing.append("no offset sync is known: nothing states which record of the target is which of the source")
    if not len(positions):
        missing.append(NO_POSITION)
    return LastKnown(
        recorded=kept,
        topics=topics,
        syncs=syncs,
        positions=positions.assign(policy=positions["group"].map(procedure.topology.policy_of).astype(object)),
        replicated=replicated,
        heartbeat_at=heartbeat_at,
        active=active,
        moving=active | frozenset(positions["group"]) - groups_recently_sampled(procedure, kept, heartbeat_at),
        missing=(*missing, *(f"the recorder's last sample lacks {problem}" for problem in kept.problems)),
        gone=kept.gone,
    )


def copies_known(procedure: Run, kept: Recorded) -> dict[str, str]:
    """Map source topics with positions that are copies of topics of the target, to these topics."""
    copies = copies_of_target(procedure, kept.positions["topic"].unique())
    return existing_originals(copies, procedure.systems.target.topics(sorted(set(copies.values())))) if copies else {}


def asked_side_by_side(procedure: Run) -> tuple[list[Any], int | None, list[str]]:
    """Ask archive, Connect, checkpoints and offset syncs, then the newest heartbeat; list what did not answer.

    All at once: near a source that died more than one of them may be silent, and each would be waited for in turn.
    """
    calls = [(call, list[str]()) for call in (from_archive, from_connect, checkpoints_with_origin, from_target)]
    with run_concurrently() as start:
        heartbeat = start(newest_heartbeat, procedure)
        asked = [start(call, procedure, lacking) for call, lacking in calls]
    return [one.result() for one in asked], heartbeat.result(), [note for _, lacking in calls for note in lacking]


def from_archive(procedure: Run, missing: list[str]) -> Recorded:
    """What the flight recorder kept of the flow."""
    if procedure.topology.recorder is None:
        missing.append("there is no flight recorder: nobody wrote down where the source's logs ended")
        return read_samples([])
    try:
        kept = last_known(archive_of(procedure, procedure.topology.recorder))
    except ArchiveUnavailable as error:
        missing.append(f"the archive cannot be read: {error}")
        return read_samples([])
    if kept.source_at is None:
        missing.append("the archive holds no sample of the source")
    return kept


def archive_of(procedure: Run, kept: Recorder) -> Archive:
    """The archive of the procedure's flow; ArchiveUnavailable where there is no such file system."""
    options = procedure.systems.connections.archive_options(kept.connection) if kept.connection else {}
    return Archive(kept.archive, f"{procedure.flow.source}-to-{procedure.flow.target}", options)


def from_connect(procedure: Run, missing: list[str]) -> dict[TopicPartition, int]:
    """The last replicated offset that Connect keeps of each partition; nothing where its worker does not answer."""
    flow = procedure.flow
    try:
        kept = procedure.mirror_maker(flow).offsets(flow.connectors.source, _CONNECT_SECONDS).of(flow.source)
    except (SystemUnavailable, BadInput) as error:
        missing.append(f"Connect does not tell what it replicated: {error}")
        return {}
    return {tp: offset for tp, offset in kept.items() if offset is not None}


def from_target(procedure: Run, missing: list[str]) -> pd.DataFrame:
    """The offset syncs that the target holds; none where nobody says that those there are this flow's."""
    if syncs_location(procedure) is None:
        missing.append(
            "nobody says where MirrorMaker 2 keeps its offset syncs: its worker is silent, and the topology does not"
            " state it"
        )
    return syncs_on_target(procedure, missing)


def newest_heartbeat(procedure: Run) -> int | None:
    """When the newest heartbeat on the target was written on the source (ms since 1970); None if unreadable."""
    try:
        return max(newest_heartbeats(procedure, _HEARTBEAT_SECONDS), default=None)
    except SwitchbackError:
        return None


def groups_last_seen_active(kept: Recorded) -> frozenset[str]:
    """Groups that had members when they were seen last."""
    return frozenset(kept.groups.loc[kept.groups["members"].fillna(0) > 0, "group"])


def groups_recently_sampled(procedure: Run, kept: Recorded, heartbeat_at: int | None) -> frozenset[str]:
    """Groups seen just before the source's last sign of life; one without members then is taken to have none since."""
    if procedure.topology.recorder is None or kept.groups_at is None or kept.source_at is None:
        return frozenset()
    # A heartbeat shows that the source lived on while nobody recorded it.
    late = max(kept.source_at, heartbeat_at or 0) - kept.groups_at > 1000 * (
        _LOOKS * procedure.topology.recorder.interval_seconds + _HEARTBEAT_LATE_SECONDS
    )
    return frozenset() if late else frozenset(kept.groups["group"])


def with_movement(known: LastKnown) -> pd.DataFrame:
    """Add whether a group may have moved on since it was seen; the time of a checkpointed position is unknown."""
    rows = known.positions
    return rows.assign(may_have_moved=(rows["group"].isin(known.moving) | (rows["position_at"] == 0)).astype(bool))


def partitions_in(frame: pd.DataFrame) -> set[TopicPartition]:
    """The partitions that rows speak of."""
    return {TopicPartition(topic, int(p)) for topic, p in frame[PARTITION].drop_duplicates().itertuples(index=False)}


def all_syncs(kept: Recorded, on_target: pd.DataFrame) -> pd.DataFrame:
    """Archived offset syncs and those written on the target since; without an archive all its topic still holds."""
    newest = kept.syncs["sequence"].max() if len(kept.syncs) else -1
    both = pd.concat([kept.syncs, on_target[on_target["sequence"] > newest]], ignore_index=True)
    return both.astype(
        {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
    )


def stated_since(procedure: Run, kept: Recorded, stated: pd.DataFrame) -> pd.DataFrame:
    """Checkpointed positions that may be newer than the recorder's: if it listed all groups, those written since.

    An older checkpoint may be of a group that is gone, or of an earlier life of one: its topic never forgets.
    """
    return stated if kept.groups_at is None else checkpoints_with_origin(procedure, None, kept.read_to)


def all_positions(kept: Recorded, stated: pd.DataFrame, topics: Iterable[str]) -> pd.DataFrame:
    """Positions on these topics as recorded last; for those never recorded, as the checkpoints state them."""
    both = pd.concat([kept.positions, stated.assign(position_at=0)], ignore_index=True).drop_duplicates(
        ["group", *PARTITION], keep="first"
    )
    types = {**TYPES, "position_at": "int64"}
    return both[both["topic"].isin(set(topics))].astype(types).sort_values(["group", *PARTITION], ignore_index=True)


def selected_topics(procedure: Run, there: Mapping[str, TopicInfo]) -> set[str]:
    """Topics with the same name on both sides that the source connector selects; empty without a known filter."""
    flow, naming = procedure.flow, procedure.naming
    try:
        worker = procedure.mirror_maker(flow)
        settings = worker.config(flow.connectors.source, timeout=_CONNECT_SECONDS)
        version = worker.worker(timeout=_CONNECT_SECONDS).version
    except (SystemUnavailable, BadInput):
        settings, version = dict(flow.mirror_maker), ""
    selects = topic_filter_of(settings, naming, flow.target, version) if settings else None
    return {name for name in there if selects and naming.remote(flow.source, name) == name and selects(name)}


def topics_of_flow(
    procedure: Run, kept: Recorded, spoken: Iterable[TopicPartition], missing: list[str]
) -> dict[str, tuple[str, int, str | None]]:
    """The flow's topics: recorded ones, and target topics that MirrorMaker 2 mentions or whose names are copies'.

    Where nobody recorded the source and names say nothing, all that the flow's filter selects: an empty copy is spoken
    of by nobody, and its producers go on, too.

    Not those that the source had deleted: MirrorMaker 2 goes on speaking of them, and the target keeps its copies.

    Args:
        spoken: partitions of the source that MirrorMaker 2 speaks of.
    """
    naming, source, there = procedure.naming, procedure.flow.source, procedure.systems.target.topics()
    ids = dict(zip(kept.partitions["topic"], kept.partitions["topic_id"], strict=True))
    known: dict[str, int] = {}
    for topic, partition in (*partitions_in(kept.partitions), *spoken):
        known[topic] = max(known.get(topic, 0), partition + 1)
    named = {
        upstream
        for topic in there
        if naming.source_alias(topic) == source and not naming.is_internal(topic)
        if (upstream := naming.upstream(topic)) is not None
    }
    alone = selected_topics(procedure, there) - {*known, *named} if kept.source_at is None else set()
    if alone:
        missing.append(
            f"{len(alone)} topics are taken for mirrored ones by the flow's filter alone: {first_few(sorted(alone))}"
        )
    named |= alone
    remote = {
        topic: naming.remote(source, topic)
        for topic in sorted({*known, *named} - {*kept.gone})
        if not naming.is_heartbeats(topic)
    }
    copied = {topic: len(there[name].partitions) for topic, name in remote.items() if name in there}
    return {
        topic: (name, known[topic] if topic in ids else max(known.get(topic, 0), copied[topic]), ids.get(topic))
        for topic, name in remote.items()
        if topic in ids or topic in copied
    }
