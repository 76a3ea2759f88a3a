"""Write the input files of the Spark job find_stranded_records.

The *failover* is the procedure that moved clients from the returned cluster to the new primary. The *copy* of a
partition of the returned cluster is the partition of the new primary with the same records. *Kept* records are stranded
records that an earlier failback in mode append left in the returned cluster's log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.failback.returned_logs import ReturnedClusterLogs
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.failback.stranded_export import exported_partitions
from kafka_dr.actions.failback.stranded_search import (
    PARTITION_COLUMNS,
    compares_whole_logs,
    opened_before,
    will_be_deleted,
)
from kafka_dr.actions.history.journal_lineage import offsets_seeded
from kafka_dr.actions.history.moves import completed_moves
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.replication.reverse import ends_at_opening
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.plan_scope import cut_off_of
from kafka_dr.actions.scope.position_frames import frame_partitions, with_partition_column
from kafka_dr.actions.scope.topic_settings import append_time_in
from kafka_dr.actions.spark_jobs import contract_frame, write_frame
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction
from kafka_dr.procedure.entries import (
    DataLossAssessed,
    FlowBackSeeded,
    MirrorMakerStopped,
    ProducersFenced,
    StrandedRecordsFound,
)
from kafka_dr.procedure.run import Run

#: Most records that are compared per partition and cluster, because a Spark worker needs some 150 bytes per record.
_COMPARED_AT_MOST = 5_000_000
#: Deadline of a Spark task's reading: _READ_SECONDS, and one second more per _READ_A_SECOND offsets of both logs.
_READ_SECONDS, _READ_A_SECOND = 60, 20_000
_NO_SYNCS = pd.DataFrame(columns=[*PARTITION_COLUMNS, "upstream", "downstream", "sequence"]).astype(
    {"partition": "int32"} | dict.fromkeys(("upstream", "downstream", "sequence"), "int64")
)
_NO_KEPT_RECORDS = pd.DataFrame(columns=[*PARTITION_COLUMNS, "offset"]).astype(
    {"topic": object, "partition": "int32", "offset": "int64"}
)


def write_inputs(folder: Path, procedure: Run, failover: Run, logs: ReturnedClusterLogs) -> dict[str, Any]:
    """Write the job's input files to `folder`, and return the fields of its job.json.

    Args:
        logs: state of the returned cluster's logs.
    """
    log_bounds, assessed = StrandedBounds(procedure, failover, logs), failover.progress.done(DataLossAssessed)
    bounds = log_bounds.bounds()
    write_frame(folder, "bounds", bounds)
    write_frame(folder, "returned", log_bounds.returned())
    kept = kept_before(procedure) if will_be_deleted(procedure) else pd.DataFrame()
    if len(kept):
        write_frame(folder, "kept", kept)
    write_frame(folder, "syncs", failover.artifacts.load(assessed.syncs) if assessed else _NO_SYNCS)
    if assessed:
        floors = contract_frame(failover.artifacts.load(assessed.floors), "source_end", "target_end", "sampled_at")
        write_frame(folder, "floors", floors)
    offsets = (bounds["cut_off"] - bounds["source_start"]).sum() + (bounds["boundary"] - bounds["target_start"]).clip(
        lower=0
    ).sum()
    offsets += sum(max(end - logs.resumes[tp], 0) for tp, end in logs.ends.items()) if will_be_deleted(procedure) else 0
    seconds = _READ_SECONDS + int(offsets) // _READ_A_SECOND
    return {
        "isolation": procedure.reversed.flow.isolation,
        "source_readable": True,
        "source_final": True,
        "content_limit": _COMPARED_AT_MOST,
        "deadline_seconds": seconds,
        "whole": compares_whole_logs(procedure),
    }


class StrandedBounds:
    """Builds the job's inputs `bounds` and `returned`: offsets of the returned cluster's partitions and copies."""

    def __init__(self, procedure: Run, failover: Run, logs: ReturnedClusterLogs) -> None:
        """Read log starts and log ends of the copies from the new primary."""
        self._procedure, self._failover, self._logs = procedure, failover, logs
        infos = procedure.systems.source.topics({copy.topic for copy in logs.remote.values()})
        comparable = {*logs.boundary, *(logs.remote[tp] for tp in logs.copied_back)}
        # Also topics that were created after the failover, because mode recreate deletes these on the returned cluster.
        self._all_copies = {
            tp: copy
            for tp, copy in logs.remote.items()
            if copy.topic in infos and copy.partition in infos[copy.topic].partitions
        }
        self._copies = {tp: copy for tp, copy in self._all_copies.items() if copy in comparable}
        self._starts, self._ends = (
            ask(list(self._all_copies.values()))
            for ask in (procedure.systems.source.starts, procedure.systems.source.ends)
        )
        self._flow_starts, self._first_copies = begun_at(procedure, failover, logs)
        self._partitions = pd.DataFrame(list(logs.remote), columns=PARTITION_COLUMNS).astype(
            {"topic": object, "partition": "int32"}
        )

    def bounds(self) -> pd.DataFrame:
        """Return the job's input `bounds`, with a row per partition of the returned cluster; null: unknown.

        On the returned cluster: `source_start` (log start) and `cut_off` (log end before the flow back wrote). In the
        copy: `target_start` (log start) and `boundary` (log end before clients wrote on the new primary).
        """
        logs, source, target = self._logs, self._procedure.systems.source, self._procedure.systems.target
        configs = target.configs(sorted({tp.topic for tp in logs.remote}))
        return bounds_of(
            logs.remote,
            source_start={tp: min(start, logs.resumes[tp]) for tp, start in logs.starts.items()},
            cut_off=logs.resumes,
            target_start={copy: self._starts[copy] for copy in self._copies.values()},
            # A copy that was recreated after the failover may end below the boundary.
            boundary={
                copy: min(logs.boundary.get(copy, self._ends[copy]), self._ends[copy]) for copy in self._copies.values()
            },
            source_configs=configs,
            target_configs=source.configs(sorted({copy.topic for copy in logs.remote.values()})),
            restamped=append_time_in(configs),
            recreated=recreated_since_failover(self._procedure, self._failover),
        )

    def returned(self) -> pd.DataFrame:
        """Return the job's input `returned`, with a row per partition of the returned cluster; null: unknown.

        The schema `returned.json` of the Spark jobs says what each column means.
        """
        logs, replicated = self._logs, self._failover.progress.require(MirrorMakerStopped).replicated
        columns = {
            "source_from": {tp: self._flow_starts[tp] if tp in self._first_copies else 0 for tp in logs.remote},
            "target_from": {tp: self._first_copies.get(tp, 0) for tp in logs.remote},
            "proven_end": logs.proven,
            "replicated": (frame_partitions(self._failover.artifacts.load(replicated), "offset") if replicated else {}),
            "stable_end": {tp: min(end, logs.resumes[tp]) for tp, end in logs.stable.items()},
            "target_end": {tp: self._ends[copy] for tp, copy in self._all_copies.items()},
            "decided_to": {tp: self._flow_starts.get(tp, 0) for tp in logs.remote},
            "deleted_to": logs.ends if will_be_deleted(self._procedure) else {},
            "written_from": {
                tp: max(logs.boundary.get(copy, 0), self._starts[copy]) for tp, copy in self._all_copies.items()
            },
        }
        rows = self._partitions.itertuples(index=False, name=None)
        return self._with(self._partitions, columns).assign(copied_back=[row in logs.copied_back for row in rows])

    @staticmethod
    def _with(frame: pd.DataFrame, columns: dict[str, dict[TopicPartition, int]]) -> pd.DataFrame:
        for name, values in columns.items():
            frame = with_partition_column(frame, values, name)
        return frame.astype({"partition": "int32"})


def begun_at(
    procedure: Run, failover: Run, logs: ReturnedClusterLogs
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return where the flow returned cluster -> new primary began when clients last came to the returned cluster.

    On the returned cluster, records below this start offset came from the new primary, or an earlier failback decided
    on these records. If the two flows write to topics of different names, the new primary also has the flow's older
    copies. The offset of the first newer copy is then known only if the flow's start offset was seeded.

    Returns:
        Partition of the returned cluster -> start offset; and partition of the returned cluster -> offset of the first
        copied record on the new primary, which lacks partitions for which the journal does not state this offset. Both
        are {} if no earlier procedure moved clients to the returned cluster, or if the returned cluster's logs will be
        deleted, because then all records are compared again.
    """
    earlier = None if will_be_deleted(procedure) else opened_before(procedure, failover)
    if earlier is None:
        return {}, {}
    flow_starts = {tp: end for tp, end in ends_at_opening(earlier).items() if tp in logs.remote}
    if names_separate_directions(procedure):
        # `failover` may be a failback in mode recreate: it copied the returned cluster's log to the new primary again
        # from the beginning, kept stranded records included.
        seeded = {} if mode_of(failover) is Mode.RECREATE else offsets_seeded(procedure.reversed, earlier)
        return flow_starts, {
            tp: seeded[tp].target_end
            for tp, start in flow_starts.items()
            if tp in seeded and seeded[tp].replicated + 1 == start
        }
    if earlier.progress.done(ProducersFenced) is None:
        return flow_starts, {}
    cut_off = cut_off_of(earlier)
    return flow_starts, {tp: cut_off[logs.remote[tp]] for tp in flow_starts if logs.remote[tp] in cut_off}


