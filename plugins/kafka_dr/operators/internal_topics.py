"""MirrorMaker 2's internal topics, read whole: offset syncs and checkpoints of a flow."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kafka_dr.domain.mirror_records import CheckpointColumns, decode_offset_syncs, newest_checkpoints
from kafka_dr.hooks.kafka_records import key_and_value
from kafka_dr.operators.procedure import Procedure


def offset_syncs_of(procedure: Procedure) -> pd.DataFrame:
    """Every offset sync that survives, in the order written: topic, partition, upstream, downstream, sequence."""
    flow, naming = procedure.flow, procedure.naming
    config = procedure.mirror_maker(flow).config(flow.connectors.source)
    on_target = config.get("offset-syncs.topic.location", "source") == "target"
    alias, topic = (flow.target, naming.offset_syncs_topic(flow.source)) if on_target else (flow.source, naming.offset_syncs_topic(flow.target))
    records = list(procedure.reader(alias).read_all(topic))
    decoded = decode_offset_syncs([r.key for r in records], [r.value for r in records])
    unreadable = {index for index, _ in decoded.malformed}
    sequence = [r.offset for index, r in enumerate(records) if index not in unreadable]
    frame = pd.DataFrame(decoded.records, columns=["topic", "partition", "upstream", "downstream"])
    return frame.assign(sequence=sequence).astype({"partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"})


def checkpoints_of(procedure: Procedure) -> pd.DataFrame:
    """MirrorMaker 2's newest checkpoint of each group and partition of the target: group, topic, partition, mirror_maker_position."""
    topic = procedure.naming.checkpoints_topic(procedure.flow.source)
    return checkpoints_frame(newest_checkpoints(list(procedure.reader(procedure.flow.target).read_all(topic, take=key_and_value))))


def checkpoints_frame(found: CheckpointColumns) -> pd.DataFrame:
    """Checkpoints as a frame."""
    types = {"group": object, "topic": object, "partition": "int32", "mirror_maker_position": "int64"}
    columns = (found.group, found.topic, found.partition, found.downstream)
    frame = pd.DataFrame({name: np.array(column, dtype) for (name, dtype), column in zip(types.items(), columns, strict=True)})
    return frame.astype({"mirror_maker_position": "Int64"})
