"""Read the last known state of a flow without its source: from the archive, MirrorMaker 2's topics and Connect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kafka_dr.actions.loss.proven_samples import from_samples
from kafka_dr.actions.old_source.source_views import newest_heartbeats
from kafka_dr.actions.scope.flow_scope import copies_of_target, existing_originals
from kafka_dr.actions.scope.internal_topics import checkpoints_with_origin, syncs_location, syncs_on_target
from kafka_dr.actions.scope.position_frames import TYPES
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import ArchiveUnavailable, BadInput, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION, Recorded, read_samples

NO_POSITION = "neither the recorder nor a checkpoint states a position of any group: no group is moved"
_CONNECT_SECONDS, _HEARTBEAT_SECONDS = 5.0, 5.0
#: Number of sampling intervals by which groups' samples may be older than the source's last answer, because the source
#: may stop answering within a sample, and a sample may be slow.
_LATE_INTERVALS = 3
#: Seconds by which a heartbeat may be newer than the last sample although the flight recorder missed no sample.
_HEARTBEAT_LATE_SECONDS = 10.0


@dataclass(frozen=True)
class LastKnown:
    """Last known state of a flow: what the flight recorder sampled, and what Connect and the target state now.

    Attributes:
        recorded: the archive's samples.
        topics: source topic -> target topic, partition count, last recorded topic id (None if not recorded).
        syncs: offset syncs, from the archive and from the target.
        positions: groups' positions on the source, recorded or from checkpoints (`position_at` is 0 for the latter).
        replicated: source partition -> last replicated offset that Connect stores.
        heartbeat_at: source timestamp of the newest mirrored heartbeat in milliseconds since 1970; None without a
            heartbeat.
        active: groups in `positions` that had members in the last sample of groups.
        moving: groups that may have committed after their positions were sampled.
        missing: systems and facts that were not available, each with the reason.
        gone: topics that were deleted on the source before the source's last sample; these topics are not moved.
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


def read_last_known_state(procedure: Run) -> LastKnown:
    """Return the last known state from archive, target and Connect; `missing` has a note for each without an answer."""
    (recorded, replicated, checkpoints, on_target), heartbeat_at, missing = query_concurrently(procedure)
    syncs = all_syncs(recorded, on_target)
    topics = topics_of_flow(
        procedure, recorded, {*replicated, *partitions_in(syncs), *partitions_in(checkpoints)}, missing
    )
    positions = all_positions(
        recorded,
        newer_checkpoints(procedure, recorded, checkpoints),
        {*topics, *copies_with_positions(procedure, recorded)},
    )
    active = groups_last_seen_active(recorded) & frozenset(positions["group"])
    if not len(syncs):
        missing.append("no offset sync could be read: nothing states which target offset holds which source record")
    if not len(positions):
        missing.append(NO_POSITION)
    return LastKnown(
        recorded=recorded,
        topics=topics,
        syncs=syncs,
        positions=positions.assign(policy=positions["group"].map(procedure.topology.policy_of).astype(object)),
        replicated=replicated,
        heartbeat_at=heartbeat_at,
        active=active,
        moving=active | frozenset(positions["group"]) - groups_recently_sampled(procedure, recorded, heartbeat_at),
        missing=(*missing, *(f"the recorder's last sample lacks {problem}" for problem in recorded.problems)),
        gone=recorded.gone,
    )


def copies_with_positions(procedure: Run, recorded: Recorded) -> dict[str, str]:
    """Return prefixed copy on the source -> the target topic that it copies.

    Only copies are returned on which groups have recorded positions, and only if the target topic exists.
    """
    copies = copies_of_target(procedure, recorded.positions["topic"].unique())
    return existing_originals(copies, procedure.systems.target.topics(sorted(set(copies.values())))) if copies else {}


def query_concurrently(procedure: Run) -> tuple[list[Any], int | None, list[str]]:
    """Ask archive, Connect and target concurrently, because timeouts one after the other would add up.

    Returns:
        [samples, replicated offsets, checkpoints, offset syncs]; time of the newest heartbeat, in milliseconds since
        1970; one note for each source of data that was not available.
    """
    calls = [(call, list[str]()) for call in (from_archive, from_connect, checkpoints_with_origin, from_target)]
    with run_concurrently() as start:
        heartbeat = start(newest_heartbeat, procedure)
        answers = [start(call, procedure, lacking) for call, lacking in calls]
    return (
        [answer.result() for answer in answers],
        heartbeat.result(),
        [note for _, lacking in calls for note in lacking],
    )


