"""MirrorMaker 2's internal topics, read whole: offset syncs and checkpoints of a flow."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kafka_dr.actions.scope.position_frames import position_rows
from kafka_dr.config.settings import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import (
    CheckpointColumns,
    OffsetSync,
    decode_offset_syncs,
    newest_checkpoints,
)
from kafka_dr.domain.recorder_rows import RowPlace
from kafka_dr.errors import BadInput, ConnectUnavailable, Contradiction
from kafka_dr.hooks.brokers.record import key_and_value, record_of
from kafka_dr.procedure.run import Run

_LOCATION, _CONFIG_SECONDS = "offset-syncs.topic.location", 5.0
#: The share of a topic's records that may be foreign. Above it nobody can tell what else in the topic is wrong.
_FOREIGN = 0.001


def offset_syncs_of(procedure: Run) -> pd.DataFrame:
    """Every offset sync that survives, in the order written: topic, partition, upstream, downstream, sequence."""
    return _syncs_in(procedure, *syncs_place(procedure, procedure.flow))


def syncs_place(procedure: Run, flow: Flow) -> tuple[str, str]:
    """Where a flow keeps its offset syncs, by its worker's configuration: the cluster's alias, and the topic there."""
    return _kept_at(
        procedure, flow, procedure.mirror_maker(flow).config(flow.connectors.source).get(_LOCATION, "source")
    )


def _kept_at(procedure: Run, flow: Flow, location: str) -> tuple[str, str]:
    naming, on_target = procedure.naming, location == "target"
    return (
        (flow.target, naming.offset_syncs_topic(flow.source))
        if on_target
        else (flow.source, naming.offset_syncs_topic(flow.target))
    )


def syncs_on_target(procedure: Run, missing: list[str]) -> pd.DataFrame:
    """Offset syncs left on the target, as of `offset_syncs_of`; empty if MirrorMaker 2 keeps them on the source.

    A topic of this name may be there all the same: the flow the other way keeps its own under it, on its source.

    Args:
        missing: is told how many records could not be read.

    Raises:
        Contradiction: they are too many.
    """
    flow = procedure.flow
    topic = procedure.naming.offset_syncs_topic(flow.source)
    kept_there = syncs_location(procedure) == "target" and topic in procedure.systems.target.topics([topic])
    return _syncs_in(procedure, flow.target, topic, missing) if kept_there else _syncs_frame([], [])


def syncs_of_the_other_flow(procedure: Run) -> pd.DataFrame:
    """Surviving offset syncs of the flow target->source, as of `offset_syncs_of`; upstream is the target's offset.

    None where there is no such flow, nobody says where it keeps them, only the lost source has them, or this flow keeps
    its own in the same topic.
    """
    other, nothing = procedure.reverse_flow, _syncs_frame([], [])
    if other is None:
        return nothing
    there, here = syncs_location(procedure.reversed), syncs_location(procedure)
    if there is None or here is None:
        return nothing
    place, own = _kept_at(procedure, other, there), _kept_at(procedure, procedure.flow, here)
    on_source = place[0] == procedure.request.source
    if place == own or (on_source and procedure.progress.without_source):
        return nothing
    if place[1] not in (procedure.systems.source if on_source else procedure.systems.target).topics([place[1]]):
        return nothing
    return _syncs_in(procedure, *place)


def syncs_location(procedure: Run) -> str | None:
    """Where the flow keeps offset syncs, by its worker's configuration, else as stated; None where neither says."""
    flow = procedure.flow
    try:
        return (
            procedure.mirror_maker(flow)
            .config(flow.connectors.source, timeout=_CONFIG_SECONDS)
            .get(_LOCATION, "source")
        )
    except (BadInput, ConnectUnavailable):
        return flow.mirror_maker.get(_LOCATION)


def _syncs_in(procedure: Run, alias: str, topic: str, missing: list[str] | None = None) -> pd.DataFrame:
    records = list(procedure.systems.reader(alias).read_all(topic, take=record_of))
    decoded = decode_offset_syncs([r.key for r in records], [r.value for r in records])
    if missing is not None:
        tell_foreign(topic, len(decoded.malformed), len(records), missing)
    unreadable = {index for index, _ in decoded.malformed}
    sequence = [r.offset for index, r in enumerate(records) if index not in unreadable]
    return _syncs_frame(decoded.records, sequence)


def tell_foreign(topic: str, foreign: int, read: int, missing: list[str]) -> None:
    """Tell how many of a topic's records are none of MirrorMaker 2's; as of `syncs_on_target`."""
    if foreign > _FOREIGN * read:
        raise Contradiction(
            f"{topic} holds too much that MirrorMaker 2 did not write",
            f"{foreign} of {read} records cannot be read, and {_FOREIGN:.1%} may be so",
            "Find out who else writes to it, have these records deleted, and start a new run; nothing was touched.",
        )
    if foreign:
        missing.append(
            f"{foreign} of {read} records of {topic} cannot be read as what MirrorMaker 2 writes: they are left out"
        )


def _syncs_frame(syncs: list[OffsetSync], sequence: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame(syncs, columns=["topic", "partition", "upstream", "downstream"])
    return frame.assign(sequence=sequence).astype(
        {"partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
    )


def checkpoints_of(procedure: Run) -> pd.DataFrame:
    """Newest checkpoint per group and target partition: group, topic, partition, mirror_maker_position."""
    return checkpoints_frame(_newest_checkpoints(procedure, None, {}))


def checkpoints_with_origin(
    procedure: Run, missing: list[str] | None, read_to: Mapping[RowPlace, int] | None = None
) -> pd.DataFrame:
    """Source positions stated by the newest checkpoints: group, topic (of the source), partition, position.

    Args, Raises: as of `syncs_on_target`; beside them:
        read_to: how far the recorder read them; where given, only what was written since counts.
    """
    found = _newest_checkpoints(procedure, missing, read_to or {})
    frame = position_rows((found.group, found.topic, found.partition, found.upstream))
    origin = {topic: upstream for topic in set(found.topic) if (upstream := origin_of(procedure, topic)) is not None}
    return (
        frame[frame["topic"].isin(origin)]
        .assign(topic=lambda rows: rows["topic"].map(origin).astype(object))
        .reset_index(drop=True)
    )


def origin_of(procedure: Run, topic: str) -> str | None:
    """A target topic's name on the source; None for topics of other origin, as the target's own (default names)."""
    naming, source = procedure.naming, procedure.flow.source
    upstream = naming.upstream(topic)
    return upstream if upstream is not None and naming.remote(source, upstream) == topic else None


def _newest_checkpoints(
    procedure: Run, missing: list[str] | None, read_to: Mapping[RowPlace, int]
) -> CheckpointColumns:
    """Of each group and partition; none where the topic is missing."""
    topic = procedure.naming.checkpoints_topic(procedure.flow.source)
    there = procedure.systems.target.topics([topic]).get(topic)
    if there is None:
        return newest_checkpoints([])
    begin = {TopicPartition(topic, p): read_to.get(RowPlace(there.topic_id, topic, p), 0) for p in there.partitions}
    records = list(procedure.systems.reader(procedure.flow.target).read_all(topic, take=key_and_value, begin=begin))
    found = newest_checkpoints(records)
    if missing is not None:
        tell_foreign(topic, found.malformed, len(records), missing)
    return found


def checkpoints_frame(found: CheckpointColumns) -> pd.DataFrame:
    """Checkpoints as a frame."""
    frame = position_rows((found.group, found.topic, found.partition, found.downstream))
    return frame.rename(columns={"position": "mirror_maker_position"}).astype({"mirror_maker_position": "Int64"})
