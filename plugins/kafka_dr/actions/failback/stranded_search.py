"""Find records of the returned cluster that were never replicated, and export them before anything changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.failback.copy_sizes import copy_sizes
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.fencing.acl_fence import boundary_of, cut_off_of
from kafka_dr.actions.old_source.lost_source_fence import mirrored_of
from kafka_dr.actions.history.journal_lineage import begun_then
from kafka_dr.actions.readiness.observe import remote_partitions, side_by_side
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame, placed
from kafka_dr.actions.failback.topic_recreation import noted_topics
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.replication.drain import compacted_in, stamped_in
from kafka_dr.actions.replication.reverse import ends_at_opening
from kafka_dr.actions.spark_jobs import plain, run_spark_job, write_frame
from kafka_dr.actions.failback.stranded_export import exported
from kafka_dr.actions.failback.resync_scope import (
    PairJournal,
    first_noted,
    moved_clients,
    names_protect,
    partitions_of,
    topics_back,
)
from kafka_dr.procedure.entries import (
    DataLossAssessed,
    EndsNoted,
    FlowBackSeeded,
    MirrorMakerStopped,
    ProducersFenced,
    Receipt,
    StrandedExport,
    StrandedRecordsFound,
    StrandedRecordsFoundWithSizes,
    StrandedTopic,
    TopicsToDelete,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

JOB = "find_stranded_records"
#: Most records of a partition and side that are compared: a worker of Spark takes some 150 bytes for each while it
#: reads.
_COMPARED_AT_MOST = 5_000_000
#: How long a task of Spark may read: so long, and a second more for so many records of both logs.
_READ_SECONDS, _READ_A_SECOND = 60, 20_000
_PLACE = ["topic", "partition"]
_COUNTS = ("records", "bytes", "aborted", "undecided", "lacking", "older", "older_bytes")
_ROW = {
    "frontier": "int64",
    "from_offset": "int64",
    "resumes": "int64",
    **dict.fromkeys(_COUNTS, "int64"),
    "first_at": "Int64",
    "last_at": "Int64",
    "exact": "bool",
}
_NO_SYNCS = pd.DataFrame(columns=[*_PLACE, "upstream", "downstream", "sequence"]).astype(
    {"partition": "int32"} | dict.fromkeys(("upstream", "downstream", "sequence"), "int64")
)
_NOTHING_KEPT = pd.DataFrame(columns=[*_PLACE, "offset"]).astype(
    {"topic": object, "partition": "int32", "offset": "int64"}
)
_FILES = ["file", "sha256", "uncommitted_sha256", "older_file", "older_sha256"]
#: What is exported: which column counts it, which one names its file, and what the receipt holds.
_EXPORTED = {
    "files": ("records", "file", "file", "sha256", "uncommitted_sha256"),
    "older": ("older", "older_file", "older_file", "older_sha256"),
}


class FindStrandedRecords(ProcedureStep):
    """Find records of the returned cluster that the cluster clients went to never got, and export them."""

    expires = True

    def act(self, procedure: Run, context: Any) -> StrandedRecordsFound:
        """Keep what was found before a deletion; else search, by records where nothing else proves the answer."""
        deleted = found_before_deleting(procedure)
        if deleted is not None:
            return taken_over(procedure, deleted)
        failover = last_failover(procedure)
        there = LogsThere.of(procedure, failover)
        if there.nothing_beyond and not looks_at_all(procedure):
            rows, digest, folder = there.untouched(), None, ""
        else:
            made = run_spark_job(
                procedure.reversed,
                context,
                JOB,
                lambda given: write_inputs(given, procedure, failover, there),
                "Spark did not look for stranded records",
            )
            rows = pd.read_parquet(made / "stranded_summary.parquet", dtype_backend="numpy_nullable").astype(
                {"partition": "int32"}
            )
            digest, folder = json.loads((made / "summary.json").read_text(encoding="utf-8"))["digest"], made.name
        return figures_of(procedure, failover, there, rows, folder, digest)


def looks_at_all(procedure: Run) -> bool:
    """Whether also what was proven is compared: because it was asked for, or because the old log will be deleted."""
    return procedure.request.choices.get("compare") == "whole" or will_be_deleted(procedure)


def will_be_deleted(procedure: Run) -> bool:
    """Whether clients' logs on the returned cluster will be deleted, with what the flow back added to them."""
    return mode_of(procedure) is Mode.RECREATE and not names_protect(procedure)


