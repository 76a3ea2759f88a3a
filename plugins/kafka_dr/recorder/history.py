"""A flow by the flight recorder's archive: the newest state of everything, and the history for positions.

Invariants
1. Of a topic that was deleted and made anew, only what was seen since counts: before that, rows speak of another log.
2. Of a topic that the source had deleted when it was seen last nothing counts.
3. Of groups and positions, only what was written since they were last listed whole counts: what that listing lacks is
   gone, or is of an earlier life of a group.
4. Hours are read back until there are a sample of the source and a whole listing of its groups, and every position lies
   above a sample of its partition; or until there are none left, or they are too many.
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
    """What was kept, as frames; times are milliseconds since 1970. A frame without rows is nothing known.

    Attributes:
        partitions: one row a partition, as it was when the source was seen last: topic, partition, target_topic,
            topic_id, target_topic_id, source_start, source_end, replicated, sampled_at.
        floors: topic, partition, source_end, target_end, replicated, sampled_at; the target's end was read first, and
            no record that the source took later came from below it.
        syncs: MirrorMaker 2's offset syncs in the order written: topic, partition, upstream, downstream, sequence.
        pairs: pairs by content: topic, partition, upstream, downstream, source_end, records, sampled_at.
        positions: group, topic, partition, position, position_at: when it was last known to stand.
        groups: group, members, state.
        last_at: when the last sample was begun; None without one.
        source_at: when the source last answered.
        problems: what that last sample could not read.
        gone: topics of the flow that the source had deleted when it was seen last.
        anew: topics whose copy on the target was seen to be made anew: what was mirrored before went with the older
            one, whatever Connect keeps.
        flowed_back: whether the flow the other way was seen that may mirror into these topics: clients wrote into their
            copies on the target. Also where nobody ever told, as in dedicated mode.
        groups_at: when groups and positions were last read, all that there were; None where they were never listed
            whole.
        read_to: how far MirrorMaker 2's topics had been read just before that.
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
        """Source offsets [start, end) that all held a record; `downstream` is a copy of `start` or of one below."""
        whole = self.pairs[self.pairs["records"] == self.pairs["source_end"] - self.pairs["upstream"] - 1]
        return whole[PARTITION].assign(start=whole["upstream"], end=whole["source_end"], downstream=whole["downstream"])


def last_known(archive: Archive, most_rows: int = _MOST_ROWS) -> Recorded:
    """Read the archive back from its newest hour.

    Args:
        most_rows: no more hours are read once there are so many rows; positions below what was read stay without a
            floor.

    Raises:
        ArchiveUnavailable: it cannot be read.
    """
    tables: list[pa.Table] = []
    unreached: pd.DataFrame | None = None
    for table in archive.back(SAMPLES):
        tables.insert(0, _thinned(table))
        # The newest hour may have begun a moment ago, without a sample of the source.
        if len(tables) < 2:
            continue
        if unreached is not None:
            unreached = _still_unreached(unreached, table)
        elif (found := read_samples(tables)).source_at is not None and found.groups_at is not None:
            unreached = _unreached(found)
        if sum(map(len, tables)) > most_rows or (unreached is not None and unreached.empty):
            break
    return read_samples(tables)


def _thinned(hour: pa.Table) -> pa.Table:
    """Keep only the newest row of each position and no checkpoints: active groups write millions of rows an hour."""
    kind = hour["kind"]
    positions = hour.filter(pc.equal(kind, Kind.POSITION.value)).sort_by("at")
    places = positions.select(["group", *PARTITION]).append_column("row", pa.array(range(len(positions)), pa.int64()))
    newest = places.group_by(["group", *PARTITION]).aggregate([("row", "max")])["row_max"]
    others = hour.filter(pc.invert(pc.is_in(kind, pa.array([Kind.POSITION.value, Kind.CHECKPOINT.value]))))
    return pa.concat_tables([others, positions.take(newest)])


def _unreached(found: Recorded) -> pd.DataFrame:
    """Positions that lie below the oldest sample of their partition, and above the log's beginning."""
    oldest = found.floors.groupby(PARTITION, as_index=False)["source_end"].min()
    known = found.positions.merge(oldest, on=PARTITION).merge(
        found.partitions[[*PARTITION, "source_start"]], on=PARTITION
    )
    below = (known["position"] < known["source_end"]) & (known["position"] > known["source_start"].fillna(0))
    return known[below].groupby(PARTITION, as_index=False)[["position"]].min()


def _still_unreached(positions: pd.DataFrame, hour: pa.Table) -> pd.DataFrame:
    """Keep positions below an older hour's samples too; a partition without samples there did not exist yet."""
    seen = hour.filter(pc.is_valid(hour["source_end"]))
    oldest = seen.group_by(PARTITION).aggregate([("source_end", "min")]).to_pandas()
    known = (
        positions.merge(oldest, on=PARTITION)
        if len(seen)
        else positions.assign(source_end_min=positions["position"] + 1)
    )
    return known[known["position"] < known["source_end_min"]][[*PARTITION, "position"]]


