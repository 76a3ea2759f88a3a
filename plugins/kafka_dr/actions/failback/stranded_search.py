"""Find records of the returned cluster that were never replicated, and export them before anything changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from kafka_dr.actions.failback.copy_sizes import copy_sizes
from kafka_dr.actions.failback.returned_logs import COUNTS, ReturnedClusterLogs
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.failback.topic_recreation import noted_topics
from kafka_dr.actions.history.moves import PairJournal, completed_moves
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
#: What is exported: which column counts it, which one names its file, and what the receipt holds.
_EXPORTED = {
    "files": ("records", "file", "file", "sha256", "uncommitted_sha256"),
    "older": ("older", "older_file", "older_file", "older_sha256"),
}


def compares_whole_logs(procedure: Run) -> bool:
    """Whether also what was proven is compared: because it was asked for, or because the old log will be deleted."""
    return procedure.request.choices.get("compare") == "whole" or will_be_deleted(procedure)


def will_be_deleted(procedure: Run) -> bool:
    """Whether clients' logs on the returned cluster will be deleted, with what the flow back added to them."""
    return mode_of(procedure) is Mode.RECREATE and not names_separate_directions(procedure)


def last_failover(procedure: Run) -> Run:
    """The procedure that took clients from the returned cluster to where they are now.

    Raises:
        Refusal: no procedure of the journal did, or another one took them elsewhere since.
    """
    moved, request = completed_moves(procedure), procedure.request
    last = moved[-1][1] if moved else None
    if last is None or (last.request.source, last.request.target) != (request.target, request.source):
        seen = (
            "no procedure of the journal opened it"
            if last is None
            else f"{last.id} took clients from {last.request.source} to {last.request.target}"
        )
        raise Refusal(
            f"Nobody knows how clients came from {request.target} to {request.source}",
            seen,
            "Look where clients are, and name that cluster as the source; clients that were moved without any procedure"
            " have to be moved back like that.",
        )
    return last


def opened_before(procedure: Run, failover: Run) -> Run | None:
    """The procedure that brought clients to the returned cluster before the failover; None if they began there."""
    before = [one for _, one in completed_moves(procedure) if one.id != failover.id]
    earlier = [one for one in before if one.request.target == failover.request.source]
    return earlier[-1] if earlier else None


def figures_of(
    procedure: Run, failover: Run, there: ReturnedClusterLogs, rows: pd.DataFrame, folder: str, digest: str | None
) -> StrandedRecordsFound:
    """The outcome: what is stranded by topic, and receipts of what was exported and of where each log ends."""
    rows = rows.astype(_ROW)
    # Below source_end all is on the other cluster, from source_tail on nothing is; what is stranded in between was
    # overtaken by what was mirrored behind it.
    mirrored = [place not in there.copied_back for place in rows[PARTITION_COLUMNS].itertuples(index=False, name=None)]
    frontier = rows.loc[mirrored, [*PARTITION_COLUMNS, "frontier", "resumes", "from_offset"]].rename(
        columns={"frontier": "source_end", "resumes": "source_resumes", "from_offset": "source_tail"}
    )
    topics = by_topic(rows, there.gone)
    told = {
        "rows": digest,
        "frontier": frontier.to_numpy().tolist(),
        "gone": sorted([*tp, count] for tp, count in there.gone.items()),
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
        digest=digest_of(told),
        topics=topics,
        compacted=sorted(compacted_of(procedure, there) & {one.topic for one in topics}),
        **{name: sum(getattr(one, name) for one in topics) for name in (*COUNTS, "inexact")},
        first_at=min((one.first_at for one in topics if one.first_at is not None), default=None),
        last_at=max((one.last_at for one in topics if one.last_at is not None), default=None),
        frontier=procedure.artifacts.save("frontier", frontier),
        export=StrandedExport(folder, files["files"], files["older"]),
        returned_ends=procedure.artifacts.save("returned_ends", partitions_frame(there.ends, "offset")),
    )


def with_sizes(sizes: dict[str, Any], **found: Any) -> StrandedRecordsFound:
    """What was found, with how much is copied, and deleted where the sizes say that."""
    shape = StrandedRecordsFoundWithSizes if "bytes_there" in found | sizes else StrandedRecordsFound
    return shape(**found | sizes)


def compacted_of(procedure: Run, there: ReturnedClusterLogs) -> set[str]:
    """Topics of the returned cluster that are compacted there, or whose copies are."""
    names = {tp.topic: copy.topic for tp, copy in there.remote.items()}
    copies = compacted_in(procedure.systems.source.configs(sorted(set(names.values()))))
    return compacted_in(procedure.systems.target.configs(sorted(names))) | {
        topic for topic, copy in names.items() if copy in copies
    }


def by_topic(rows: pd.DataFrame, gone: dict[TopicPartition, int]) -> list[StrandedTopic]:
    """Of each topic with stranded, older or lacking records: how many, how large and from when."""
    lost = pd.DataFrame(
        [{**dict.fromkeys(COUNTS, 0), "topic": tp.topic, "lacking": count, "exact": True} for tp, count in gone.items()]
    )
    both = pd.concat([rows, lost.astype({"lacking": "int64"})], ignore_index=True) if len(lost) else rows
    told = both.assign(inexact=(~both["exact"].astype(bool)).astype("int64")).groupby("topic", sort=True)
    sums = (
        told[[*COUNTS, "inexact"]]
        .sum()
        .astype("int64")
        .join(told.agg(first_at=("first_at", "min"), last_at=("last_at", "max")).astype("Int64"))
    )
    some = sums[(sums[["records", "lacking", "older", "inexact"]] > 0).any(axis=1)]
    counts = some.reset_index().astype(object).replace({pd.NA: None})
    topics: list[dict[Any, Any]] = counts.to_dict("records")
    return [StrandedTopic(**topic) for topic in topics]


def found_before_deleting(procedure: Run) -> Run | None:
    """The run since the last failover that found stranded records, then deleted topics; None where none did."""
    deleting = PairJournal(procedure).same_way(TopicsToDelete, Step.PREPARE_TOPICS)
    # One that died before it had deleted anything has left all records where they were.
    return next((one for _, one, _ in deleting if one.id == procedure.id or deleted_since(procedure, one)), None)


def taken_over(procedure: Run, finder: Run) -> StrandedRecordsFound:
    """What was found before topics were deleted; the records are in its export, and nowhere else."""
    found = finder.progress.require(StrandedRecordsFound)
    if finder.id == procedure.id:
        return found

    def copied(name: str, receipt: Receipt) -> Receipt:
        return procedure.artifacts.save(name, finder.artifacts.load(receipt))

    export, gone = found.export, deleted_since(procedure, finder)
    return with_sizes(
        copy_sizes(procedure, procedure.require_other(found.after), gone),
        **vars(found)
        | {
            "frontier": copied("frontier", found.frontier),
            "returned_ends": copied("returned_ends", found.returned_ends),
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
    """Topics of the returned cluster noted for deletion that now have another id or are gone, sorted."""
    noted = noted_topics(finder) or {}
    infos = procedure.systems.target.topics(noted)
    return sorted(name for name, was in noted.items() if name not in infos or infos[name].topic_id != was.topic_id)
