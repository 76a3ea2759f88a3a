"""Convert committed positions to pandas frames and back, fast, because clients wait while a million may be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster

PLACE = ["group", "topic", "partition"]
COLUMNS = [*PLACE, "position"]
TYPES: dict[str, str | type] = {"group": object, "topic": object, "partition": "int32", "position": "int64"}


def positions_of(cluster: KafkaCluster, groups: Iterable[str], require_stable: bool = True) -> pd.DataFrame:
    """Return these groups' positions on a cluster, one row each, sorted: group, topic, partition, position.

    Args:
        require_stable: wait for transactions that commit positions.
    """
    return in_order(position_rows(cluster.position_columns(groups, require_stable=require_stable)))


def position_rows(columns: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Return four columns (group, topic, partition, position), given in this order, as a frame."""
    return pd.DataFrame({name: np.array(column, TYPES[name]) for name, column in zip(COLUMNS, columns, strict=True)})


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows sorted by group, topic and partition.

    Ranks of the names are compared, because comparing a million names takes seconds.
    """
    groups, topics = (rank_names(frame[name])[0] for name in ("group", "topic"))
    return frame.iloc[np.lexsort((frame["partition"].to_numpy(), topics, groups))].reset_index(drop=True)


def rank_names(names: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Return each name's rank among the distinct names, and the distinct names, sorted.

    pandas' factorize, groupby and drop_duplicates are not used, because they treat names as equal that are equal up to
    a NUL character.
    """
    listed = names.tolist()
    distinct = sorted(set(listed))
    ranks = {name: rank for rank, name in enumerate(distinct)}
    return np.fromiter(map(ranks.__getitem__, listed), np.int64, len(listed)), distinct


def with_partition_column(frame: pd.DataFrame, values: Mapping[TopicPartition, int | None], name: str) -> pd.DataFrame:
    """Return the frame with an added column `name` (Int64): the row's partition's value; null without a value."""
    column = pd.DataFrame([(*tp, value) for tp, value in values.items()], columns=["topic", "partition", name]).astype(
        {"topic": object, "partition": "int32", name: "Int64"}
    )
    return frame.merge(column, on=["topic", "partition"], how="left")


def by_group(frame: pd.DataFrame) -> Iterator[tuple[str, dict[TopicPartition, int]]]:
    """Yield each group of a frame that is sorted by group, with its positions by partition."""
    groups, topics, numbers, offsets = (frame[name].tolist() for name in COLUMNS)
    # The same few partitions occur in many groups: one object per partition suffices.
    places = {pair: TopicPartition._make(pair) for pair in set(zip(topics, numbers, strict=True))}
    partitions = list(map(places.__getitem__, zip(topics, numbers, strict=True)))
    edges = (
        [
            0,
            *(np.flatnonzero(frame["group"].to_numpy()[1:] != frame["group"].to_numpy()[:-1]) + 1).tolist(),
            len(groups),
        ]
        if groups
        else []
    )
    for start, end in itertools.pairwise(edges):
        yield groups[start], dict(zip(partitions[start:end], offsets[start:end], strict=True))


def partitions_frame(ends: Mapping[TopicPartition, int], column: str) -> pd.DataFrame:
    """Return offsets by partition as a frame of topic, partition and the named column, sorted."""
    rows = sorted((tp.topic, tp.partition, offset) for tp, offset in ends.items())
    return pd.DataFrame(rows, columns=["topic", "partition", column]).astype(
        {"topic": str, "partition": "int32", column: "int64"}
    )


def frame_partitions(frame: pd.DataFrame, column: str) -> dict[TopicPartition, int]:
    """Return the values of a frame's column by partition; the inverse of `partitions_frame`."""
    return {
        TopicPartition(t, int(p)): int(o)
        for t, p, o in zip(frame["topic"], frame["partition"], frame[column], strict=True)
    }
