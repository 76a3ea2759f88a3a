"""Build the outcome of find_stranded_records: totals by topic, frontier and export; or use an earlier outcome.

*Older* records are replicated records that only the returned cluster still has. *Lacking* records are replicated
records that only the new primary still has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from kafka_dr.actions.failback.copy_sizes import copy_sizes
from kafka_dr.actions.failback.returned_logs import COUNTS, ReturnedClusterLogs
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.failback.topic_recreation import noted_topics
from kafka_dr.actions.history.moves import PairJournal, completed_moves, last_move
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.actions.scope.topic_settings import compacted_in
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import (
    Receipt,
    StrandedExport,
    StrandedRecordsFound,
    StrandedRecordsFoundWithSizes,
    StrandedTopic,
    TopicsToDelete,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

JOB = "find_stranded_records"
PARTITION_COLUMNS = ["topic", "partition"]
_ROW = {
    "frontier": "int64",
    "from_offset": "int64",
    "resumes": "int64",
    **dict.fromkeys(COUNTS, "int64"),
    "first_at": "Int64",
    "last_at": "Int64",
    "exact": "bool",
}
#: Part of the export -> columns of the search's result: number of records, file name; then the columns that are stored
#: with the number of records in the list of the part's files.
_EXPORTED = {
    "files": ("records", "file", "file", "sha256", "uncommitted_sha256"),
    "older": ("older", "older_file", "older_file", "older_sha256"),
}


def compares_whole_logs(procedure: Run) -> bool:
    """Whether the search also compares records that an earlier procedure proved to be replicated.

    True if the param compare is `whole`, or if the run deletes topics with stranded records.
    """
    return procedure.request.choices.get("compare") == "whole" or will_be_deleted(procedure)


def will_be_deleted(procedure: Run) -> bool:
    """Whether the run deletes topics with stranded records on the returned cluster (mode recreate, identity naming)."""
    return mode_of(procedure) is Mode.RECREATE and not names_separate_directions(procedure)


def last_failover(procedure: Run) -> Run:
    """Return the procedure that moved clients from the returned cluster to the new primary.

    Raises:
        Refusal: the journal has no client move, or the last client move had another source or target.
    """
    last, request = last_move(procedure), procedure.request
    if last is None or (last.request.source, last.request.target) != (request.target, request.source):
        detail = (
            "the journal has no procedure that moved clients between these clusters"
            if last is None
            else f"the last move of clients, {last.id}, went from {last.request.source} to {last.request.target}"
        )
        raise Refusal(
            f"The journal does not show that clients moved from {request.target} to {request.source}",
            detail,
            "Find out, from the routing record or the application, on which cluster clients work. If clients work on"
            f" {request.target}, start a new run with {request.target} as source. If clients were moved without"
            " Switchback, move these clients back without Switchback.",
        )
    return last


def opened_before(procedure: Run, failover: Run) -> Run | None:
    """Return the last procedure, other than `failover`, that moved clients to the returned cluster; else None."""
    moves = [move for _, move in completed_moves(procedure) if move.id != failover.id]
    earlier = [move for move in moves if move.request.target == failover.request.source]
    return earlier[-1] if earlier else None


def figures_of(
    procedure: Run, failover: Run, logs: ReturnedClusterLogs, rows: pd.DataFrame, folder: str, digest: str | None
) -> StrandedRecordsFound:
    """Return the search's outcome: stranded records by topic, and the files with export, frontier and log ends.

    Args:
        rows: the search's result, one row per partition of the returned cluster.
        folder: the export's folder in the evidence folder of this run.
        digest: digest of the Spark job's result; None if the job did not run.
    """
    rows = rows.astype(_ROW)
    # All records below source_end are on the new primary, and no record from source_tail on. Between the two offsets,
    # stranded records are followed by mirrored records.
    mirrored = [row not in logs.copied_back for row in rows[PARTITION_COLUMNS].itertuples(index=False, name=None)]
    frontier = rows.loc[mirrored, [*PARTITION_COLUMNS, "frontier", "resumes", "from_offset"]].rename(
        columns={"frontier": "source_end", "resumes": "source_resumes", "from_offset": "source_tail"}
    )
    topics = by_topic(rows, logs.gone)
    digested = {
        "rows": digest,
        "frontier": frontier.to_numpy().tolist(),
        "gone": sorted([*tp, count] for tp, count in logs.gone.items()),
    }
    files = {
        name: procedure.artifacts.save(
            f"exported_{name}", rows.loc[rows[file].notna(), [*PARTITION_COLUMNS, count, *columns]]
        )
        for name, (count, file, *columns) in _EXPORTED.items()
    }
    return with_sizes(
        copy_sizes(procedure, failover),
        after=failover.id,
        digest=digest_of(digested),
        topics=topics,
        compacted=sorted(compacted_of(procedure, logs) & {totals.topic for totals in topics}),
        **{name: sum(getattr(totals, name) for totals in topics) for name in (*COUNTS, "inexact")},
        first_at=min((totals.first_at for totals in topics if totals.first_at is not None), default=None),
        last_at=max((totals.last_at for totals in topics if totals.last_at is not None), default=None),
        frontier=procedure.artifacts.save("frontier", frontier),
        export=StrandedExport(
            folder, files["files"], files["older"], form=procedure.topology.exports.form if folder else None
        ),
        returned_ends=procedure.artifacts.save("returned_ends", partitions_frame(logs.ends, "offset")),
    )


def with_sizes(sizes: dict[str, Any], **figures: Any) -> StrandedRecordsFound:
    """Return the outcome of find_stranded_records with these figures.

    Args:
        sizes: how much the flow back has to copy and to delete; sizes in bytes only in mode recreate.
    """
    outcome_class = StrandedRecordsFoundWithSizes if "bytes_there" in figures | sizes else StrandedRecordsFound
    return outcome_class(**figures | sizes)


def compacted_of(procedure: Run, logs: ReturnedClusterLogs) -> set[str]:
    """Return the returned cluster's topics that are compacted, or whose copy on the new primary is compacted."""
    names = {tp.topic: copy.topic for tp, copy in logs.remote.items()}
    copies = compacted_in(procedure.systems.source.configs(sorted(set(names.values()))))
    return compacted_in(procedure.systems.target.configs(sorted(names))) | {
        topic for topic, copy in names.items() if copy in copies
    }


