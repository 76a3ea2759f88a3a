"""MirrorMaker 2's internal topics, read whole: offset syncs and checkpoints of a flow."""

from __future__ import annotations

import pandas as pd

from kafka_dr.domain.mirror_records import (
    Checkpoint,
    decode_checkpoints,
    decode_offset_syncs,
)
from kafka_dr.domain.topic_partition import TopicPartition
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


def checkpoints_of(procedure: Procedure) -> dict[tuple[str, TopicPartition], Checkpoint]:
    """MirrorMaker 2's newest checkpoint of each group and partition of the target."""
    topic = procedure.naming.checkpoints_topic(procedure.flow.source)
    records = list(procedure.reader(procedure.flow.target).read_all(topic))
    decoded = decode_checkpoints([r.key for r in records], [r.value for r in records])
    return {(c.group, TopicPartition(c.topic, c.partition)): c for c in decoded.records}
