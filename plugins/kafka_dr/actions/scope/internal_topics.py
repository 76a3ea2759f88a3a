"""Read MirrorMaker 2's internal topics from their beginning: offset syncs and checkpoints of a flow.

The active segment of such a topic is never compacted, and so may hold gigabytes. Offset syncs are therefore read and
passed on in portions, and of checkpoints only the newest of each group and partition is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from kafka_dr.actions.scope.position_frames import position_rows
from kafka_dr.config.settings import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import (
    CheckpointColumns,
    OffsetSync,
    decode_offset_syncs,
    in_portions,
    newest_checkpoints,
)
from kafka_dr.domain.recorder_rows import RowPlace
from kafka_dr.errors import BadInput, ConnectUnavailable, Contradiction
from kafka_dr.hooks.brokers.record import key_and_value, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.procedure.run import Run

_LOCATION, _CONFIG_SECONDS = "offset-syncs.topic.location", 5.0
#: If a larger share of an internal topic's records cannot be decoded, the step refuses to use the topic.
_FOREIGN = 0.001


def offset_syncs_of(procedure: Run) -> Iterator[pd.DataFrame]:
    """Yield all offset syncs of the flow in portions, one row each.

    Columns: topic (name on the source), partition, upstream (source offset), downstream (target offset), sequence (the
    row's place in the order in which the offset syncs were written). The first portion has no rows.
    """
    return _portions(procedure, *syncs_place(procedure, procedure.flow))


def last_offset_syncs(procedure: Run) -> dict[TopicPartition, OffsetSync]:
    """Return the last offset sync of each source partition that has one."""
    alias, topic = syncs_place(procedure, procedure.flow)
    last: dict[TopicPartition, OffsetSync] = {}
    for portion in in_portions(procedure.systems.reader(alias).read_all(topic, take=key_and_value)):
        decoded = decode_offset_syncs(*zip(*portion, strict=True))
        last |= {TopicPartition(sync.topic, sync.partition): sync for sync in decoded.records}
    return last


def syncs_place(procedure: Run, flow: Flow) -> tuple[str, str]:
    """Return cluster alias and topic of a flow's offset syncs, by the configuration of its source connectors.

    All source connectors of a flow write to the same topic.
    """
    return _syncs_topic(procedure, flow, procedure.mirror_maker(flow).source_config().get(_LOCATION, "source"))


def _syncs_topic(procedure: Run, flow: Flow, location: str) -> tuple[str, str]:
    naming, on_target = procedure.naming, location == "target"
    return (
        (flow.target, naming.offset_syncs_topic(flow.source))
        if on_target
        else (flow.source, naming.offset_syncs_topic(flow.target))
    )


def syncs_on_target(procedure: Run, missing: list[str]) -> pd.DataFrame:
    """Return the flow's offset syncs, one row each, if MirrorMaker 2 stores them on the target; else no rows.

    Columns: topic (of the source), partition, upstream (source offset), downstream (target offset), sequence (order of
    writing). If MirrorMaker 2 stores the flow's offset syncs on the source, a target topic of the same name is not
    read, because that topic has the offset syncs of the opposite flow.

    Args:
        missing: list to which a line with the number of undecodable records is added, if any record is undecodable.

    Raises:
        Contradiction: too many records cannot be decoded.
    """
    flow = procedure.flow
    topic = procedure.naming.offset_syncs_topic(flow.source)
    stored_on_target = syncs_location(procedure) == "target" and topic in procedure.systems.target.topics([topic])
    portions = _portions(procedure, flow.target, topic, missing) if stored_on_target else [_syncs_frame([], [])]
    return pd.concat(list(portions), ignore_index=True)


def syncs_of_the_other_flow(procedure: Run) -> Iterator[pd.DataFrame]:
    """Yield the offset syncs of the flow target -> source in portions, one row each; at least one portion.

    Columns: topic (of the target), partition, upstream (target offset), downstream (source offset), sequence.
    No rows if the pair has no such flow, if the cluster of its offset syncs is unknown or is a source that is declared
    lost, if the topic does not exist, or if the flow source -> target stores its own offset syncs in the same topic.
    """
    place = _place_of_the_other_flow(procedure)
    return iter([_syncs_frame([], [])]) if place is None else _portions(procedure, *place)


def _place_of_the_other_flow(procedure: Run) -> tuple[str, str] | None:
    """Return cluster alias and topic of the other flow's offset syncs; None if there is none that can be read."""
    reverse = procedure.reverse_flow
    if reverse is None:
        return None
    other_location, own_location = syncs_location(procedure.reversed), syncs_location(procedure)
    if other_location is None or own_location is None:
        return None
    place, own = _syncs_topic(procedure, reverse, other_location), _syncs_topic(procedure, procedure.flow, own_location)
    on_source = place[0] == procedure.request.source
    if place == own or (on_source and procedure.progress.without_source):
        return None
    exists = place[1] in (procedure.systems.source if on_source else procedure.systems.target).topics([place[1]])
    return place if exists else None


def syncs_location(procedure: Run) -> str | None:
    """Return the cluster on which the flow stores offset syncs, "source" or "target"; None if it is unknown.

    The answer comes from the flow's Connect worker; if the worker does not answer, from the topology file.
    """
    flow = procedure.flow
    try:
        return procedure.mirror_maker(flow).source_config(timeout=_CONFIG_SECONDS).get(_LOCATION, "source")
    except (BadInput, ConnectUnavailable):
        return flow.mirror_maker.get(_LOCATION)


def _portions(procedure: Run, alias: str, topic: str, missing: list[str] | None = None) -> Iterator[pd.DataFrame]:
    """Yield a topic's offset syncs in portions: first one without rows, which has the columns' types."""
    yield _syncs_frame([], [])
    malformed = read = 0
    for records in in_portions(procedure.systems.reader(alias).read_all(topic, take=record_of)):
        decoded = decode_offset_syncs([r.key for r in records], [r.value for r in records])
        unreadable = {index for index, _ in decoded.malformed}
        sequence = [r.offset for index, r in enumerate(records) if index not in unreadable]
        malformed, read = malformed + len(unreadable), read + len(records)
        yield _syncs_frame(decoded.records, sequence)
    if missing is not None:
        tell_foreign(alias, topic, malformed, read, missing)


def tell_foreign(alias: str, topic: str, foreign: int, read: int, missing: list[str]) -> None:
    """Add a line about an internal topic's unreadable records to `missing`, if there are any.

    Args:
        alias: the cluster of the topic.
        foreign: number of unreadable records.
        read: number of all records.

    Raises:
        Contradiction: too many records are unreadable.
    """
    if foreign > _FOREIGN * read:
        raise Contradiction(
            f"{topic} holds too many records that MirrorMaker 2 did not write",
            f"on {alias}, {foreign} of {read} records cannot be decoded; at most {_FOREIGN:.1%} are accepted",
            f"Find out which client writes to {topic} on {alias}, and stop that client. Delete the records of that"
            f" client from {topic}; then start a new run.",
        )
    if foreign:
        missing.append(
            f"{foreign} of {read} records of {topic} cannot be decoded as records of MirrorMaker 2, and are left out"
        )


def _syncs_frame(syncs: list[OffsetSync], sequence: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame(syncs, columns=["topic", "partition", "upstream", "downstream"])
    return frame.assign(sequence=sequence).astype(
        {"partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
    )


def checkpoints_of(procedure: Run) -> pd.DataFrame:
    """Return the newest checkpoint per group and target partition.

    Columns: group, topic (of the target), partition, mirror_maker_position (the target offset).
    """
    return checkpoints_frame(_newest_checkpoints(procedure, None, {}))


def checkpoints_with_origin(
    procedure: Run, missing: list[str] | None, read_to: Mapping[RowPlace, int] | None = None
) -> pd.DataFrame:
    """Return the source positions in the newest checkpoints: group, topic (of the source), partition, position.

    Args:
        missing: list to which a line with the number of undecodable records is added, if any record is undecodable.
            None: undecodable records are ignored.
        read_to: partition of the checkpoints topic -> first offset to read, because the flight recorder has read all
            records below this offset. None: read all records.

    Raises:
        Contradiction: too many records cannot be decoded; not raised if `missing` is None.
    """
    checkpoints = _newest_checkpoints(procedure, missing, read_to or {})
    frame = position_rows((checkpoints.group, checkpoints.topic, checkpoints.partition, checkpoints.upstream))
    origin = {
        topic: upstream for topic in set(checkpoints.topic) if (upstream := origin_of(procedure, topic)) is not None
    }
    return (
        frame[frame["topic"].isin(origin)]
        .assign(topic=lambda rows: rows["topic"].map(origin).astype(object))
        .reset_index(drop=True)
    )


def origin_of(procedure: Run, topic: str) -> str | None:
    """Return the name on the source of a target topic; None if the flow does not write to the target topic."""
    naming, source = procedure.naming, procedure.flow.source
    upstream = naming.upstream(topic)
    return upstream if upstream is not None and naming.remote(source, upstream) == topic else None


def _newest_checkpoints(
    procedure: Run, missing: list[str] | None, read_to: Mapping[RowPlace, int]
) -> CheckpointColumns:
    """Return the newest checkpoint per group and target partition; none if the checkpoints topic does not exist."""
    topic = procedure.naming.checkpoints_topic(procedure.flow.source)
    info = procedure.systems.target.topics([topic]).get(topic)
    if info is None:
        return newest_checkpoints([])
    begin = {TopicPartition(topic, p): read_to.get(RowPlace(info.topic_id, topic, p), 0) for p in info.partitions}
    checkpoints = newest_checkpoints(_Statements(procedure.systems.reader(procedure.flow.target), topic, begin))
    if missing is not None:
        tell_foreign(procedure.flow.target, topic, checkpoints.malformed, checkpoints.read, missing)
    return checkpoints


@dataclass(frozen=True)
class _Statements:
    """Keys and values of an internal topic's records; each iteration reads the topic."""

    reader: RecordReader
    topic: str
    begin: Mapping[TopicPartition, int]

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        return self.reader.read_all(self.topic, take=key_and_value, begin=self.begin)


def checkpoints_frame(checkpoints: CheckpointColumns) -> pd.DataFrame:
    """Return checkpoints as a frame: group, topic (of the target), partition, mirror_maker_position."""
    frame = position_rows((checkpoints.group, checkpoints.topic, checkpoints.partition, checkpoints.downstream))
    return frame.rename(columns={"position": "mirror_maker_position"}).astype({"mirror_maker_position": "Int64"})
