"""Positions on prefixed copies of the target's own topics: groups of the copies continue on the originals.

Clients that a failover moved from `orders` to `primary.orders` have read the older records in `primary.orders`; on the
primary cluster these records are in `orders`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.history.journal_lineage import History, LogGrowth, segments_of
from kafka_dr.actions.history.segment_frames import valid_lineage
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.scope.flow_scope import copies_of_target, names_separate_directions, remote_partitions
from kafka_dr.actions.scope.internal_topics import syncs_of_the_other_flow
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.actions.scope.topic_settings import append_time_in
from kafka_dr.actions.spark_jobs import write_frame
from kafka_dr.domain.failback.lineage import CopiedSegment, Lineage
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.run import Run


def write_prefixed_copies(procedure: Run, folder: Path, bounds: pd.DataFrame) -> pd.DataFrame:
    """Add bounds of copies of the target's topics; write their segments and offset syncs to the folder.

    The originals end where the last failover left them: a group that has read a copy to its end continues before the
    records stranded in the original. Segments are also written for clients' own topics with kept stranded records:
    stranded records are on no target, and no record is missing there.
    """
    originals, history = (
        originals_of(procedure),
        History.of(procedure) if names_separate_directions(procedure) else None,
    )
    kept_segments = {} if history is None else segments_around_stranded(history, bounds)
    if not originals:
        if kept_segments:
            write_frame(folder, "segments", segments_of(kept_segments))
        return bounds
    copy_bounds = bounds_of_copies(procedure, originals)
    ends, original_ends = frame_partitions(copy_bounds, "cut_off"), frame_partitions(copy_bounds, "boundary")
    _write_copy_inputs(
        procedure,
        folder,
        kept_segments
        | {
            tp: segments_of_copy(history, tp, original, ends[tp], original_ends[tp])
            for tp, original in originals.items()
        },
        originals,
    )
    return pd.concat([bounds, copy_bounds], ignore_index=True)


def with_lost_copies(procedure: Run, folder: Path, bounds: pd.DataFrame, copies: pd.DataFrame) -> pd.DataFrame:
    """As `write_prefixed_copies` without the source: the journal names the copies' ends at clients' last arrival.

    Args:
        copies: as of `bounds_of_lost_copies`; a copy without an end in the journal has no cut-off and gets no segments.
    """
    if not len(copies):
        return bounds
    history = History.of(procedure)
    originals = {
        TopicPartition(topic, partition): TopicPartition(name, partition)
        for topic, name, partition in copies[["topic", "target_topic", "partition"]].itertuples(index=False)
    }
    copies_with_end = copies.dropna(subset=["cut_off"])
    ends, original_ends = frame_partitions(copies_with_end, "cut_off"), frame_partitions(copies_with_end, "boundary")
    if ends:
        _write_copy_inputs(
            procedure,
            folder,
            {tp: segments_of_copy(history, tp, originals[tp], end, original_ends[tp]) for tp, end in ends.items()},
            originals,
        )
    return pd.concat([bounds, copies], ignore_index=True)


def segments_around_stranded(history: History, bounds: pd.DataFrame) -> dict[TopicPartition, tuple[CopiedSegment, ...]]:
    """Partition -> segments around kept stranded records, for partitions of `bounds` that have such records."""
    by_partition = {}
    columns = ["topic", "partition", "target_topic", "cut_off", "boundary"]
    for topic, partition, name, cut_off, boundary in bounds[columns].itertuples(index=False):
        tp = TopicPartition(topic, partition)
        lineage = history.around_stranded(tp, TopicPartition(name, partition))
        by_partition[tp] = valid_lineage(lineage, LogGrowth(int(cut_off), int(boundary), None)).segments
    return {tp: segments for tp, segments in by_partition.items() if segments}


def _write_copy_inputs(
    procedure: Run,
    folder: Path,
    segments: Mapping[TopicPartition, tuple[CopiedSegment, ...]],
    originals: Mapping[TopicPartition, TopicPartition],
) -> None:
    """Write the job's inputs `segments` and `syncs_back` of copies."""
    write_frame(folder, "segments", segments_of(segments))
    syncs = syncs_of_the_other_flow(procedure)
    names = {original.topic: tp.topic for tp, original in originals.items()}
    write_frame(
        folder,
        "syncs_back",
        syncs[syncs["topic"].isin(names)].assign(topic=lambda frame: frame["topic"].map(names).astype(object)),
    )


