"""The segments of both clusters' logs, written for the translation's job."""

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
from kafka_dr.actions.spark_jobs import write_frame
from kafka_dr.domain.failback.lineage import Lineage
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    OlderRecordsUnknown,
)
from kafka_dr.procedure.run import Run

_NAMED = 10


def write_lineage(procedure: Run, folder: Path, bounds: pd.DataFrame, positions: pd.DataFrame) -> dict[str, str]:
    """Write `segments` and `syncs_back` of a translation's input, if any log is more than a copy of the other.

    Returns:
        By partition, as text, why nobody knows where its older records are.
    """
    known = None if names_separate_directions(procedure) else History.of(procedure)
    if known is None:
        return {}
    logs = logs_of(bounds, positions)
    lineages = {tp: valid_lineage(known.lineage(tp), log) for tp, log in logs.items()}
    if all(one == ONE_COPY for one in lineages.values()):
        return {}
    write_frame(folder, "segments", segments_frame(lineages, logs))
    write_frame(folder, "syncs_back", syncs_of_the_other_flow(procedure))
    return {str(tp): one.unknown for tp, one in sorted(lineages.items()) if one.unknown}


def tell_unknown(procedure: Run, step: str, unknown: Mapping[str, str]) -> None:
    """Put into the journal why older positions go to a safe place only, if any do."""
    if unknown:
        why = dict(list(unknown.items())[:_NAMED])
        record_fact(procedure.authority, step, OlderRecordsUnknown(older_records_unknown=len(unknown), why=why))


def logs_of(bounds: pd.DataFrame, positions: pd.DataFrame) -> dict[TopicPartition, LogGrowth]:
    """The logs that a translation's bounds speak of, by the source's partition."""
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
    """The lineage if the logs are long enough and no stretch ends before it begins; else one without segments."""
    whole = [
        one._replace(
            source_to=log.source_end if one.source_to is None else one.source_to,
            target_to=log.target_end if one.target_to is None else one.target_to,
        )
        for one in lineage.segments
    ]
    backwards = [
        one
        for one in whole
        for begin, end in ((one.source_from, one.source_to), (one.target_from, one.target_to))
        if end is not None and begin > end
    ]
    return (
        Lineage((), "its logs end before they did when clients changed sides, or the journal contradicts itself")
        if backwards
        else lineage
    )


def segments_frame(
    lineages: Mapping[TopicPartition, Lineage], logs: Mapping[TopicPartition, LogGrowth]
) -> pd.DataFrame:
    """Segments as rows, oldest first: topic, partition, segment, offsets (null: open), copied_back, drained."""
    return segments_of({tp: lineage.segments or ends_only(logs[tp]) for tp, lineage in lineages.items()})
