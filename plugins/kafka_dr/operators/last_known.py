"""What is known of a flow whose source cannot be asked: by the flight recorder's archive, by MirrorMaker 2's topics on the target, and by Connect."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.errors import ArchiveUnavailable, BadInput, SystemUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.operators.internal_topics import checkpoints_with_origin, syncs_on_target
from kafka_dr.operators.procedure import Procedure
from kafka_dr.recorder.history import PARTITION, Recorded, last_known, recorded

_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class LastKnown:
    """What is known, as frames of `recorder.history.Recorded`, completed by what the target tells.

    Attributes:
        topics: source topic -> its name on the target, partitions, and its id as last seen (None where nobody recorded it).
        active: groups that had members when they were seen last.
        missing: what could not be asked, each with why: it limits what can be said.
    """

    recorded: Recorded
    topics: dict[str, tuple[str, int, str | None]]
    syncs: pd.DataFrame
    positions: pd.DataFrame
    replicated: dict[TopicPartition, int]
    active: frozenset[str]
    missing: tuple[str, ...]


def what_is_known(procedure: Procedure) -> LastKnown:
    """Ask the archive, the target and Connect; whatever of them does not answer is named, and lacks."""
    missing: list[str] = []
    kept = from_archive(procedure, missing)
    syncs = all_syncs(kept, syncs_on_target(procedure))
    positions = all_positions(procedure, kept)
    members = kept.groups[kept.groups["members"].fillna(0) > 0]
    return LastKnown(
        recorded=kept,
        topics=topics_of_flow(procedure, kept, syncs, positions),
        syncs=syncs,
        positions=positions.assign(policy=positions["group"].map(procedure.topology.policy_of).astype(object)),
        replicated=from_connect(procedure, missing),
        active=frozenset(members["group"]),
        missing=(*missing, *(f"the recorder's last sample lacks {problem}" for problem in kept.problems)),
    )


def from_archive(procedure: Procedure, missing: list[str]) -> Recorded:
    """What the flight recorder kept of the flow."""
    archive = archive_of(procedure)
    if archive is None:
        missing.append("there is no flight recorder: nobody wrote down where the source's logs ended")
        return recorded([])
    try:
        kept = last_known(archive)
    except ArchiveUnavailable as error:
        missing.append(f"the archive cannot be read: {error}")
        return recorded([])
    if kept.source_at is None:
        missing.append("the archive holds no sample of the source")
    return kept


def archive_of(procedure: Procedure) -> Archive | None:
    """The archive of the procedure's flow; None where nothing is recorded."""
    kept = procedure.topology.recorder
    if kept is None:
        return None
    options = procedure.connections.archive_options(kept.connection) if kept.connection else {}
    return Archive(kept.archive, f"{procedure.flow.source}-to-{procedure.flow.target}", options)


def from_connect(procedure: Procedure, missing: list[str]) -> dict[TopicPartition, int]:
    """The last replicated offset that Connect keeps of each partition; nothing where its worker does not answer."""
    flow = procedure.flow
    try:
        kept = procedure.mirror_maker(flow).offsets(flow.connectors.source, _CONNECT_SECONDS).of(flow.source)
    except (SystemUnavailable, BadInput) as error:
        missing.append(f"Connect does not tell what it replicated: {error}")
        return {}
    return {tp: offset for tp, offset in kept.items() if offset is not None}


def all_syncs(kept: Recorded, on_target: pd.DataFrame) -> pd.DataFrame:
    """Archived offset syncs, and those that were written since on the target; without an archive all that its topic still holds."""
    newest = kept.syncs["sequence"].max() if len(kept.syncs) else -1
    both = pd.concat([kept.syncs, on_target[on_target["sequence"] > newest]], ignore_index=True)
    return both.astype({"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"})


def all_positions(procedure: Procedure, kept: Recorded) -> pd.DataFrame:
    """Positions as the recorder saw them last; of groups and partitions that it never saw, as MirrorMaker 2's checkpoints state them."""
    stated = checkpoints_with_origin(procedure).assign(position_at=0)
    both = pd.concat([kept.positions, stated], ignore_index=True).drop_duplicates(["group", *PARTITION], keep="first")
    types = {"group": object, "topic": object, "partition": "int32", "position": "int64", "position_at": "int64"}
    return both.astype(types).sort_values(["group", *PARTITION], ignore_index=True)


def topics_of_flow(procedure: Procedure, kept: Recorded, syncs: pd.DataFrame, positions: pd.DataFrame) -> dict[str, tuple[str, int, str | None]]:
    """The flow's topics: those recorded; without a record those that MirrorMaker 2 or a group speaks of and the target has."""
    if len(kept.partitions):
        by_topic = kept.partitions.groupby("topic")
        return {topic: (rows["target_topic"].iloc[0], int(rows["partition"].max()) + 1, rows["topic_id"].iloc[-1]) for topic, rows in by_topic}
    naming, there = procedure.naming, procedure.target.topics()
    named = {up for topic in there if (up := naming.upstream(topic)) is not None and naming.source_alias(topic) == procedure.flow.source}
    spoken = {*named, *syncs["topic"], *positions["topic"]}
    remote = {topic: naming.remote(procedure.flow.source, topic) for topic in sorted(spoken) if not naming.is_heartbeats(topic)}
    return {topic: (name, len(there[name].partitions), None) for topic, name in remote.items() if name in there}