def from_archive(procedure: Run, missing: list[str]) -> Recorded:
    """Return the archive's samples of the flow; no samples without an archive, or if it cannot be read.

    Args:
        missing: list to which the reason is added if samples of the source are missing.
    """
    if procedure.topology.recorder is None:
        missing.append("there is no flight recorder: the log ends of the source are not recorded")
        return read_samples([])
    try:
        recorded = from_samples(procedure, procedure.topology.recorder, missing)
    except ArchiveUnavailable as error:
        missing.append(f"the archive cannot be read: {error}")
        return read_samples([])
    if recorded.source_at is None:
        missing.append("the archive holds no sample of the source")
    return recorded


def from_connect(procedure: Run, missing: list[str]) -> dict[TopicPartition, int]:
    """Return source partition -> last replicated offset that Connect stores; {} if Connect does not answer.

    Args:
        missing: list to which the reason is added if Connect does not answer.
    """
    flow = procedure.flow
    try:
        offsets = procedure.mirror_maker(flow).offsets(_CONNECT_SECONDS).of(flow.source)
    except (SystemUnavailable, BadInput) as error:
        missing.append(f"Connect does not state up to which offsets it replicated: {error}")
        return {}
    return {tp: offset for tp, offset in offsets.items() if offset is not None}


def from_target(procedure: Run, missing: list[str]) -> pd.DataFrame:
    """Return the flow's offset syncs if MirrorMaker 2 stores them on the target; else no rows.

    Args:
        missing: list to which a note is added if the cluster that stores the flow's offset syncs is unknown, or if
            records cannot be decoded.
    """
    if syncs_location(procedure) is None:
        missing.append(
            "the cluster that holds MirrorMaker 2's offset syncs is unknown: the Connect worker does not answer, and"
            " the topology does not state offset-syncs.topic.location"
        )
    return syncs_on_target(procedure, missing)


def newest_heartbeat(procedure: Run) -> int | None:
    """Return the source timestamp of the target's newest heartbeat (ms since 1970); None if it cannot be read."""
    try:
        return max(newest_heartbeats(procedure, _HEARTBEAT_SECONDS), default=None)
    except SwitchbackError:
        return None


def groups_last_seen_active(recorded: Recorded) -> frozenset[str]:
    """Return the groups that had members in the flight recorder's last sample of groups."""
    return frozenset(recorded.groups.loc[recorded.groups["members"].fillna(0) > 0, "group"])


def groups_recently_sampled(procedure: Run, recorded: Recorded, heartbeat_at: int | None) -> frozenset[str]:
    """Return the sampled groups if they were sampled shortly before the source's last answer; else an empty set.

    Shortly means a few of the flight recorder's sampling intervals. A group without members in that sample then counts
    as without members until the source stopped answering.

    Args:
        heartbeat_at: source timestamp of the newest mirrored heartbeat, in milliseconds since 1970.
    """
    if procedure.topology.recorder is None or recorded.groups_at is None or recorded.source_at is None:
        return frozenset()
    # A newer heartbeat shows that the source still ran after the last sample.
    is_outdated = max(recorded.source_at, heartbeat_at or 0) - recorded.groups_at > 1000 * (
        _LATE_INTERVALS * procedure.topology.recorder.interval_seconds + _HEARTBEAT_LATE_SECONDS
    )
    return frozenset() if is_outdated else frozenset(recorded.groups["group"])


def with_movement(last_known: LastKnown) -> pd.DataFrame:
    """Return the positions with a column `may_have_moved`: the group may have committed a later position.

    The column is always true for positions from checkpoints.
    """
    rows = last_known.positions
    return rows.assign(may_have_moved=(rows["group"].isin(last_known.moving) | (rows["position_at"] == 0)).astype(bool))


def partitions_in(frame: pd.DataFrame) -> set[TopicPartition]:
    """Return all partitions in the columns topic and partition."""
    return {TopicPartition(topic, int(p)) for topic, p in frame[PARTITION].drop_duplicates().itertuples(index=False)}


