"""Build the `bounds` input of every Spark job: log start and log end of each partition on source and target."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from kafka_dr.actions.scope.topic_settings import append_time_in, compacted_in
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int | None]
Settings = Mapping[str, Mapping[str, str]]


def bounds_of(
    remote: Mapping[TopicPartition, TopicPartition],
    source_start: Offsets,
    cut_off: Offsets,
    target_start: Offsets,
    boundary: Offsets,
    source_configs: Settings | None,
    target_configs: Settings,
    drained: Collection[TopicPartition] = (),
    other_writer: Collection[str] = (),
    restamped: Collection[str] = (),
    recreated: Collection[str] = (),
) -> pd.DataFrame:
    """Return one row of log bounds per source partition; an offset that the mapping lacks is null.

    Args:
        remote: source partition -> target partition.
        source_start, cut_off: source partition -> log start, log end.
        target_start, boundary: target partition -> log start, log end.
        source_configs: source topic -> settings; None if the source is not read: a source topic then counts as
            compacted if its target topic is.
        target_configs: target topic -> settings.
        drained: source partitions whose records below the cut-off are all on the target.
        other_writer: target topics to which clients may write.
        restamped: source topics whose records have other timestamps on the source than on the target.
        recreated: source topics that were recreated; their recorded offsets belong to an older log.
    """
    topics, names = (
        pd.Series([tp.topic for tp in partitions], dtype=object) for partitions in (remote, remote.values())
    )
    proven = np.array([tp in drained for tp in remote], bool)
    compacted = names.isin(compacted_in(target_configs))
    return pd.DataFrame(
        {
            "topic": topics,
            "partition": np.array([tp.partition for tp in remote], "int32"),
            "target_topic": names,
            "source_start": pd.array([source_start.get(tp) for tp in remote], "Int64"),
            "cut_off": pd.array([cut_off.get(tp) for tp in remote], "Int64"),
            "target_start": pd.array([target_start.get(target_tp) for target_tp in remote.values()], "Int64"),
            "boundary": pd.array([boundary.get(target_tp) for target_tp in remote.values()], "Int64"),
            "drained": proven,
            "complete": proven,
            "other_writer": names.isin(other_writer),
            "source_compacted": compacted if source_configs is None else topics.isin(compacted_in(source_configs)),
            "target_compacted": compacted,
            "compare_timestamps": ~(names.isin(append_time_in(target_configs)) | topics.isin(restamped)),
            "recreated": topics.isin(recreated),
        }
    )