def deleted_copies(procedure: Run) -> list[TopicPartition]:
    """Returned cluster's copies of the new primary's own topics that the run deletes; none under identity naming."""
    if mode_of(procedure) is not Mode.RECREATE or not names_protect(procedure):
        return []
    return partitions_of(procedure, topics_back(procedure).values())


def last_failover(procedure: Run) -> Run:
    """The procedure that took clients from the returned cluster to where they are now.

    Raises:
        Refusal: no procedure of the journal did, or another one took them elsewhere since.
    """
    moved, request = moved_clients(procedure), procedure.request
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
    before = [one for _, one in moved_clients(procedure) if one.id != failover.id]
    earlier = [one for one in before if one.request.target == failover.request.source]
    return earlier[-1] if earlier else None


@dataclass(frozen=True)
class LogsThere:
    """The returned cluster's logs now, by its partitions.

    Attributes:
        remote: each one's copy on the other cluster.
        resumes: where each ended before the flow back wrote to it.
        proven: below which offset everything was on the other cluster when clients left; only after a failover whose
            source was healthy.
        gone: copies whose partition the returned cluster does not have any more, with how many offsets each holds.
        copied_back: those that hold copies of the other cluster's own topics, and will be deleted; never stranded,
            looked through for what is there only.
    """

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    stable: dict[TopicPartition, int]
    remote: dict[TopicPartition, TopicPartition]
    resumes: dict[TopicPartition, int]
    proven: dict[TopicPartition, int]
    boundary: dict[TopicPartition, int]
    gone: dict[TopicPartition, int]
    copied_back: frozenset[TopicPartition] = frozenset()

    @classmethod
    def of(cls, procedure: Run, failover: Run) -> LogsThere:
        """Ask the returned cluster, and the journal what was proven of it."""
        there = procedure.reversed
        infos = there.systems.source.topics()
        copied = deleted_copies(procedure)
        partitions = [
            *(
                TopicPartition(topic, p)
                for topic in sorted(mirrored_of(there, infos))
                for p in sorted(infos[topic].partitions)
            ),
            *copied,
        ]
        with side_by_side() as start:
            starts, stable = (
                start(there.systems.source.starts, partitions),
                start(there.systems.source.ends, partitions, "read_committed"),
            )
            ends = there.systems.source.ends(partitions)
        boundary, remote = boundary_of(failover), remote_partitions(there, partitions)
        noted = resumed_at(procedure, failover, remote)
        return cls(
            starts=starts.result(),
            ends=ends,
            stable=stable.result(),
            remote=remote,
            # A log that lost its tail ends before.
            resumes={tp: min(end, noted.get(tp, end)) for tp, end in ends.items()},
            proven={} if failover.progress.done(ProducersFenced) is None else cut_off_of(failover),
            boundary=boundary,
            gone=gone_from(procedure, failover, remote, boundary),
            copied_back=frozenset(copied),
        )

    @property
    def nothing_beyond(self) -> bool:
        """Whether every log ends at its proven end when clients left, and no copies are to be looked through."""
        return not self.copied_back and self.resumes == {tp: self.proven.get(tp, 0) for tp in self.resumes}

    def untouched(self) -> pd.DataFrame:
        """Rows of logs that end where they were proven to end."""
        frame = partitions_frame(self.resumes, "resumes")
        told = {
            "frontier": frame["resumes"],
            "from_offset": frame["resumes"],
            **dict.fromkeys(_COUNTS, 0),
            "first_at": None,
            "last_at": None,
            "exact": True,
            "evidence": "it ends where clients left it",
            **dict.fromkeys(_FILES),
        }
        return frame.assign(**told)