def all_syncs(recorded: Recorded, on_target: pd.DataFrame) -> pd.DataFrame:
    """Return the archive's offset syncs, then the target's newer offset syncs; without an archive all the target's."""
    newest = recorded.syncs["sequence"].max() if len(recorded.syncs) else -1
    both = pd.concat([recorded.syncs, on_target[on_target["sequence"] > newest]], ignore_index=True)
    return both.astype(
        {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
    )


def newer_checkpoints(procedure: Run, recorded: Recorded, checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Return checkpoints written after the flight recorder last listed groups; all if it never listed any.

    An older checkpoint is left out, because its group may have been deleted, or deleted and created again: the
    compacted checkpoints topic still has the deleted group's last checkpoint.
    """
    return checkpoints if recorded.groups_at is None else checkpoints_with_origin(procedure, None, recorded.read_to)


def all_positions(recorded: Recorded, checkpoints: pd.DataFrame, topics: Iterable[str]) -> pd.DataFrame:
    """Return positions on these source topics: the last recorded position; if there is none, the checkpoint's.

    Columns: group, topic, partition, position, position_at (milliseconds since 1970; 0 for a checkpoint's position).
    """
    both = pd.concat([recorded.positions, checkpoints.assign(position_at=0)], ignore_index=True).drop_duplicates(
        ["group", *PARTITION], keep="first"
    )
    types = {**TYPES, "position_at": "int64"}
    return both[both["topic"].isin(set(topics))].astype(types).sort_values(["group", *PARTITION], ignore_index=True)


def selected_topics(procedure: Run, target_topics: Mapping[str, TopicInfo]) -> set[str]:
    """Return target topics whose names the source connector's topic filter selects, under identity naming.

    Empty if the topic filter is unknown.
    """
    flow, naming = procedure.flow, procedure.naming
    try:
        mirrors = procedure.mirror_maker(flow).topic_filter(timeout=_CONNECT_SECONDS)
    except (SystemUnavailable, BadInput):
        mirrors = FlowFilter({"": flow.mirror_maker}, naming, flow.target)
    same_name = [name for name in target_topics if naming.remote(flow.source, name) == name]
    return {name for name in same_name if any(mirrors.configs.values()) and mirrors.selects(name)}


def topics_of_flow(
    procedure: Run, recorded: Recorded, spoken: Iterable[TopicPartition], missing: list[str]
) -> dict[str, tuple[str, int, str | None]]:
    """Return source topic -> target topic, partition count, last recorded topic id or None, for the flow's topics.

    Topics that were deleted on the source are left out.

    The topics are all recorded topics, and target topics that are copies by their prefix or by MirrorMaker 2's offsets.
    If the source was never recorded, the topics are also all target topics that the flow's topic filter selects,
    because an empty copy has no offsets, but its producers move, too.

    Args:
        spoken: source partitions in Connect's offsets, offset syncs and checkpoints.
        missing: list to which a note is added if topics were selected by the filter alone.
    """
    naming, source, target_topics = procedure.naming, procedure.flow.source, procedure.systems.target.topics()
    ids = dict(zip(recorded.partitions["topic"], recorded.partitions["topic_id"], strict=True))
    counts: dict[str, int] = {}
    for topic, partition in (*partitions_in(recorded.partitions), *spoken):
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    named = {
        upstream
        for topic in target_topics
        if naming.source_alias(topic) == source and not naming.is_internal(topic)
        if (upstream := naming.upstream(topic)) is not None
    }
    chosen = selected_topics(procedure, target_topics) - {*counts, *named} if recorded.source_at is None else set()
    if chosen:
        missing.append(
            f"{len(chosen)} topics count as mirrored only because the flow's filter selects them:"
            f" {first_few(sorted(chosen))}"
        )
    named |= chosen
    remote = {
        topic: naming.remote(source, topic)
        for topic in sorted({*counts, *named} - {*recorded.gone})
        if not naming.is_heartbeats(topic)
    }
    copied = {topic: len(target_topics[name].partitions) for topic, name in remote.items() if name in target_topics}
    return {
        topic: (name, counts[topic] if topic in ids else max(counts.get(topic, 0), copied[topic]), ids.get(topic))
        for topic, name in remote.items()
        if topic in ids or topic in copied
    }
