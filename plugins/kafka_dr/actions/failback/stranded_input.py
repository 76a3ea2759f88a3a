"""The input of find_stranded_records."""

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
from kafka_dr.actions.history.journal_lineage import begun_then
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

#: Most records of a partition and side that are compared: a worker of Spark takes some 150 bytes for each while it
#: reads.
_COMPARED_AT_MOST = 5_000_000
#: How long a task of Spark may read: so long, and a second more for so many records of both logs.
_READ_SECONDS, _READ_A_SECOND = 60, 20_000
_NO_SYNCS = pd.DataFrame(columns=[*PARTITION_COLUMNS, "upstream", "downstream", "sequence"]).astype(
    {"partition": "int32"} | dict.fromkeys(("upstream", "downstream", "sequence"), "int64")
)
_NOTHING_KEPT = pd.DataFrame(columns=[*PARTITION_COLUMNS, "offset"]).astype(
    {"topic": object, "partition": "int32", "offset": "int64"}
)


def write_inputs(folder: Path, procedure: Run, failover: Run, there: ReturnedClusterLogs) -> dict[str, Any]:
    """What find_stranded_records reads; answers what its job.json says."""
    both, assessed = StrandedBounds(procedure, failover, there), failover.progress.done(DataLossAssessed)
    bounds = both.bounds()
    write_frame(folder, "bounds", bounds)
    write_frame(folder, "returned", both.returned())
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
        "whole": compares_whole_logs(procedure),
    }


class StrandedBounds:
    """Both logs of each partition, as the job wants them."""

    def __init__(self, procedure: Run, failover: Run, there: ReturnedClusterLogs) -> None:
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
        self._partitions = pd.DataFrame(list(there.remote), columns=PARTITION_COLUMNS).astype(
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
            restamped=append_time_in(configs),
            recreated=recreated_since_failover(self._procedure, self._failover),
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
            frame = with_partition_column(frame, values, name)
        return frame.astype({"partition": "int32"})


def begun_at(
    procedure: Run, failover: Run, there: ReturnedClusterLogs
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
    if names_separate_directions(procedure):
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
    for _, one in completed_moves(procedure):
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
        files = [one for one in exported_partitions(failback) if now.get(one.topic, "") == ids.get(one.topic)]
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


def recreated_since_failover(procedure: Run, failover: Run) -> set[str]:
    """Topics of the returned cluster that have another id than when clients left."""
    ids = failover.progress.move().planned.topic_ids
    return {
        topic for topic, info in procedure.systems.target.topics(sorted(ids)).items() if info.topic_id != ids[topic]
    }