def by_topic(rows: pd.DataFrame, gone: dict[TopicPartition, int]) -> list[StrandedTopic]:
    """Return totals of each topic with stranded, older or lacking records, or with a partition that is not exact.

    A partition is exact if it is certain that no record listed as stranded was ever replicated.

    Args:
        rows: the search's result, one row per partition of the returned cluster.
        gone: partitions that the returned cluster lacks -> number of offsets in their copies on the new primary.
    """
    lost = pd.DataFrame(
        [{**dict.fromkeys(COUNTS, 0), "topic": tp.topic, "lacking": count, "exact": True} for tp, count in gone.items()]
    )
    all_rows = pd.concat([rows, lost.astype({"lacking": "int64"})], ignore_index=True) if len(lost) else rows
    grouped = all_rows.assign(inexact=(~all_rows["exact"].astype(bool)).astype("int64")).groupby("topic", sort=True)
    sums = (
        grouped[[*COUNTS, "inexact"]]
        .sum()
        .astype("int64")
        .join(grouped.agg(first_at=("first_at", "min"), last_at=("last_at", "max")).astype("Int64"))
    )
    counted = sums[(sums[["records", "lacking", "older", "inexact"]] > 0).any(axis=1)]
    counts = counted.reset_index().astype(object).replace({pd.NA: None})
    topics: list[dict[Any, Any]] = counts.to_dict("records")
    return [StrandedTopic(**topic) for topic in topics]


def found_before_deleting(procedure: Run) -> Run | None:
    """Return the oldest failback run since the failover that deleted topics of the returned cluster; else None.

    An earlier run counts once a topic that it was to delete is missing or recreated. The current run, `procedure`,
    counts as soon as the journal lists the topics that it is to delete.
    """
    deleting = PairJournal(procedure).same_way(TopicsToDelete, Step.PREPARE_TOPICS)
    # An earlier run that was killed before its first deletion does not count: its topics still have all records.
    return next((run for _, run, _ in deleting if run.id == procedure.id or deleted_since(procedure, run)), None)


def taken_over(procedure: Run, finder: Run) -> StrandedRecordsFound:
    """Return the outcome of find_stranded_records of the run `finder` as this run's outcome; its lists are copied.

    `finder` deleted topics on the returned cluster, and only its export has their stranded records.
    """
    findings = finder.progress.require(StrandedRecordsFound)
    if finder.id == procedure.id:
        return findings

    def copied(name: str, receipt: Receipt) -> Receipt:
        return procedure.artifacts.save(name, finder.artifacts.load(receipt))

    export, gone = findings.export, deleted_since(procedure, finder)
    return with_sizes(
        copy_sizes(procedure, procedure.require_other(findings.after), gone),
        **vars(findings)
        | {
            "frontier": copied("frontier", findings.frontier),
            "returned_ends": copied("returned_ends", findings.returned_ends),
            "gone": gone,
            "export": replace(
                export,
                procedure_id=export.procedure_id or finder.id,
                files=copied("exported_files", export.files),
                older=copied("exported_older", export.older) if export.older else None,
            ),
        },
    )


def deleted_since(procedure: Run, finder: Run) -> list[str]:
    """Return topics of the returned cluster that `finder` was to delete and that are missing or recreated, sorted."""
    noted = noted_topics(finder) or {}
    infos = procedure.systems.target.topics(noted)
    return sorted(
        name for name, before in noted.items() if name not in infos or infos[name].topic_id != before.topic_id
    )
