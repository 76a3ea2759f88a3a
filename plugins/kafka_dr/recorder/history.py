"""A flow by the flight recorder's archive: newest states, and the history that translates positions.

Invariants
1. Rows of a recreated topic count only since its recreation: earlier rows describe another log.
2. Rows of a topic that was deleted on the source, by the source's last answer, do not count.
3. Rows of groups and positions count only since the last whole listing: a group or position that the listing lacks is
   gone, or belongs to an earlier group of the same name.
4. Hours are read backwards until a sample of the source and a whole listing of groups are found, and every position
   lies above a sample of its partition; or until no hour is left, or too many rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kafka_dr.domain.recorder_rows import Kind, RowPlace, sample_details
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.groups import WHOLE
from kafka_dr.recorder.loop import SAMPLES, SCHEMA

PARTITION = ["topic", "partition"]
_MOST_ROWS = 20_000_000


@dataclass(frozen=True)
class Recorded:
    """The archive's content as frames; times are milliseconds since 1970. An empty frame means unknown.

    Attributes:
        partitions: one row per partition, as of the source's last answer: topic, partition, target_topic, topic_id,
            target_topic_id, source_start, source_end, replicated, sampled_at.
        floors: one row per sample and partition: topic, partition, source_end, target_end, replicated, sampled_at.
            target_end was read before source_end, so records from source_end on have their copies at or above
            target_end. Samples up to the reverse flow's last activity are left out.
        syncs: MirrorMaker 2's offset syncs in the order written: topic, partition, upstream, downstream, sequence.
        pairs: content pairs: topic, partition, upstream, downstream, source_end, records, sampled_at.
        positions: group, topic, partition, position, position_at: when the position was last confirmed.
        groups: group, members, state.
        last_at: start of the last sample; None without samples.
        source_at: when the source last answered; None if never.
        problems: what the last sample could not read.
        gone: topics of the flow that were deleted on the source by its last answer.
        anew: topics whose copy on the target was recreated: records mirrored before were deleted with the older copy,
            whatever offset Connect stores.
        flowed_back: whether the reverse flow may have mirrored into these topics, so that clients wrote into their
            copies on the target. Also True if no sample states it, as in dedicated mode.
        groups_at: when all groups and positions were last read; None without a whole listing.
        read_to: next offsets to read in MirrorMaker 2's topics, as of the sample at groups_at.
    """

    partitions: pd.DataFrame
    floors: pd.DataFrame
    syncs: pd.DataFrame
    pairs: pd.DataFrame
    positions: pd.DataFrame
    groups: pd.DataFrame
    last_at: int | None
    source_at: int | None
    problems: tuple[str, ...]
    groups_at: int | None
    read_to: Mapping[RowPlace, int]
    gone: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    flowed_back: bool = False

    @property
    def stretches(self) -> pd.DataFrame:
        """Gapless source ranges [start, end); record `downstream` is a copy of record `start` or of a lower one."""
        gapless = self.pairs[self.pairs["records"] == self.pairs["source_end"] - self.pairs["upstream"] - 1]
        return gapless[PARTITION].assign(
            start=gapless["upstream"], end=gapless["source_end"], downstream=gapless["downstream"]
        )


def last_known(archive: Archive, most_rows: int = _MOST_ROWS) -> Recorded:
    """Read the archive backwards from its newest hour.

    Args:
        most_rows: no further hour is read once this number is exceeded; positions below all samples read have no floor.

    Raises:
        ArchiveUnavailable: the archive cannot be read.
    """
    tables: list[pa.Table] = []
    below_samples: pd.DataFrame | None = None
    for hour in archive.back(SAMPLES):
        tables.insert(0, _without_superseded_rows(hour))
        # The newest hour may have started a moment ago and hold no sample of the source yet.
        if len(tables) < 2:
            continue
        if below_samples is not None:
            below_samples = _still_below_samples(below_samples, hour)
        elif (recorded := read_samples(tables)).source_at is not None and recorded.groups_at is not None:
            below_samples = _positions_below_samples(recorded)
        if sum(map(len, tables)) > most_rows or (below_samples is not None and below_samples.empty):
            break
    return read_samples(tables)


def _without_superseded_rows(hour: pa.Table) -> pa.Table:
    """Keep only the newest row of each position and no checkpoints: active groups write millions of rows an hour."""
    kind = hour["kind"]
    positions = hour.filter(pc.equal(kind, Kind.POSITION.value)).sort_by("at")
    keys = positions.select(["group", *PARTITION]).append_column("row", pa.array(range(len(positions)), pa.int64()))
    newest = keys.group_by(["group", *PARTITION]).aggregate([("row", "max")])["row_max"]
    others = hour.filter(pc.invert(pc.is_in(kind, pa.array([Kind.POSITION.value, Kind.CHECKPOINT.value]))))
    return pa.concat_tables([others, positions.take(newest)])


def _positions_below_samples(recorded: Recorded) -> pd.DataFrame:
    """Lowest position of each partition below its oldest sample and above its log start."""
    oldest = recorded.floors.groupby(PARTITION, as_index=False)["source_end"].min()
    positions = recorded.positions.merge(oldest, on=PARTITION).merge(
        recorded.partitions[[*PARTITION, "source_start"]], on=PARTITION
    )
    below = (positions["position"] < positions["source_end"]) & (
        positions["position"] > positions["source_start"].fillna(0)
    )
    return positions[below].groupby(PARTITION, as_index=False)[["position"]].min()


def _still_below_samples(positions: pd.DataFrame, hour: pa.Table) -> pd.DataFrame:
    """Keep positions below an older hour's samples too; a partition without samples in it did not exist yet."""
    samples = hour.filter(pc.is_valid(hour["source_end"]))
    oldest = samples.group_by(PARTITION).aggregate([("source_end", "min")]).to_pandas()
    compared = (
        positions.merge(oldest, on=PARTITION)
        if len(samples)
        else positions.assign(source_end_min=positions["position"] + 1)
    )
    return compared[compared["position"] < compared["source_end_min"]][[*PARTITION, "position"]]


