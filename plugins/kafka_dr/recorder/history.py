"""Reads a flow's newest state, and the history for translating positions, from the flight recorder's archive.

Words of this module: a *floor* is one sample's log ends of a partition on source and target, from which a target offset
for a position at or above the source log end can be derived; a *whole listing* is a sample with all groups and
positions, not only changes.

Invariants
1. Of a recreated topic only the rows after its recreation count, because earlier rows describe another log.
2. Rows of a topic that had been deleted on the source when the source last answered do not count.
3. Of groups and positions only rows from the last whole listing on count: a group or position that the listing lacks
   was deleted, or belongs to an earlier group of the same name.
4. Hours are read, newest first, until they hold an answer of the source, a whole listing, a log end of every partition
   that has a row and, for every position, a floor at or below the position; or until all hours, or more than the
   allowed number of rows, are read.
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
from kafka_dr.recorder.signed_samples import SignedSamples

PARTITION = ["topic", "partition"]
_MOST_ROWS = 20_000_000


@dataclass(frozen=True)
class Recorded:
    """The archive's content as frames; times are milliseconds since 1970. An empty frame: no such row is stored.

    Attributes:
        partitions: one row per partition, as of the source's last answer: topic, partition, target_topic, topic_id,
            target_topic_id, source_start, source_end, replicated (Connect's last replicated offset), sampled_at. For a
            partition that had no leader then, all is as of the newest sample that wrote its log end.
        floors: one row per sample and partition: topic, partition, source_end, target_end, replicated, sampled_at.
            target_end was read before source_end, so source records from source_end on have their target copies at or
            above target_end. Samples up to the reverse flow's last activity are left out: the reverse flow may write
            copies of target records below target_end to the source.
        syncs: MirrorMaker 2's offset syncs in the order written: topic, partition, upstream (source offset), downstream
            (target offset), sequence (the sync's own offset in the offset-syncs topic).
        pairs: content pairs: topic, partition, upstream, downstream, source_end, records (their number on the source
            between upstream and source_end), sampled_at.
        positions: one row per group and partition: group, topic, partition, position, position_at (when the position
            was last confirmed).
        groups: one row per existing group: group, members (their number), state.
        last_at: start of the last sample; None without samples.
        source_at: when the source last answered; None if never.
        problems: what the last sample could not read.
        gone: topics of the flow that had been deleted on the source when the source last answered.
        recreated: source topics whose mirrored topic on the target was deleted and recreated: records mirrored before
            that are gone from the target, although Connect's stored offset counts them as mirrored.
        flowed_back: whether the reverse flow may have mirrored from target to source, which means that clients may have
            written on the target. Also True if no sample states whether the reverse flow ran, as in dedicated mode.
        groups_at: when groups and positions were last read, all or changes only; None without a whole listing.
        read_to: next offsets to read in MirrorMaker 2's internal topics, as of the sample at groups_at.
        signed: whether the samples are signed.
        newest_missing: whether, by the journal, the recorder has stored newer samples.
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
    recreated: tuple[str, ...] = ()
    flowed_back: bool = False
    signed: bool = False
    newest_missing: bool = False

    @property
    def stretches(self) -> pd.DataFrame:
        """Return ranges of source offsets that have a record at every offset, without gaps.

        Returns:
            One row per content pair after which the source had no gap: topic, partition, start, end, downstream. The
            range goes from the pair's source offset (`start`) to the source log end of that sample (`end`, exclusive).
            The target record at `downstream` is a copy of the source record at `start` or at a lower offset.
        """
        gapless = self.pairs[self.pairs["records"] == self.pairs["source_end"] - self.pairs["upstream"] - 1]
        return gapless[PARTITION].assign(
            start=gapless["upstream"], end=gapless["source_end"], downstream=gapless["downstream"]
        )


def last_known(archive: Archive | SignedSamples, most_rows: int = _MOST_ROWS) -> Recorded:
    """Read the archive hour by hour, newest first, as far back as invariant 4 demands; return its content.

    Args:
        most_rows: once more rows than this are read, no further hour is read; some positions then have no floor.

    Raises:
        ArchiveUnavailable: the archive cannot be read.
    """
    tables: list[pa.Table] = []
    below_samples: pd.DataFrame | None = None
    for hour in archive.back(SAMPLES):
        tables.insert(0, _without_superseded_rows(hour))
        # Read two hours at least: the newest may have begun a moment ago and hold no sample of the source yet.
        if len(tables) < 2:
            continue
        if below_samples is not None:
            below_samples = _still_below_samples(below_samples, hour)
        elif _is_complete(recorded := read_samples(tables), tables):
            below_samples = _positions_below_samples(recorded)
        if sum(map(len, tables)) > most_rows or (below_samples is not None and below_samples.empty):
            break
    return read_samples(tables)


def _without_superseded_rows(hour: pa.Table) -> pa.Table:
    """Return an hour's rows, but no checkpoints, and only the newest position row per group, topic and partition.

    This saves memory: active groups add millions of position rows per hour.
    """
    kind = hour["kind"]
    positions = hour.filter(pc.equal(kind, Kind.POSITION.value)).sort_by("at")
    keys = positions.select(["group", *PARTITION]).append_column("row", pa.array(range(len(positions)), pa.int64()))
    newest = keys.group_by(["group", *PARTITION]).aggregate([("row", "max")])["row_max"]
    others = hour.filter(pc.invert(pc.is_in(kind, pa.array([Kind.POSITION.value, Kind.CHECKPOINT.value]))))
    return pa.concat_tables([others, positions.take(newest)])


def _is_complete(recorded: Recorded, tables: Iterable[pa.Table]) -> bool:
    """Whether the hours hold an answer of the source, a whole listing, and a log end of every partition with a row."""
    if recorded.source_at is None or recorded.groups_at is None:
        return False
    known = pd.MultiIndex.from_frame(recorded.partitions[PARTITION])
    rows = pa.concat_tables(table.filter(pc.equal(table["kind"], Kind.PARTITION.value)) for table in tables)
    with_row = rows.group_by(PARTITION).aggregate([]).to_pandas()
    with_row = with_row[~with_row["topic"].isin(recorded.gone)]
    return bool(pd.MultiIndex.from_frame(with_row[PARTITION]).isin(known).all())


def _positions_below_samples(recorded: Recorded) -> pd.DataFrame:
    """Return positions that are too old for a floor among the hours read so far: they lie below every floor.

    Returns:
        One row per partition with such positions: topic, partition, and the lowest such position. A position at or
        below the source's log start is left out.
    """
    oldest = recorded.floors.groupby(PARTITION, as_index=False)["source_end"].min()
    positions = recorded.positions.merge(oldest, on=PARTITION).merge(
        recorded.partitions[[*PARTITION, "source_start"]], on=PARTITION
    )
    below = (positions["position"] < positions["source_end"]) & (
        positions["position"] > positions["source_start"].fillna(0)
    )
    return positions[below].groupby(PARTITION, as_index=False)[["position"]].min()


def _still_below_samples(positions: pd.DataFrame, hour: pa.Table) -> pd.DataFrame:
    """Return which of the given positions also lie below all source log ends that an older hour has.

    If the hour has no source log ends at all, all positions are returned. If the hour has source log ends of other
    partitions only, the position's partition did not exist yet, and the position is left out.

    Args:
        positions: one row per partition: topic, partition, position.
        hour: the older hour's rows.
    """
    samples = hour.filter(pc.is_valid(hour["source_end"]))
    oldest = samples.group_by(PARTITION).aggregate([("source_end", "min")]).to_pandas()
    compared = (
        positions.merge(oldest, on=PARTITION)
        if len(samples)
        else positions.assign(source_end_min=positions["position"] + 1)
    )
    return compared[compared["position"] < compared["source_end_min"]][[*PARTITION, "position"]]


def read_samples(tables: Iterable[pa.Table]) -> Recorded:
    """Return the flow's state and history from tables of samples, given in the order in which they were taken."""
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
        recreated=tuple(sorted(_recreated_at(all_rows, "target_topic_id").keys() - {*gone})),
        flowed_back=flowed_back_at >= 0 or all(report.get("flows_back") is None for report in sample_reports),
    )


def _frame(tables: Iterable[pa.Table]) -> pd.DataFrame:
    samples = pa.concat_tables([SCHEMA.empty_table(), *(table.select(SCHEMA.names).cast(SCHEMA) for table in tables)])
    frame: pd.DataFrame = samples.to_pandas(
        types_mapper=lambda kind: pd.Int64Dtype() if pa.types.is_integer(kind) else None
    )
    return frame.sort_values("at", kind="stable", ignore_index=True)


def _deleted_topics(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the topics that were deleted on the source, and that the source has in no later sample; sorted."""
    deleted, existing = (
        rows["kind"] == Kind.TOPIC.value,
        (rows["kind"] == Kind.PARTITION.value) & rows["source_end"].notna(),
    )
    newest = rows[deleted | existing].drop_duplicates("topic", keep="last")
    return tuple(sorted(newest.loc[newest["kind"] == Kind.TOPIC.value, "topic"]))


def _since_recreation(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows; of a topic that was recreated on source or target, only the rows after the recreation.

    Positions are unaffected if only the target's topic was recreated. Of the first sample after a recreation, syncs,
    checkpoints and content pairs are left out, too: they may belong to the older log.
    """
    source, target = (
        rows["topic"].map(_recreated_at(rows, column)).fillna(-1) for column in ("topic_id", "target_topic_id")
    )
    pairs = rows["kind"].isin([Kind.SYNC.value, Kind.CHECKPOINT.value, Kind.PAIR.value])
    older = (rows["at"] < source) | ((rows["at"] < target) & (rows["kind"] != Kind.POSITION.value))
    return rows[~(older | (pairs & (rows["at"] <= np.maximum(source, target))))].reset_index(drop=True)


def _recreated_at(rows: pd.DataFrame, column: str) -> dict[str, int]:
    """Return by topic when a recreated topic was first sampled with its newest id, in milliseconds since 1970.

    Args:
        rows: rows of samples, oldest first.
        column: the column with the topic ids: `topic_id` for the source's topics, `target_topic_id` for the target's.
    """
    with_id = rows[(rows["kind"] == Kind.PARTITION.value) & rows[column].notna()]
    previous_id = with_id.groupby("topic")[column].shift()
    changed = with_id[previous_id.notna() & (previous_id != with_id[column])]
    return {str(topic): int(at) for topic, at in changed.groupby("topic")["at"].max().items()}


def _newest_partitions(partition_rows: pd.DataFrame, source_at: int | None) -> pd.DataFrame:
    """Return one row per partition with its values when the source last answered.

    The newest row of a partition may be older than this answer, because rows are written only when a value changes. A
    row without log end says that the partition had no leader: then the values are as old as the last row with one.

    Args:
        partition_rows: rows of partitions, oldest first.
        source_at: when the source last answered, in milliseconds since 1970; None if never.
    """
    newest = partition_rows[partition_rows["source_end"].notna()].drop_duplicates(PARTITION, keep="last")
    names = [*PARTITION, "target_topic", "topic_id", "target_topic_id", "source_start", "source_end", "replicated"]
    answered = partition_rows[partition_rows["at"] <= (source_at or 0)].drop_duplicates(PARTITION, keep="last")
    leaderless = newest.index.difference(answered.index)
    sampled_at = pd.Series(source_at, index=newest.index, dtype="Int64")
    sampled_at[leaderless] = newest.loc[leaderless, "at"]
    return newest[names].assign(sampled_at=sampled_at)


def _with_last_replicated(partition_rows: pd.DataFrame) -> pd.DataFrame:
    """Fill each empty `replicated` (last replicated offset) from the partition's row before it.

    The column is empty if Connect has not answered since the recorder was started.
    """
    return partition_rows.assign(replicated=partition_rows.groupby(PARTITION)["replicated"].ffill())


def _flowed_back_at(sample_reports: list[dict[str, Any]]) -> int:
    """Return when the reverse flow may last have mirrored, by the samples, in ms since 1970; -1 if it never did.

    If a sample does not state whether the reverse flow ran, the answer of the sample before counts.
    """
    last, flows = -1, False
    for report in sample_reports:
        flows = flows if (answer := report.get("flows_back")) is None else answer
        last = report["at"] if flows else last
    return last


def _floors(partition_rows: pd.DataFrame, source_at: int | None, flowed_back_at: int) -> pd.DataFrame:
    """Return the floors: log ends of both clusters per partition and sample, since the reverse flow was last active.

    Earlier samples are no floors: source records that the reverse flow wrote at or above the source's log end may be
    copies of target records below the target's log end.

    Args:
        partition_rows: rows of partitions, oldest first.
        source_at: when the source last answered, in milliseconds since 1970; None if never.
        flowed_back_at: when the reverse flow may last have mirrored, in milliseconds since 1970; -1 if never.
    """
    names = [*PARTITION, "source_end", "target_end", "replicated", "sampled_at"]
    # Rows are written on change only: a partition without a later row had the same values at the source's last answer.
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
    """Return one row per group and partition with the newest position; deleted positions and groups are left out.

    Args:
        rows: rows of positions, oldest first.
        groups: rows of groups, oldest first.
        groups_at: when groups and positions were last read, in milliseconds since 1970; None if never as a whole.
    """
    newest = rows.drop_duplicates(["group", *PARTITION], keep="last")
    deleted_at = (
        newest["group"].map(groups[groups["state"] == "Gone"].groupby("group")["at"].max().to_dict()).fillna(-1)
    )
    current = newest[newest["position"].notna() & (newest["at"] > deleted_at)]
    # Rows are written on change only: a position without a later row was the same at the last listing.
    at = current["at"] if groups_at is None else groups_at
    return (
        current.assign(position_at=at)[["group", *PARTITION, "position", "position_at"]]
        .astype({"position_at": "Int64"})
        .reset_index(drop=True)
    )
