"""Compare both clusters' logs with those that translate_offsets saw, before positions are translated once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.procedure.binding import refuse_other_cluster
from kafka_dr.procedure.run import Run


@dataclass(frozen=True)
class ClusterLogs:
    """The logs of one cluster now.

    Attributes:
        alias: the cluster.
        starts: partition -> log start now; without changed logs.
        changed: partition -> why its log is not the one that translate_offsets saw.
    """

    alias: str
    starts: Mapping[TopicPartition, int]
    changed: Mapping[TopicPartition, str]

    @classmethod
    def read(cls, cluster: KafkaCluster, ends: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> ClusterLogs:
        """Read the logs of the partitions in `ends`.

        Args:
            ends: partition -> the log end that translate_offsets saw.
            ids: topic -> its id then; a topic whose id is unknown is compared by its log ends alone.
        """
        alias, infos = cluster.alias, cluster.topics(sorted({tp.topic for tp in ends}))
        changed = {}
        for tp in ends:
            info = infos.get(tp.topic)
            if info is None or tp.partition not in info.partitions:
                changed[tp] = f"{tp} does not exist on {alias} any more"
            elif ids.get(tp.topic, info.topic_id) != info.topic_id:
                changed[tp] = f"{tp.topic} was recreated on {alias} after the translation of the groups"
        present = [tp for tp in ends if tp not in changed]
        starts, now = (cluster.starts(present), cluster.ends(present)) if present else ({}, {})
        for tp in present:
            if now[tp] < ends[tp]:
                changed[tp] = f"the log of {tp} on {alias} ends at {now[tp]}, and ended at {ends[tp]} before"
        return cls(alias, {tp: start for tp, start in starts.items() if tp not in changed}, changed)

    def starts_of(self, topics: pd.Series, partitions: pd.Series) -> pd.Series:
        """Return the log start by row, from a column of topics and one of partitions; null where it was not read."""
        starts = [self.starts.get(tp) for tp in _keys(topics, partitions)]
        return pd.Series(pd.array(starts, "Int64"), index=topics.index)

    def changes_of(self, topics: pd.Series, partitions: pd.Series) -> pd.Series:
        """Return by row why the log is another one; null where it is not."""
        return pd.Series([self.changed.get(tp) for tp in _keys(topics, partitions)], topics.index, object)


@dataclass(frozen=True)
class LogsSince:
    """The logs on both clusters now, of partitions whose positions are to be translated.

    In all frames `asked` there is one row per position, with the columns of the job's input `bounds`, and `offset`.
    """

    source: ClusterLogs
    target: ClusterLogs

    @classmethod
    def read(
        cls, procedure: Run, asked: pd.DataFrame, target_ids: Mapping[str, str], source_readable: bool
    ) -> LogsSince:
        """Read the logs that the translation needs; the source is left alone if no position needs its records.

        Args:
            target_ids: topic -> its id on the target when the groups were translated.
            source_readable: whether the job reads the source.

        Raises:
            BindingBroken: a cluster is another than the procedure began with.
        """
        needed = asked[needs_source(asked) & source_readable]
        source_ends = _ends(needed, "topic", "cut_off")
        target_ends = _ends(asked, "target_topic", "boundary")
        return cls(
            _read_logs(procedure, procedure.request.source, source_ends, procedure.progress.moved_topic_ids()),
            _read_logs(procedure, procedure.request.target, target_ends, target_ids),
        )

    def reasons(self, asked: pd.DataFrame) -> pd.Series:
        """Return per position why it can no longer be translated; null where it can."""
        needs = needs_source(asked)
        start = self.source.starts_of(asked["topic"], asked["partition"])
        first = asked["offset"].clip(lower=asked["source_start"].fillna(0).astype("int64"))
        gone = needs & (first < start).fillna(False).astype(bool)
        deleted = [
            f"retention deleted the records below {now} on {self.source.alias}, by which the position would be found"
            for now in start[gone]
        ]
        reasons = pd.Series(None, asked.index, object)
        reasons[gone] = deleted
        on_source = self.source.changes_of(asked["topic"], asked["partition"])
        reasons = on_source.where(on_source.notna() & needs, reasons)
        on_target = self.target.changes_of(asked["target_topic"], asked["partition"])
        return on_target.where(on_target.notna(), reasons)

    def bounds_now(self, asked: pd.DataFrame) -> pd.DataFrame:
        """Return the job's input `bounds`, one row per partition of `asked`, with the log starts of now."""
        bounds = asked.drop(columns=["reader", "offset"]).drop_duplicates(["topic", "partition"], ignore_index=True)
        for logs, topic, start, end in (
            (self.source, "topic", "source_start", "cut_off"),
            (self.target, "target_topic", "target_start", "boundary"),
        ):
            # Clients write on above both ends, so that a log may start above them by now.
            now = logs.starts_of(bounds[topic], bounds["partition"])
            now = now.where((now < bounds[end]).fillna(True).astype(bool), bounds[end])
            bounds[start] = now.fillna(bounds[start]).astype("Int64")
        return bounds.astype({"partition": "int32"})

    def raised_to_start(self, answered: pd.DataFrame) -> pd.DataFrame:
        """Return the answers, with an offset below the target's log start raised to it, and a note in `clamped`."""
        start = self.target.starts_of(answered["target_topic"], answered["partition"])
        below = (answered["target_offset"] < start).fillna(False).astype(bool)
        note = f"the log on {self.target.alias} starts there: retention deleted older records"
        answered["target_offset"] = answered["target_offset"].where(~below, start)
        answered["clamped"] = np.where(below, note, answered["clamped"])
        return answered


def _read_logs(procedure: Run, alias: str, ends: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> ClusterLogs:
    """Read one cluster's logs, as `ClusterLogs.read`; the cluster is not asked where `ends` is empty."""
    if not ends:
        return ClusterLogs(alias, {}, {})
    cluster = procedure.systems.cluster(alias)
    refuse_other_cluster(procedure, alias, cluster)
    return ClusterLogs.read(cluster, ends, ids)


def needs_source(asked: pd.DataFrame) -> pd.Series:
    """Return per position whether its translation may need records of the source, and not the log ends alone."""
    first = asked["offset"].clip(lower=asked["source_start"].fillna(0).astype("int64"))
    at_the_end = (first == asked["cut_off"]).fillna(False).astype(bool)
    return ~(at_the_end & asked["drained"].astype(bool) & ~asked["other_writer"].astype(bool))


def _ends(asked: pd.DataFrame, topic: str, end: str) -> dict[TopicPartition, int]:
    """Return partition -> log end that translate_offsets saw, of the partitions for which it is known."""
    rows = asked[[topic, "partition", end]].drop_duplicates().dropna()
    return {tp: int(value) for tp, value in zip(_keys(rows[topic], rows["partition"]), rows[end], strict=True)}


def _keys(topics: pd.Series, partitions: pd.Series) -> list[Any]:
    """Return partitions from a column of topics and one of numbers."""
    return [TopicPartition(*key) for key in zip(topics.tolist(), partitions.tolist(), strict=True)]
