"""Positions on copies of the target's own topics: groups that read the copies go on in the originals there.

Clients that a failover took from `orders` to `primary.orders` have read the older records there; back on primary these
are in `orders`.
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
    """Add bounds of partitions that are copies of the target's; write their segments and offset syncs to the folder.

    The originals end where the last failover has left them: a group that has read its copies to the end stands before
    what was stranded there. Segments are written too of clients' own topics in which stranded records were kept: these
    are on no target, and nothing is missing there.
    """
    originals, known = originals_of(procedure), History.of(procedure) if names_separate_directions(procedure) else None
    kept = {} if known is None else stretches_around_stranded(known, bounds)
    if not originals:
        if kept:
            write_frame(folder, "segments", segments_of(kept))
        return bounds
    rows = bounds_of_copies(procedure, originals)
    ends, original_ends = frame_partitions(rows, "cut_off"), frame_partitions(rows, "boundary")
    _write(
        procedure,
        folder,
        kept | {tp: segments_of_copy(known, tp, at, ends[tp], original_ends[tp]) for tp, at in originals.items()},
        originals,
    )
    return pd.concat([bounds, rows], ignore_index=True)


def with_lost_copies(procedure: Run, folder: Path, bounds: pd.DataFrame, copies: pd.DataFrame) -> pd.DataFrame:
    """As `write_prefixed_copies`, without the source: the journal says where copies ended.

    Args:
        copies: what `bounds_of_lost_copies` answered; a copy of which the journal does not tell has no cut-off, and no
            segments.
    """
    if not len(copies):
        return bounds
    known = History.of(procedure)
    originals = {
        TopicPartition(topic, p): TopicPartition(name, p)
        for topic, name, p in copies[["topic", "target_topic", "partition"]].itertuples(index=False)
    }
    told = copies.dropna(subset=["cut_off"])
    ends, original_ends = frame_partitions(told, "cut_off"), frame_partitions(told, "boundary")
    if ends:
        _write(
            procedure,
            folder,
            {tp: segments_of_copy(known, tp, originals[tp], end, original_ends[tp]) for tp, end in ends.items()},
            originals,
        )
    return pd.concat([bounds, copies], ignore_index=True)


def stretches_around_stranded(known: History, bounds: pd.DataFrame) -> dict[TopicPartition, tuple[CopiedSegment, ...]]:
    """Segments of the partitions of a translation's bounds in which stranded records were kept."""
    found = {}
    columns = ["topic", "partition", "target_topic", "cut_off", "boundary"]
    for topic, partition, name, cut_off, boundary in bounds[columns].itertuples(index=False):
        tp = TopicPartition(topic, partition)
        lineage = known.around_stranded(tp, TopicPartition(name, partition))
        found[tp] = valid_lineage(lineage, LogGrowth(int(cut_off), int(boundary), None)).segments
    return {tp: segments for tp, segments in found.items() if segments}


def _write(
    procedure: Run,
    folder: Path,
    segments: Mapping[TopicPartition, tuple[CopiedSegment, ...]],
    originals: Mapping[TopicPartition, TopicPartition],
) -> None:
    """Write `segments` and `syncs_back` of copies."""
    write_frame(folder, "segments", segments_of(segments))
    syncs = syncs_of_the_other_flow(procedure)
    names = {original.topic: tp.topic for tp, original in originals.items()}
    write_frame(
        folder,
        "syncs_back",
        syncs[syncs["topic"].isin(names)].assign(topic=lambda frame: frame["topic"].map(names).astype(object)),
    )


def originals_of(procedure: Run) -> dict[TopicPartition, TopicPartition]:
    """Source partitions that are copies by the plan -> the target's originals; only pairs that both clusters have."""
    copies = procedure.progress.move().planned.copies
    here, there = (
        cluster.topics(sorted(names))
        for cluster, names in (
            (procedure.systems.source, copies.keys()),
            (procedure.systems.target, set(copies.values())),
        )
    )
    partitions = [
        TopicPartition(copy, p) for copy in sorted(copies) if copy in here for p in sorted(here[copy].partitions)
    ]
    remote = remote_partitions(procedure, partitions)
    return {tp: at for tp, at in remote.items() if at.topic in there and at.partition in there[at.topic].partitions}


def segments_of_copy(
    known: History | None, copy: TopicPartition, original: TopicPartition, end: int, original_end: int
) -> tuple[CopiedSegment, ...]:
    """A copy's segments around stranded records kept there, then an open one; only that one if the rest is unknown."""
    last = CopiedSegment(end, None, original_end, None, copied_back=False)
    if known is None or (upto := known.copied_up_to(original)) is None:
        return (last,)
    *older, newest = known.copied_around_stranded(copy, original)
    newest = newest._replace(
        source_to=end, target_to=min(upto, original_end), drained=known.drained(original) and upto <= original_end
    )
    return valid_lineage(Lineage((*older, newest, last)), LogGrowth(end, original_end, None)).segments or (last,)


def bounds_of_copies(procedure: Run, originals: dict[TopicPartition, TopicPartition]) -> pd.DataFrame:
    """A row for each copy, as of the bounds of a translation; both logs stand still."""
    copies, there = list(originals), list(originals.values())
    source, target = procedure.systems.source, procedure.systems.target
    configs = source.configs(sorted({tp.topic for tp in copies}))
    return bounds_of(
        originals,
        source_start=source.starts(copies),
        cut_off=source.ends(copies),
        target_start=target.starts(there),
        boundary=target.ends(there),
        source_configs=configs,
        target_configs=target.configs(sorted({tp.topic for tp in there})),
        drained=originals,
        restamped=append_time_in(configs),
    )


def bounds_of_lost_copies(procedure: Run, topics: Iterable[str]) -> pd.DataFrame:
    """Bounds of these copies' partitions with the originals as they are now; the source is not asked.

    Nothing was copied since clients had come to the source last: they write to the target's own topics only while they
    are there.
    """
    copies = copies_of_target(procedure, topics)
    if not copies:
        return bounds_of({}, {}, {}, {}, {}, None, {})
    known = History.of(procedure)
    infos = procedure.systems.target.topics(sorted(set(copies.values())))
    originals = {
        TopicPartition(copy, p): TopicPartition(name, p)
        for copy, name in copies.items()
        if name in infos
        for p in sorted(infos[name].partitions)
    }
    target, there = procedure.systems.target, list(originals.values())
    told = {tp: None if known is None else known.copies_end(tp, at) for tp, at in originals.items()}
    return bounds_of(
        originals,
        source_start=dict.fromkeys(originals, 0),
        cut_off=told,
        target_start=target.starts(there),
        boundary=target.ends(there),
        source_configs=None,
        target_configs=target.configs(sorted(infos)),
        drained=[tp for tp, end in told.items() if end is not None],
    )


def ends_of_copies(procedure: Run, bounds: pd.DataFrame) -> list[list[Any]]:
    """Of a translation's bounds those of copies: topic, partition, copy's end, original's start and end."""
    copies = copies_of_target(procedure, bounds["topic"].unique())
    rows = bounds.loc[bounds["topic"].isin(copies), ["topic", "partition", "cut_off", "target_start", "boundary"]]
    return [
        [topic, *(None if pd.isna(value) else int(value) for value in numbers)]
        for topic, *numbers in rows.itertuples(index=False)
    ]
