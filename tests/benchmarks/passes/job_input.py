"""The input of the Spark jobs, as steps write it, for positions that no group has committed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

from tests.benchmarks.clusters import FLOW, SOURCE, TARGET, Clusters


def write_input(
    site: Clusters, folder: Path, positions: pa.Table, topics: dict[str, int], drained: bool = True
) -> Path:
    """Write positions, syncs, bounds and job.json of flows at rest; ``drained``: the target holds everything."""
    folder.mkdir()
    count = len(positions)
    positions = positions.append_column("position_at", pa.repeat(pa.scalar(1_760_000_000_000, pa.int64()), count))
    positions = positions.append_column("policy", pa.repeat(pa.scalar("earliest"), count)).append_column(
        "may_have_moved", pa.repeat(pa.scalar(False), count)
    )
    pq.write_table(positions, folder / "positions.parquet")
    syncs = site.syncs()
    syncs[syncs["topic"].isin(topics)].to_parquet(folder / "syncs.parquet", index=False)
    bounds_of(site, topics, drained).to_parquet(folder / "bounds.parquet", index=False)
    (folder / "job.json").write_text(json.dumps({"isolation": "read_uncommitted", "source_readable": True}))
    return folder


def bounds_of(site: Clusters, topics: dict[str, int], drained: bool) -> pd.DataFrame:
    """One row per partition of topics that were never cleaned."""
    places = places_of(topics)
    (starts, ends), (theirs, boundary) = (
        (c.starts(places), c.ends(places)) for c in (site.cluster(SOURCE), site.cluster(TARGET))
    )
    known = {"drained": drained, "complete": drained, "compare_timestamps": True}
    known |= dict.fromkeys(("other_writer", "source_compacted", "target_compacted", "recreated"), False)
    rows = (
        {"topic": tp.topic, "partition": tp.partition, "target_topic": tp.topic, "source_start": starts[tp]}
        | {"cut_off": ends[tp], "target_start": theirs[tp], "boundary": boundary[tp]}
        | known
        for tp in places
    )
    return pd.DataFrame(rows).astype({"partition": "int32"})


def write_last_seen(site: Clusters, folder: Path, topics: dict[str, int]) -> None:
    """Write where a source that can be read ends, and what Connect keeps of it: the loss assessment needs that, too."""
    source, places = site.cluster(SOURCE), places_of(topics)
    kept = MirrorMaker(site.status["clusters"][TARGET]["connect_url"]).offsets(FLOW[0]).of(SOURCE)
    ends, stable, now = source.ends(places), source.ends(places, "read_committed"), int(time.time() * 1000)
    rows = (
        {"topic": tp.topic, "partition": tp.partition, "source_end": ends[tp], "stable_end": stable[tp]}
        | {"replicated": kept.get(tp), "sampled_at": now}
        for tp in places
    )
    frame = pd.DataFrame(rows).astype({"partition": "int32", "replicated": "Int64"})
    frame.to_parquet(folder / "last_seen.parquet", index=False)


def places_of(topics: dict[str, int]) -> list[TopicPartition]:
    """All partitions of topics."""
    return [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