def read_samples(tables: Iterable[pa.Table]) -> Recorded:
    """What samples say, given in the order in which they were made."""
    whole = _frame(tables)
    rows = _since_begun_anew(whole)
    gone = _deleted(rows)
    rows = rows[~rows["topic"].isin(gone)]
    of = {kind: rows[rows["kind"] == kind.value] for kind in Kind}
    samples, seen = of[Kind.SAMPLE], _with_last_replicated(of[Kind.PARTITION])
    told: list[dict[str, Any]] = [
        {"at": at, **sample_details(details)}
        for at, details in zip(samples["at"].tolist(), samples["details"], strict=True)
    ]
    source_at = max((one["at"] for one in told if one["source_answered"]), default=None)
    listed_at = max((one["at"] for one in told if one.get("groups_read") == WHOLE), default=None)
    last_listing: dict[str, Any] = (
        next((one for one in reversed(told) if one.get("groups_read")), {}) if listed_at is not None else {}
    )
    flowed_back_at = _flowed_back_at(told)
    groups, positions = (of[kind][of[kind]["at"] >= (listed_at or 0)] for kind in (Kind.GROUP, Kind.POSITION))
    return Recorded(
        partitions=_newest_partitions(seen, source_at),
        floors=_floors(seen, source_at, flowed_back_at),
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
        problems=tuple(told[-1]["problems"]) if told else (),
        groups_at=last_listing.get("at"),
        read_to={RowPlace(*place): offset for *place, offset in last_listing.get("read_to") or ()},
        gone=gone,
        anew=tuple(sorted(_made_anew(whole, "target_topic_id").keys() - {*gone})),
        flowed_back=flowed_back_at >= 0 or all(one.get("flows_back") is None for one in told),
    )


def _frame(tables: Iterable[pa.Table]) -> pd.DataFrame:
    whole = pa.concat_tables([SCHEMA.empty_table(), *(table.select(SCHEMA.names).cast(SCHEMA) for table in tables)])
    frame: pd.DataFrame = whole.to_pandas(
        types_mapper=lambda kind: pd.Int64Dtype() if pa.types.is_integer(kind) else None
    )
    return frame.sort_values("at", kind="stable", ignore_index=True)


def _deleted(rows: pd.DataFrame) -> tuple[str, ...]:
    """Topics that were seen to be gone, and not seen again since."""
    gone, seen = rows["kind"] == Kind.TOPIC.value, (rows["kind"] == Kind.PARTITION.value) & rows["source_end"].notna()
    newest = rows[gone | seen].drop_duplicates("topic", keep="last")
    return tuple(sorted(newest.loc[newest["kind"] == Kind.TOPIC.value, "topic"]))


def _since_begun_anew(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop what was seen of a topic before it was recreated; pairs of that very sample may be of the older log."""
    source, target = (
        rows["topic"].map(_made_anew(rows, column)).fillna(-1) for column in ("topic_id", "target_topic_id")
    )
    pairs = rows["kind"].isin([Kind.SYNC.value, Kind.CHECKPOINT.value, Kind.PAIR.value])
    older = (rows["at"] < source) | ((rows["at"] < target) & (rows["kind"] != Kind.POSITION.value))
    return rows[~(older | (pairs & (rows["at"] <= np.maximum(source, target))))].reset_index(drop=True)


def _made_anew(rows: pd.DataFrame, column: str) -> dict[str, int]:
    """When each topic was first seen with its newest id, of those that had another one before."""
    known = rows[(rows["kind"] == Kind.PARTITION.value) & rows[column].notna()]
    before = known.groupby("topic")[column].shift()
    changed = known[before.notna() & (before != known[column])]
    return {str(topic): int(at) for topic, at in changed.groupby("topic")["at"].max().items()}


def _newest_partitions(seen: pd.DataFrame, source_at: int | None) -> pd.DataFrame:
    """Each partition as it was when the source last answered; a row stands for as long as no other one was written."""
    newest = seen[seen["source_end"].notna()].drop_duplicates(PARTITION, keep="last")
    names = [*PARTITION, "target_topic", "topic_id", "target_topic_id", "source_start", "source_end", "replicated"]
    return newest[names].assign(sampled_at=pd.array([source_at] * len(newest), "Int64"))


def _with_last_replicated(seen: pd.DataFrame) -> pd.DataFrame:
    """Fill gaps in `replicated` with Connect's last answer: a restarted recorder may get none."""
    return seen.assign(replicated=seen.groupby(PARTITION)["replicated"].ffill())


def _flowed_back_at(told: list[dict[str, Any]]) -> int:
    """When the reverse flow last may have mirrored, -1 for never; a silent flow counts as it last answered."""
    last, flows = -1, False
    for one in told:
        flows = flows if (said := one.get("flows_back")) is None else said
        last = one["at"] if flows else last
    return last


def _floors(seen: pd.DataFrame, source_at: int | None, flowed_back_at: int) -> pd.DataFrame:
    """Both ends at each sample since the flow the other way stood still.

    What it mirrored into the source at or above the source's end came from records on the target that may lie below the
    target's end.
    """
    names = [*PARTITION, "source_end", "target_end", "replicated", "sampled_at"]
    # What had not changed when the source last answered was seen once more then.
    last = seen[seen["at"] <= (source_at or 0)].drop_duplicates(PARTITION, keep="last")
    again = last[last["at"] < (source_at or 0)].assign(at=source_at)
    floors = pd.concat([seen, again], ignore_index=True).astype({"at": "Int64"}).rename(columns={"at": "sampled_at"})
    return (
        floors[floors["sampled_at"] > flowed_back_at][names]
        .dropna(subset=["source_end", "target_end"])
        .reset_index(drop=True)
    )


def _positions(rows: pd.DataFrame, groups: pd.DataFrame, groups_at: int | None) -> pd.DataFrame:
    """The newest position of each group and partition that it still has: none from before the group was gone."""
    newest = rows.drop_duplicates(["group", *PARTITION], keep="last")
    gone_at = newest["group"].map(groups[groups["state"] == "Gone"].groupby("group")["at"].max().to_dict()).fillna(-1)
    kept = newest[newest["position"].notna() & (newest["at"] > gone_at)]
    # A row stands for as long as no other one is written.
    at = kept["at"] if groups_at is None else groups_at
    return (
        kept.assign(position_at=at)[["group", *PARTITION, "position", "position_at"]]
        .astype({"position_at": "Int64"})
        .reset_index(drop=True)
    )
