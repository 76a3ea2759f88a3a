"""What the flight recorder's archive knows of a flow: the newest state of everything, and the history that positions need.

Invariants
1. Of a topic that was deleted and made anew, only what was seen since counts: before that, rows speak of another log.
2. Of a topic that the source had deleted when it was seen last nothing counts.
3. Hours are read back until every position lies above a sample of its partition, or there are none left, or they are too many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from kafka_dr.domain.recorded import Kind
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.recording import SAMPLES, SCHEMA

PARTITION = ["topic", "partition"]
_MOST_ROWS = 20_000_000


@dataclass(frozen=True)
class Recorded:
    """What was kept, as frames; times are milliseconds since 1970. A frame without rows is nothing known.

    Attributes:
        partitions: one row a partition, as it was when the source was seen last: topic, partition, target_topic, topic_id, target_topic_id,
            source_start, source_end, replicated, sampled_at.
        floors: topic, partition, source_end, target_end, replicated, sampled_at; the target's end was read first.
        syncs: MirrorMaker 2's offset syncs in the order written: topic, partition, upstream, downstream, sequence.
        pairs: pairs by content: topic, partition, upstream, downstream, source_end, records, sampled_at.
        positions: group, topic, partition, position, position_at.
        groups: group, members, state.
        last_at: when the last sample was begun; None without one.
        source_at: when the source last answered.
        problems: what that last sample could not read.
        gone: topics of the flow that the source had deleted when it was seen last.
        groups_at: when the source last told its groups and their positions.
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
    gone: tuple[str, ...] = ()
    groups_at: int | None = None

    @property
    def stretches(self) -> pd.DataFrame:
        """Source offsets that all held a record: topic, partition, start, end."""
        whole = self.pairs[self.pairs["records"] == self.pairs["source_end"] - self.pairs["upstream"] - 1]
        return whole[PARTITION].assign(start=whole["upstream"], end=whole["source_end"])


def last_known(archive: Archive, most_rows: int = _MOST_ROWS) -> Recorded:
    """Read the archive back from its newest hour.

    Args:
        most_rows: no more hours are read once there are so many rows; positions below what was read stay without a floor.

    Raises:
        ArchiveUnavailable: it cannot be read.
    """
    tables: list[pa.Table] = []
    found = recorded([])
    for hour in reversed(archive.hours(SAMPLES)):
        tables.insert(0, archive.read(SAMPLES, hour, hour))
        # The newest hour may have begun a moment ago, without a sample of the source.
        if len(tables) < 2:
            continue
        found = recorded(tables)
        if sum(map(len, tables)) > most_rows or (found.source_at is not None and not _too_short(found)):
            return found
    return recorded(tables)


def _too_short(found: Recorded) -> bool:
    """Whether a position lies below the oldest sample of its partition, and above the log's beginning."""
    oldest = found.floors.groupby(PARTITION, as_index=False)["source_end"].min()
    reached = found.positions.merge(oldest, on=PARTITION).merge(found.partitions[[*PARTITION, "source_start"]], on=PARTITION)
    return bool(((reached["position"] < reached["source_end"]) & (reached["position"] > reached["source_start"].fillna(0))).any())


def recorded(tables: Iterable[pa.Table]) -> Recorded:
    """What samples say, given in the order in which they were made."""
    rows = _since_begun_anew(_frame(tables))
    gone = _deleted(rows)
    rows = rows[~rows["topic"].isin(gone)]
    of = {kind: rows[rows["kind"] == kind.value] for kind in Kind}
    samples, seen = of[Kind.SAMPLE], of[Kind.PARTITION]
    told = [json.loads(details) for details in samples["details"]]
    source_at = max((at for at, one in zip(samples["at"].tolist(), told, strict=True) if one["source_answered"]), default=None)
    return Recorded(
        partitions=_newest_partitions(seen, source_at),
        floors=_floors(seen, source_at),
        syncs=of[Kind.SYNC].drop_duplicates("sequence").sort_values("sequence")[[*PARTITION, "upstream", "downstream", "sequence"]],
        pairs=of[Kind.PAIR].rename(columns={"at": "sampled_at"})[[*PARTITION, "upstream", "downstream", "source_end", "records", "sampled_at"]],
        positions=_positions(of[Kind.POSITION], of[Kind.GROUP]),
        groups=of[Kind.GROUP].drop_duplicates("group", keep="last").query("state != 'Gone'")[["group", "members", "state"]],
        last_at=max(samples["at"].tolist(), default=None),
        source_at=source_at,
        problems=tuple(told[-1]["problems"]) if told else (),
        gone=gone,
        groups_at=max((at for at, one in zip(samples["at"].tolist(), told, strict=True) if one["source_answered"] and not any(p.startswith("groups:") for p in one["problems"])), default=None),
    )