def kept_before(procedure: Run) -> pd.DataFrame:
    """Return the kept records of the returned cluster, one row each: topic, partition, offset.

    No flow mirrors kept records later, because each flow was seeded after them. Left out are kept records of topics
    that were recreated after that failback, and kept records whose export has missing or changed files.
    """
    returned, kept = procedure.request.target, [_NO_KEPT_RECORDS]
    for _, move in completed_moves(procedure):
        if mode_of(move) is Mode.RECREATE:
            kept = [_NO_KEPT_RECORDS]
        elif move.request.target == returned and move.progress.done(StrandedRecordsFound) is not None:
            kept.append(_kept_by(move))
    return pd.concat(kept, ignore_index=True)


def _kept_by(failback: Run) -> pd.DataFrame:
    seeded = failback.progress.done(FlowBackSeeded)
    ids = seeded.topic_ids if seeded else {}
    current_ids = {name: info.topic_id for name, info in failback.systems.target.topics(sorted(ids)).items()}
    try:
        exported = [
            part for part in exported_partitions(failback) if current_ids.get(part.topic, "") == ids.get(part.topic)
        ]
        for part in exported:
            part.verify(failback.artifacts.files)
    except Contradiction:
        return _NO_KEPT_RECORDS
    offsets = {part.topic_partition: part.offsets() for part in exported}
    rows = [
        pd.DataFrame({"topic": tp.topic, "partition": tp.partition, "offset": stranded})
        for tp, stranded in offsets.items()
        if len(stranded)
    ]
    return pd.concat([_NO_KEPT_RECORDS, *rows], ignore_index=True).astype(_NO_KEPT_RECORDS.dtypes.to_dict())


def recreated_since_failover(procedure: Run, failover: Run) -> set[str]:
    """Return the topics of the returned cluster whose topic ids differ from the ids at the failover."""
    ids = failover.progress.moved_topic_ids()
    return {
        topic for topic, info in procedure.systems.target.topics(sorted(ids)).items() if info.topic_id != ids[topic]
    }