def originals_of(procedure: Run) -> dict[TopicPartition, TopicPartition]:
    """Copy on the source, by the plan -> original on the target; only if both clusters have the partition."""
    copies = procedure.progress.move().planned.copies
    source_topics, target_topics = (
        cluster.topics(sorted(names))
        for cluster, names in (
            (procedure.systems.source, copies.keys()),
            (procedure.systems.target, set(copies.values())),
        )
    )
    partitions = [
        TopicPartition(copy, partition)
        for copy in sorted(copies)
        if copy in source_topics
        for partition in sorted(source_topics[copy].partitions)
    ]
    remote = remote_partitions(procedure, partitions)
    return {
        tp: original
        for tp, original in remote.items()
        if original.topic in target_topics and original.partition in target_topics[original.topic].partitions
    }


def segments_of_copy(
    history: History | None, copy: TopicPartition, original: TopicPartition, end: int, original_end: int
) -> tuple[CopiedSegment, ...]:
    """A copy's segments around kept stranded records, then an open segment; only the latter if unknown."""
    open_segment = CopiedSegment(end, None, original_end, None, copied_back=False)
    if history is None or (copied_to := history.copied_up_to(original)) is None:
        return (open_segment,)
    *older, newest = history.copied_around_stranded(copy, original)
    newest = newest._replace(
        source_to=end,
        target_to=min(copied_to, original_end),
        drained=history.drained(original) and copied_to <= original_end,
    )
    return valid_lineage(Lineage((*older, newest, open_segment)), LogGrowth(end, original_end, None)).segments or (
        open_segment,
    )


def bounds_of_copies(procedure: Run, originals: dict[TopicPartition, TopicPartition]) -> pd.DataFrame:
    """Translation bounds, one row per copy; neither log is written to."""
    copies, target_partitions = list(originals), list(originals.values())
    source, target = procedure.systems.source, procedure.systems.target
    configs = source.configs(sorted({tp.topic for tp in copies}))
    return bounds_of(
        originals,
        source_start=source.starts(copies),
        cut_off=source.ends(copies),
        target_start=target.starts(target_partitions),
        boundary=target.ends(target_partitions),
        source_configs=configs,
        target_configs=target.configs(sorted({tp.topic for tp in target_partitions})),
        drained=originals,
        restamped=append_time_in(configs),
    )


def bounds_of_lost_copies(procedure: Run, topics: Iterable[str]) -> pd.DataFrame:
    """Bounds of the partitions of these copies with the originals' current log ends; does not read the source.

    No record was copied since clients last came to the source: clients write to the target's own topics only while
    they work on the target.
    """
    copies = copies_of_target(procedure, topics)
    if not copies:
        return bounds_of({}, {}, {}, {}, {}, None, {})
    history = History.of(procedure)
    infos = procedure.systems.target.topics(sorted(set(copies.values())))
    originals = {
        TopicPartition(copy, partition): TopicPartition(name, partition)
        for copy, name in copies.items()
        if name in infos
        for partition in sorted(infos[name].partitions)
    }
    target, target_partitions = procedure.systems.target, list(originals.values())
    copy_ends = {
        tp: None if history is None else history.copies_end(tp, original) for tp, original in originals.items()
    }
    return bounds_of(
        originals,
        source_start=dict.fromkeys(originals, 0),
        cut_off=copy_ends,
        target_start=target.starts(target_partitions),
        boundary=target.ends(target_partitions),
        source_configs=None,
        target_configs=target.configs(sorted(infos)),
        drained=[tp for tp, end in copy_ends.items() if end is not None],
    )


def ends_of_copies(procedure: Run, bounds: pd.DataFrame) -> list[list[Any]]:
    """Rows of `bounds` that are copies: [topic, partition, copy's end, original's start, original's end]."""
    copies = copies_of_target(procedure, bounds["topic"].unique())
    rows = bounds.loc[bounds["topic"].isin(copies), ["topic", "partition", "cut_off", "target_start", "boundary"]]
    return [
        [topic, *(None if pd.isna(value) else int(value) for value in numbers)]
        for topic, *numbers in rows.itertuples(index=False)
    ]