def _frame(tables: Iterable[pa.Table]) -> pd.DataFrame:
    whole = pa.concat_tables([SCHEMA.empty_table(), *(table.select(SCHEMA.names).cast(SCHEMA) for table in tables)])
    frame = whole.to_pandas(types_mapper=lambda kind: pd.Int64Dtype() if pa.types.is_integer(kind) else None)
    return frame.sort_values("at", kind="stable", ignore_index=True)


def _deleted(rows: pd.DataFrame) -> tuple[str, ...]:
    """Topics that were seen to be gone, and not seen again since."""
    gone, seen = rows["kind"] == Kind.TOPIC.value, (rows["kind"] == Kind.PARTITION.value) & rows["source_end"].notna()
    newest = rows[gone | seen].drop_duplicates("topic", keep="last")
    return tuple(sorted(newest.loc[newest["kind"] == Kind.TOPIC.value, "topic"]))


def _since_begun_anew(rows: pd.DataFrame) -> pd.DataFrame:
    """Without what was seen of topics before they were made anew; a pair that was read in that very sample may speak of the log before."""
    source, target = (rows["topic"].map(_made_anew(rows, column)).fillna(-1) for column in ("topic_id", "target_topic_id"))
    pairs = rows["kind"].isin([Kind.SYNC.value, Kind.CHECKPOINT.value, Kind.PAIR.value])
    older = (rows["at"] < source) | ((rows["at"] < target) & (rows["kind"] != Kind.POSITION.value))
    return rows[~(older | (pairs & (rows["at"] <= source.combine(target, max))))].reset_index(drop=True)


def _made_anew(rows: pd.DataFrame, column: str) -> dict[str, int]:
    """When each topic was first seen with its newest id, of those that had another one before."""
    known = rows[(rows["kind"] == Kind.PARTITION.value) & rows[column].notna()]
    before = known.groupby("topic")[column].shift()
    changed = known[before.notna() & (before != known[column])]
    return {topic: int(at) for topic, at in changed.groupby("topic")["at"].max().items()}


def _newest_partitions(seen: pd.DataFrame, source_at: int | None) -> pd.DataFrame:
    """Each partition as it was when the source last answered; a row stands for as long as no other one was written."""
    newest = seen[seen["source_end"].notna()].drop_duplicates(PARTITION, keep="last")
    names = [*PARTITION, "target_topic", "topic_id", "target_topic_id", "source_start", "source_end", "replicated"]
    return newest[names].assign(sampled_at=pd.array([source_at] * len(newest), "Int64"))


def _floors(seen: pd.DataFrame, source_at: int | None) -> pd.DataFrame:
    names = [*PARTITION, "source_end", "target_end", "replicated", "sampled_at"]
    floors = seen.rename(columns={"at": "sampled_at"})[names].dropna(subset=["source_end", "target_end"])
    # What had not changed when the source last answered was seen once more then.
    last = floors.drop_duplicates(PARTITION, keep="last")
    again = last[last["sampled_at"] < (source_at or 0)].assign(sampled_at=source_at)
    return pd.concat([floors, again], ignore_index=True).astype({"sampled_at": "Int64"})


def _positions(rows: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """The newest position of each group and partition, of the groups that are still there."""
    newest = rows.drop_duplicates(["group", *PARTITION], keep="last")
    gone = set(groups.drop_duplicates("group", keep="last").query("state == 'Gone'")["group"])
    kept = newest[~newest["group"].isin(gone)]
    return kept.rename(columns={"at": "position_at"})[["group", *PARTITION, "position", "position_at"]].reset_index(drop=True)
