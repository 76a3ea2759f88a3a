"""Translate positions on prefixed copies to the original topics on the target, for prefixed naming.

Example: a failover moved clients from `orders` on cluster `primary` to `primary.orders`, where groups have positions.
When clients move to `primary` again, these groups continue in `orders`. A *copy* is the source's partition of
`primary.orders`, its *original* the target's partition of `orders`.
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
from kafka_dr.actions.spark_jobs import write_frame, write_portions
from kafka_dr.domain.failback.lineage import CopiedSegment, Lineage
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.run import Run


def write_prefixed_copies(procedure: Run, folder: Path, bounds: pd.DataFrame) -> pd.DataFrame:
    """Write the job's inputs `segments` and `syncs_back` to the folder; return `bounds` with one more row per copy.

    By these inputs, a group that has read a copy to its end continues in the original, before the original's stranded
    records. Segments are also written for topics without prefix in which a failback left stranded records in place: the
    target does not have these records, and without segments they would count as missing.
    """
    originals, history = (
        originals_of(procedure),
        # Flows that always run go on at their own offsets, and so also copy what an earlier failback left stranded.
        History.of(procedure) if names_separate_directions(procedure) and not procedure.takes_writes_on_both else None,
    )
    kept_segments = {} if history is None else segments_around_stranded(history, bounds)
    if not originals:
        if kept_segments:
            write_frame(folder, "segments", segments_of(kept_segments))
        return bounds
    # Before the copies' log ends are read: all originals below these offsets then have copies below these ends.
    copied_to = copied_by_now(procedure, originals.values())
    copy_bounds = bounds_of_copies(procedure, originals)
    ends, original_ends = frame_partitions(copy_bounds, "cut_off"), frame_partitions(copy_bounds, "boundary")
    _write_copy_inputs(
        procedure,
        folder,
        kept_segments
        | {
            tp: segments_of_copy(history, tp, original, ends[tp], original_ends[tp])
            if copied_to is None
            else segments_of_growing_copy(
                history, tp, original, ends[tp], original_ends[tp], copied_to.get(original, 0)
            )
            for tp, original in originals.items()
        },
        originals,
    )
    return pd.concat([bounds, copy_bounds], ignore_index=True)


def with_lost_copies(procedure: Run, folder: Path, bounds: pd.DataFrame, copies: pd.DataFrame) -> pd.DataFrame:
    """Write the segments of prefixed topics of a source that does not answer; return `bounds` and `copies` as one.

    A prefixed topic, such as `standby.orders` on the source, is the copy of `orders` on the target.

    Args:
        copies: log bounds of the prefixed topics, one row per partition, with log ends from the journal; a partition
            without a recorded log end gets neither cut-off nor segments.
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
    """Return source partition with stranded records left in place -> the segments around these records."""
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
    """Write the job's inputs: `segments`, and as `syncs_back` the originals' offset syncs under the copies' names."""
    write_frame(folder, "segments", segments_of(segments))
    names = {original.topic: tp.topic for tp, original in originals.items()}
    write_portions(
        folder,
        "syncs_back",
        (
            syncs[syncs["topic"].isin(names)].assign(topic=lambda frame: frame["topic"].map(names).astype(object))
            for syncs in syncs_of_the_other_flow(procedure)
        ),
    )


def originals_of(procedure: Run) -> dict[TopicPartition, TopicPartition]:
    """Return copy on the source, by the plan -> original on the target; only partitions that both clusters have."""
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
    """Return a copy's segments around stranded records left in place, then an open segment from both log ends on.

    Return only the open segment if the journal does not state up to which offset the original was copied.

    Args:
        history: all client moves; None: the journal has no client move.
        end: log end of the copy.
        original_end: log end of the original.
    """
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


def copied_by_now(procedure: Run, originals: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
    """Return original -> target offset below which all originals have copies, by what Connect has stored.

    None if no original can lack its copy: the flow target->source is stopped, and the journal states up to where it
    had copied when clients left the target. Originals of which Connect has no offset are left out.
    """
    reverse = procedure.reverse_flow
    if reverse is None:
        return {}
    connectors = procedure.mirror_maker(reverse)
    sources = set(connectors.sources) & set(connectors.existing())
    stopped = all(connectors.status(name).stopped for name in sources)
    if stopped and not procedure.takes_writes_on_both and History.of(procedure) is not None:
        return None
    stored = connectors.offsets().of(reverse.source) if len(sources) == len(connectors.sources) else {}
    return {tp: last + 1 for tp in originals if (last := stored.get(tp)) is not None}


def segments_of_growing_copy(
    history: History | None,
    copy: TopicPartition,
    original: TopicPartition,
    end: int,
    original_end: int,
    copied_to: int,
) -> tuple[CopiedSegment, ...]:
    """Return the segments of a copy that grows, or whose last originals may have no copy, then an open segment.

    Args:
        history: all client moves; None: the journal has no client move.
        end: log end of the copy, read after `copied_to`.
        original_end: log end of the original, read after `end`.
        copied_to: target offset below which all originals have copies.
    """
    open_segment = CopiedSegment(end, None, original_end, None, copied_back=False)
    whole = (CopiedSegment(0, None, 0, None, copied_back=True),)
    *older, newest = whole if history is None else history.copied_around_stranded(copy, original)
    newest = newest._replace(source_to=end, target_to=original_end, copied_to=min(copied_to, original_end))
    segments = valid_lineage(Lineage((*older, newest, open_segment)), LogGrowth(end, original_end, None)).segments
    # A segment that begins beyond the log's end makes the job refuse every position: a person decides.
    return segments or (open_segment._replace(source_from=end + 1),)


def bounds_of_copies(procedure: Run, originals: dict[TopicPartition, TopicPartition]) -> pd.DataFrame:
    """Return log start and log end of each copy and its original, one row per copy; originals are read last.

    So each copy below its log end is of an original below the original's log end, also while both logs grow.
    """
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
    """Return log start and log end of each copy and its original, one row per copy, without reading the source.

    A copy's log start is 0; its log end comes from the journal, null if the journal has none. Log ends in the journal
    are still valid, because clients write to the originals only while clients work on the target, and so no record was
    copied after clients last left the target. If the flow target->source always runs, its copies' log ends are unknown.

    Args:
        topics: source topics; topics that are no copies are left out.
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
    known = None if procedure.takes_writes_on_both else history
    copy_ends = {tp: None if known is None else known.copies_end(tp, original) for tp, original in originals.items()}
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
    """Return per copy in `bounds`: [topic, partition, log end of the copy, log start and log end of the original].

    An unknown offset is None.
    """
    copies = copies_of_target(procedure, bounds["topic"].unique())
    rows = bounds.loc[bounds["topic"].isin(copies), ["topic", "partition", "cut_off", "target_start", "boundary"]]
    return [
        [topic, *(None if pd.isna(value) else int(value) for value in numbers)]
        for topic, *numbers in rows.itertuples(index=False)
    ]
