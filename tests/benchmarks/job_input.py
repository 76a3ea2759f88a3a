"""The input of the Spark job, as the operator writes it, for positions that no group has committed."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_dr.domain.topic_partition import TopicPartition
from tests.benchmarks.clusters import SOURCE, TARGET, Clusters


def write_input(site: Clusters, folder: Path, positions: pa.Table, topics: dict[str, int]) -> Path:
    """Write positions (group, topic, partition, position), syncs, bounds and job.json; both flows are at rest."""
    folder.mkdir()
    count = len(positions)
    positions = positions.append_column("position_at", pa.repeat(pa.scalar(1_760_000_000_000, pa.int64()), count))
    positions = positions.append_column("policy", pa.repeat(pa.scalar("earliest"), count)).append_column("may_have_moved", pa.repeat(pa.scalar(False), count))
    pq.write_table(positions, folder / "positions.parquet")
    syncs = site.syncs()
    syncs[syncs["topic"].isin(topics)].to_parquet(folder / "syncs.parquet", index=False)
    bounds_of(site, topics).to_parquet(folder / "bounds.parquet", index=False)
    (folder / "job.json").write_text(json.dumps({"isolation": "read_uncommitted", "source_readable": True}))
    return folder


def bounds_of(site: Clusters, topics: dict[str, int]) -> pd.DataFrame:
    """One row per partition of drained topics that were never cleaned."""
    places = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
    (starts, ends), (theirs, boundary) = ((c.starts(places), c.ends(places)) for c in (site.cluster(SOURCE), site.cluster(TARGET)))
    known = {"drained": True, "complete": True, "other_writer": False, "source_compacted": False, "target_compacted": False, "compare_timestamps": True, "recreated": False}
    rows = (
        {"topic": tp.topic, "partition": tp.partition, "target_topic": tp.topic, "source_start": starts[tp], "cut_off": ends[tp], "target_start": theirs[tp], "boundary": boundary[tp]} | known
        for tp in places
    )
    return pd.DataFrame(rows).astype({"partition": "int32"})
