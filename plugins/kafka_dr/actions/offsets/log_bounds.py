"""The `bounds` that every Spark job reads: where both logs of each partition begin and end."""

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
    """One row per source partition; an offset that a mapping lacks is null.

    Args:
        remote: source partition -> its partition on the target, which `target_start` and `boundary` name.
        source_configs: None if the source is not asked: MirrorMaker 2 gave its topics' settings to the target's.
        drained: source partitions of which the target holds everything.
        other_writer: topics of the target that not only MirrorMaker 2 may write to.
        restamped: topics of the source whose records have another time there than on the target.
        recreated: topics of the source that were made anew.
    """
    topics, names = (pd.Series([tp.topic for tp in side], dtype=object) for side in (remote, remote.values()))
    proven = np.array([tp in drained for tp in remote], bool)
    compacted = names.isin(compacted_in(target_configs))
    return pd.DataFrame(
        {
            "topic": topics,
            "partition": np.array([tp.partition for tp in remote], "int32"),
            "target_topic": names,
            "source_start": pd.array([source_start.get(tp) for tp in remote], "Int64"),
            "cut_off": pd.array([cut_off.get(tp) for tp in remote], "Int64"),
            "target_start": pd.array([target_start.get(at) for at in remote.values()], "Int64"),
            "boundary": pd.array([boundary.get(at) for at in remote.values()], "Int64"),
            "drained": proven,
            "complete": proven,
            "other_writer": names.isin(other_writer),
            "source_compacted": compacted if source_configs is None else topics.isin(compacted_in(source_configs)),
            "target_compacted": compacted,
            "compare_timestamps": ~(names.isin(append_time_in(target_configs)) | topics.isin(restamped)),
            "recreated": topics.isin(recreated),
        }
    )
