"""Write the segments of both clusters' logs as input of the translation job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from kafka_dr.actions.history.journal_lineage import (
    ONE_COPY,
    PARTITION_COLUMNS,
    History,
    LogGrowth,
    ends_only,
    segments_of,
)
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.internal_topics import syncs_of_the_other_flow
from kafka_dr.actions.spark_jobs import write_frame, write_portions
from kafka_dr.domain.failback.lineage import Lineage
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import OlderRecordsUnknown
from kafka_dr.procedure.run import Run

_NAMED = 10


def write_lineage(procedure: Run, folder: Path, bounds: pd.DataFrame, positions: pd.DataFrame) -> dict[str, str]:
    """Write the translation job's inputs `segments` and `syncs_back`, if the naming policy is identity.

    Nothing is written if every target log is one copy of its source log from the beginning.

    Args:
        bounds: log starts and log ends of both clusters, one row per source partition.
        positions: groups' positions on the source, one row per position.

    Returns:
        Source partition (as text) -> why it is unknown which target records copy its older records; {} if no such
        partition exists.
    """
    history = None if names_separate_directions(procedure) else History.of(procedure)
    if history is None:
        return {}
    logs = logs_of(bounds, positions)
    lineages = {tp: valid_lineage(history.lineage(tp), log) for tp, log in logs.items()}
    if all(lineage == ONE_COPY for lineage in lineages.values()):
        return {}
    write_frame(folder, "segments", segments_frame(lineages, logs))
    write_portions(folder, "syncs_back", syncs_of_the_other_flow(procedure))
    return {str(tp): lineage.unknown for tp, lineage in sorted(lineages.items()) if lineage.unknown}


def tell_unknown(procedure: Run, step: str, unknown: Mapping[str, str]) -> None:
    """Record in the journal the number of partitions with unknown older segments, and why, if there are any.

    Args:
        unknown: source partition (as text) -> why its older segments are unknown.
    """
    if unknown:
        why = dict(list(unknown.items())[:_NAMED])
        record_fact(procedure.authority, step, OlderRecordsUnknown(older_records_unknown=len(unknown), why=why))


def logs_of(bounds: pd.DataFrame, positions: pd.DataFrame) -> dict[TopicPartition, LogGrowth]:
    """Return source partition -> current log ends and highest position, from a translation's bounds and positions."""
    furthest = (
        positions.groupby(PARTITION_COLUMNS)["position"]
        .max()
        .rename("furthest")
        .reset_index()
        .astype({"topic": object, "partition": "int32"})
    )
    rows = (
        bounds[[*PARTITION_COLUMNS, "cut_off", "boundary"]]
        .merge(furthest, on=PARTITION_COLUMNS, how="left")
        .astype(dict.fromkeys(("cut_off", "boundary", "furthest"), "Int64"))
    )
    return {
        TopicPartition(topic, int(p)): LogGrowth(*(None if pd.isna(end) else int(end) for end in ends))
        for topic, p, *ends in rows.itertuples(index=False)
    }


def valid_lineage(lineage: Lineage, log: LogGrowth) -> Lineage:
    """Return the lineage unchanged, or without segments if a segment begins above its end.

    An open segment ends at the current log ends.
    """
    closed = [
        segment._replace(
            source_to=log.source_end if segment.source_to is None else segment.source_to,
            target_to=log.target_end if segment.target_to is None else segment.target_to,
        )
        for segment in lineage.segments
    ]
    backwards = [
        segment
        for segment in closed
        for begin, end in ((segment.source_from, segment.source_to), (segment.target_from, segment.target_to))
        if end is not None and begin > end
    ]
    return (
        Lineage((), "the logs are shorter than at an earlier move of clients, or the journal contradicts itself")
        if backwards
        else lineage
    )


def segments_frame(
    lineages: Mapping[TopicPartition, Lineage], logs: Mapping[TopicPartition, LogGrowth]
) -> pd.DataFrame:
    """Return one row per segment, oldest first: topic, partition, segment (its number), fields of `CopiedSegment`.

    A partition with unknown segments gets one open segment, which begins at both current log ends.
    """
    return segments_of({tp: lineage.segments or ends_only(logs[tp]) for tp, lineage in lineages.items()})