def resumed_at(
    procedure: Run, failover: Run, remote: dict[TopicPartition, TopicPartition]
) -> dict[TopicPartition, int]:
    """The returned cluster's log ends before the flow back first ran; {} if it never did, or writes to own topics.

    0 of a partition that was not there then and is on the other cluster: the flow has made it.
    """
    if names_protect(procedure):
        return {}
    opened = failover.journal.entries(failover.id, Step.OPEN_TARGET, Entry.INTENT)[0].sequence
    journal = PairJournal(procedure)
    told = [
        (entry.sequence, frame_partitions(writer.artifacts.load(note.ends_before), "offset"), note.all_noted)
        for step in EndsNoted.steps
        for entry, writer, note in journal.facts(EndsNoted, step, opened)
    ]
    noted, whole = first_noted(told)
    infos = procedure.systems.source.topics({copy.topic for copy in remote.values()}) if whole else {}
    made = [tp for tp, copy in remote.items() if copy.topic in infos and copy.partition in infos[copy.topic].partitions]
    return dict.fromkeys(made, 0) | {tp: end for tp, end in noted.items() if tp in remote}


def gone_from(
    procedure: Run,
    failover: Run,
    remote: dict[TopicPartition, TopicPartition],
    boundary: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Partitions that the failover moved and the returned cluster lacks, by names there -> offsets in their copies."""
    planned = {
        TopicPartition(moved.remote, p): TopicPartition(moved.topic, p)
        for moved in failover.progress.move().planned.topics
        for p in range(moved.partitions)
    }
    missing = [copy for copy, original in planned.items() if copy in boundary and original not in remote]
    infos = procedure.systems.source.topics({copy.topic for copy in missing})
    there = [copy for copy in missing if copy.topic in infos and copy.partition in infos[copy.topic].partitions]
    starts = procedure.systems.source.starts(there) if there else {}
    return {planned[copy]: max(0, boundary[copy] - starts[copy]) for copy in there}


def write_inputs(folder: Path, procedure: Run, failover: Run, there: LogsThere) -> dict[str, Any]:
    """What find_stranded_records reads; answers what its job.json says."""
    both, assessed = Bounds(procedure, failover, there), failover.progress.done(DataLossAssessed)
    bounds = both.bounds()
    write_frame(folder, "bounds", bounds)
    write_frame(folder, "returned", both.returned())
    kept = kept_before(procedure) if will_be_deleted(procedure) else pd.DataFrame()
    if len(kept):
        write_frame(folder, "kept", kept)
    write_frame(folder, "syncs", failover.artifacts.load(assessed.syncs) if assessed else _NO_SYNCS)
    if assessed:
        floors = plain(failover.artifacts.load(assessed.floors), "source_end", "target_end", "sampled_at")
        write_frame(folder, "floors", floors)
    offsets = (bounds["cut_off"] - bounds["source_start"]).sum() + (bounds["boundary"] - bounds["target_start"]).clip(
        lower=0
    ).sum()
    offsets += (
        sum(max(end - there.resumes[tp], 0) for tp, end in there.ends.items()) if will_be_deleted(procedure) else 0
    )
    seconds = _READ_SECONDS + int(offsets) // _READ_A_SECOND
    return {
        "isolation": procedure.reversed.flow.isolation,
        "source_readable": True,
        "source_final": True,
        "content_limit": _COMPARED_AT_MOST,
        "deadline_seconds": seconds,
        "whole": looks_at_all(procedure),
    }


class Bounds:
    """Both logs of each partition, as the job wants them."""

    def __init__(self, procedure: Run, failover: Run, there: LogsThere) -> None:
        """Ask the other cluster for the copies."""
        self._procedure, self._failover, self._there = procedure, failover, there
        infos = procedure.systems.source.topics({copy.topic for copy in there.remote.values()})
        known = {*there.boundary, *(there.remote[tp] for tp in there.copied_back)}
        # Also of topics that were born since: what was copied from them is deleted, too.
        self._all_copies = {
            tp: copy
            for tp, copy in there.remote.items()
            if copy.topic in infos and copy.partition in infos[copy.topic].partitions
        }
        self._copies = {tp: copy for tp, copy in self._all_copies.items() if copy in known}
        self._starts, self._ends = (
            ask(list(self._all_copies.values()))
            for ask in (procedure.systems.source.starts, procedure.systems.source.ends)
        )
        self._begins, self._copied = begun_at(procedure, failover, there)
        self._partitions = pd.DataFrame(list(there.remote), columns=_PLACE).astype(
            {"topic": object, "partition": "int32"}
        )

    def bounds(self) -> pd.DataFrame:
        """One row a partition; cut-off: its end now; boundary: its copy's end before clients wrote there."""
        there, source, target = self._there, self._procedure.systems.source, self._procedure.systems.target
        configs = target.configs(sorted({tp.topic for tp in there.remote}))
        return bounds_of(
            there.remote,
            source_start={tp: min(start, there.resumes[tp]) for tp, start in there.starts.items()},
            cut_off=there.resumes,
            target_start={copy: self._starts[copy] for copy in self._copies.values()},
            # A copy that was made anew since ends below the old boundary.
            boundary={
                copy: min(there.boundary.get(copy, self._ends[copy]), self._ends[copy])
                for copy in self._copies.values()
            },
            source_configs=configs,
            target_configs=source.configs(sorted({copy.topic for copy in there.remote.values()})),
            restamped=stamped_in(configs),
            recreated=made_anew(self._procedure, self._failover),
        )

    def returned(self) -> pd.DataFrame:
        """What else is known of each."""
        there, replicated = self._there, self._failover.progress.require(MirrorMakerStopped).replicated
        columns = {
            "source_from": {tp: self._begins[tp] if tp in self._copied else 0 for tp in there.remote},
            "target_from": {tp: self._copied.get(tp, 0) for tp in there.remote},
            "proven_end": there.proven,
            "replicated": (frame_partitions(self._failover.artifacts.load(replicated), "offset") if replicated else {}),
            "stable_end": {tp: min(end, there.resumes[tp]) for tp, end in there.stable.items()},
            "target_end": {tp: self._ends[copy] for tp, copy in self._all_copies.items()},
            "decided_to": {tp: self._begins.get(tp, 0) for tp in there.remote},
            "deleted_to": there.ends if will_be_deleted(self._procedure) else {},
            "written_from": {
                tp: max(there.boundary.get(copy, 0), self._starts[copy]) for tp, copy in self._all_copies.items()
            },
        }
        places = self._partitions.itertuples(index=False, name=None)
        return self._with(self._partitions, columns).assign(
            copied_back=[place in there.copied_back for place in places]
        )

    @staticmethod
    def _with(frame: pd.DataFrame, columns: dict[str, dict[TopicPartition, int]]) -> pd.DataFrame:
        for name, values in columns.items():
            frame = placed(frame, values, name)
        return frame.astype({"partition": "int32"})


def begun_at(
    procedure: Run, failover: Run, there: LogsThere
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where the old flow began in each log when clients came, and its first copies on the other cluster, if known.

    What stands below came from the other cluster, or was decided on then; where all of the log will be deleted, it is
    looked at again. Where names part the directions the flow went on behind its older copies: they are known by where
    it was told to begin then.
    """
    before = None if will_be_deleted(procedure) else opened_before(procedure, failover)
    if before is None:
        return {}, {}
    begins = {tp: end for tp, end in ends_at_opening(before).items() if tp in there.remote}
    if names_protect(procedure):
        # A failover in mode recreate had the copies made anew from the log's beginning, what was kept there among them.
        begun = {} if mode_of(failover) is Mode.RECREATE else begun_then(procedure.reversed, before)
        return begins, {
            tp: begun[tp].target_end
            for tp, begin in begins.items()
            if tp in begun and begun[tp].replicated + 1 == begin
        }
    if before.progress.done(ProducersFenced) is None:
        return begins, {}
    cut_off = cut_off_of(before)
    return begins, {tp: cut_off[there.remote[tp]] for tp in begins if there.remote[tp] in cut_off}


def kept_before(procedure: Run) -> pd.DataFrame:
    """Records of the returned cluster that earlier failbacks exported and left where they were: topic, partition,
    offset. No flow has mirrored them since: each was told to begin behind them.

    Of a topic that was made anew since, on either side, none; nor of an export that is not there any more.
    """
    there, found = procedure.request.target, [_NOTHING_KEPT]
    for _, one in moved_clients(procedure):
        if mode_of(one) is Mode.RECREATE:
            found = [_NOTHING_KEPT]
        elif one.request.target == there and one.progress.done(StrandedRecordsFound) is not None:
            found.append(_left_by(one))
    return pd.concat(found, ignore_index=True)


def _left_by(failback: Run) -> pd.DataFrame:
    seeded = failback.progress.done(FlowBackSeeded)
    ids = seeded.topic_ids if seeded else {}
    now = {name: info.topic_id for name, info in failback.systems.target.topics(sorted(ids)).items()}
    try:
        files = [one for one in exported(failback) if now.get(one.topic, "") == ids.get(one.topic)]
        for one in files:
            one.verify()
    except Contradiction:
        return _NOTHING_KEPT
    offsets = {one.topic_partition: one.offsets() for one in files}
    rows = [
        pd.DataFrame({"topic": tp.topic, "partition": tp.partition, "offset": some})
        for tp, some in offsets.items()
        if len(some)
    ]
    return pd.concat([_NOTHING_KEPT, *rows], ignore_index=True).astype(_NOTHING_KEPT.dtypes.to_dict())


def made_anew(procedure: Run, failover: Run) -> set[str]:
    """Topics of the returned cluster that have another id than when clients left."""
    ids = failover.progress.move().planned.topic_ids
    return {
        topic for topic, info in procedure.systems.target.topics(sorted(ids)).items() if info.topic_id != ids[topic]
    }


def figures_of(
    procedure: Run, failover: Run, there: LogsThere, rows: pd.DataFrame, folder: str, digest: str | None
) -> StrandedRecordsFound:
    """The outcome: what is stranded by topic, and receipts of what was exported and of where each log ends."""
    rows = rows.astype(_ROW)
    # Below source_end all is on the other cluster, from source_tail on nothing is; what is stranded in between was
    # overtaken by what was mirrored behind it.
    mirrored = [place not in there.copied_back for place in rows[_PLACE].itertuples(index=False, name=None)]
    frontier = rows.loc[mirrored, [*_PLACE, "frontier", "resumes", "from_offset"]].rename(
        columns={"frontier": "source_end", "resumes": "source_resumes", "from_offset": "source_tail"}
    )
    topics = by_topic(rows, there.gone)
    told = {
        "rows": digest,
        "frontier": frontier.to_numpy().tolist(),
        "gone": sorted([*tp, count] for tp, count in there.gone.items()),
    }
    files = {
        name: procedure.artifacts.save(f"exported_{name}", rows.loc[rows[file].notna(), [*_PLACE, count, *columns]])
        for name, (count, file, *columns) in _EXPORTED.items()
    }
    return with_sizes(
        copy_sizes(procedure, failover),
        after=failover.id,
        digest=digest_of(told),
        topics=topics,
        compacted=sorted(compacted_of(procedure, there) & {one.topic for one in topics}),
        **{name: sum(getattr(one, name) for one in topics) for name in (*_COUNTS, "inexact")},
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


def compacted_of(procedure: Run, there: LogsThere) -> set[str]:
    """Topics of the returned cluster that are compacted there, or whose copies are."""
    names = {tp.topic: copy.topic for tp, copy in there.remote.items()}
    copies = compacted_in(procedure.systems.source.configs(sorted(set(names.values()))))
    return compacted_in(procedure.systems.target.configs(sorted(names))) | {
        topic for topic, copy in names.items() if copy in copies
    }


def by_topic(rows: pd.DataFrame, gone: dict[TopicPartition, int]) -> list[StrandedTopic]:
    """Of each topic with stranded, older or lacking records: how many, how large and from when."""
    lost = pd.DataFrame(
        [
            {**dict.fromkeys(_COUNTS, 0), "topic": tp.topic, "lacking": count, "exact": True}
            for tp, count in gone.items()
        ]
    )
    both = pd.concat([rows, lost.astype({"lacking": "int64"})], ignore_index=True) if len(lost) else rows
    told = both.assign(inexact=(~both["exact"].astype(bool)).astype("int64")).groupby("topic", sort=True)
    sums = (
        told[[*_COUNTS, "inexact"]]
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