def read_samples(tables: Iterable[pa.Table]) -> Recorded:
    """Build the flow's state and history from samples in the order in which they were taken."""
    all_rows = _frame(tables)
    rows = _since_recreation(all_rows)
    gone = _deleted_topics(rows)
    rows = rows[~rows["topic"].isin(gone)]
    of = {kind: rows[rows["kind"] == kind.value] for kind in Kind}
    samples, partition_rows = of[Kind.SAMPLE], _with_last_replicated(of[Kind.PARTITION])
    sample_reports: list[dict[str, Any]] = [
        {"at": at, **sample_details(details)}
        for at, details in zip(samples["at"].tolist(), samples["details"], strict=True)
    ]
    source_at = max((report["at"] for report in sample_reports if report["source_answered"]), default=None)
    listed_at = max((report["at"] for report in sample_reports if report.get("groups_read") == WHOLE), default=None)
    last_listing: dict[str, Any] = (
        next((report for report in reversed(sample_reports) if report.get("groups_read")), {})
        if listed_at is not None
        else {}
    )
    flowed_back_at = _flowed_back_at(sample_reports)
    groups, positions = (of[kind][of[kind]["at"] >= (listed_at or 0)] for kind in (Kind.GROUP, Kind.POSITION))
    return Recorded(
        partitions=_newest_partitions(partition_rows, source_at),
        floors=_floors(partition_rows, source_at, flowed_back_at),
        syncs=of[Kind.SYNC]
        .drop_duplicates("sequence")
        .sort_values("sequence")[[*PARTITION, "upstream", "downstream", "sequence"]],
        pairs=of[Kind.PAIR].rename(columns={"at": "sampled_at"})[
            [*PARTITION, "upstream", "downstream", "source_end", "records", "sampled_at"]
        ],
        positions=_positions(positions, groups, last_listing.get("at")),
        groups=groups.drop_duplicates("group", keep="last").query("state != 'Gone'")[["group", "members", "state"]],
        last_at=max(samples["at"].tolist(), default=None),
        source_at=source_at,
        problems=tuple(sample_reports[-1]["problems"]) if sample_reports else (),
        groups_at=last_listing.get("at"),
        read_to={RowPlace(*place): offset for *place, offset in last_listing.get("read_to") or ()},
        gone=gone,
        anew=tuple(sorted(_recreated_at(all_rows, "target_topic_id").keys() - {*gone})),
        flowed_back=flowed_back_at >= 0 or all(report.get("flows_back") is None for report in sample_reports),
    )


def _frame(tables: Iterable[pa.Table]) -> pd.DataFrame:
    samples = pa.concat_tables([SCHEMA.empty_table(), *(table.select(SCHEMA.names).cast(SCHEMA) for table in tables)])
    frame: pd.DataFrame = samples.to_pandas(
        types_mapper=lambda kind: pd.Int64Dtype() if pa.types.is_integer(kind) else None
    )
    return frame.sort_values("at", kind="stable", ignore_index=True)


def _deleted_topics(rows: pd.DataFrame) -> tuple[str, ...]:
    """Topics that were deleted on the source and have no later sample."""
    deleted, existing = (
        rows["kind"] == Kind.TOPIC.value,
        (rows["kind"] == Kind.PARTITION.value) & rows["source_end"].notna(),
    )
    newest = rows[deleted | existing].drop_duplicates("topic", keep="last")
    return tuple(sorted(newest.loc[newest["kind"] == Kind.TOPIC.value, "topic"]))


def _since_recreation(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop a topic's rows from before its recreation; pairs of that very sample may belong to the older log."""
    source, target = (
        rows["topic"].map(_recreated_at(rows, column)).fillna(-1) for column in ("topic_id", "target_topic_id")
    )
    pairs = rows["kind"].isin([Kind.SYNC.value, Kind.CHECKPOINT.value, Kind.PAIR.value])
    older = (rows["at"] < source) | ((rows["at"] < target) & (rows["kind"] != Kind.POSITION.value))
    return rows[~(older | (pairs & (rows["at"] <= np.maximum(source, target))))].reset_index(drop=True)


def _recreated_at(rows: pd.DataFrame, column: str) -> dict[str, int]:
    """When each recreated topic was first sampled with its newest id, in milliseconds since 1970."""
    with_id = rows[(rows["kind"] == Kind.PARTITION.value) & rows[column].notna()]
    previous_id = with_id.groupby("topic")[column].shift()
    changed = with_id[previous_id.notna() & (previous_id != with_id[column])]
    return {str(topic): int(at) for topic, at in changed.groupby("topic")["at"].max().items()}


def _newest_partitions(partition_rows: pd.DataFrame, source_at: int | None) -> pd.DataFrame:
    """Each partition as of the source's last answer; a row is valid until the next row of its partition."""
    newest = partition_rows[partition_rows["source_end"].notna()].drop_duplicates(PARTITION, keep="last")
    names = [*PARTITION, "target_topic", "topic_id", "target_topic_id", "source_start", "source_end", "replicated"]
    return newest[names].assign(sampled_at=pd.array([source_at] * len(newest), "Int64"))


def _with_last_replicated(partition_rows: pd.DataFrame) -> pd.DataFrame:
    """Fill gaps in `replicated` with Connect's last answer: a restarted recorder may get none."""
    return partition_rows.assign(replicated=partition_rows.groupby(PARTITION)["replicated"].ffill())


def _flowed_back_at(sample_reports: list[dict[str, Any]]) -> int:
    """When the reverse flow last may have mirrored, -1 if never; without an answer its last answer counts."""
    last, flows = -1, False
    for report in sample_reports:
        flows = flows if (answer := report.get("flows_back")) is None else answer
        last = report["at"] if flows else last
    return last


def _floors(partition_rows: pd.DataFrame, source_at: int | None, flowed_back_at: int) -> pd.DataFrame:
    """Log ends of source and target at each sample since the reverse flow was last active.

    Earlier samples are no floors: records that the reverse flow wrote at or above the source's end may be copies of
    target records below the target's end.
    """
    names = [*PARTITION, "source_end", "target_end", "replicated", "sampled_at"]
    # Rows are written on change only: an unchanged partition was confirmed at the source's last answer.
    last = partition_rows[partition_rows["at"] <= (source_at or 0)].drop_duplicates(PARTITION, keep="last")
    confirmed = last[last["at"] < (source_at or 0)].assign(at=source_at)
    floors = (
        pd.concat([partition_rows, confirmed], ignore_index=True)
        .astype({"at": "Int64"})
        .rename(columns={"at": "sampled_at"})
    )
    return (
        floors[floors["sampled_at"] > flowed_back_at][names]
        .dropna(subset=["source_end", "target_end"])
        .reset_index(drop=True)
    )


def _positions(rows: pd.DataFrame, groups: pd.DataFrame, groups_at: int | None) -> pd.DataFrame:
    """The newest existing position of each group and partition, without rows from before a group's deletion."""
    newest = rows.drop_duplicates(["group", *PARTITION], keep="last")
    deleted_at = (
        newest["group"].map(groups[groups["state"] == "Gone"].groupby("group")["at"].max().to_dict()).fillna(-1)
    )
    current = newest[newest["position"].notna() & (newest["at"] > deleted_at)]
    # Rows are written on change only: an unchanged position was confirmed by the last listing.
    at = current["at"] if groups_at is None else groups_at
    return (
        current.assign(position_at=at)[["group", *PARTITION, "position", "position_at"]]
        .astype({"position_at": "Int64"})
        .reset_index(drop=True)
    )
