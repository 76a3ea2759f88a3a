"""(g) The loss of 7,000 partitions whose source cannot be read, told from what was recorded: no record is read."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kafka_dr_spark.contract.schemas import arrow_schema

from tests.benchmarks.clusters import clusters
from tests.benchmarks.measuring import Bound, Figures, say, told
from tests.benchmarks.passes.contestants import ColdRun, Job

PARTITIONS, PER_TOPIC, GROUPS = 7_000, 100, 1_000
#: Samples in which every partition had grown, ten seconds apart, and how long their assessment may take.
SAMPLES = {60: Bound(5), 360: None}
#: Records written between two samples, and how many the target is behind.
GROWTH = 100
BEGAN_AT = 1_760_000_000_000


def figure(samples: int) -> str:
    """Name the figure of one length of history."""
    return f"(g) assessment of {PARTITIONS:,} partitions by metadata only, Spark up, {samples} samples of each"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for samples, bound in SAMPLES.items():
        figures.promise(figure(samples), bound, " s")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure beside a lab whose MirrorMaker 2 stands still; nothing is read from it."""
    partitions = max(PER_TOPIC, int(PARTITIONS * scale))
    with clusters() as site:
        site.stop_mirroring()
        for samples in SAMPLES:
            given = write_job(site.scratch / f"metadata-{samples}", partitions, samples)
            measure(figures, Job(site, given, "assess_data_loss"), samples, partitions, passes // 2 + 1)


def measure(figures: Figures, job: Job, samples: int, partitions: int, passes: int) -> None:
    """Fresh processes: Spark starts, then the input is there, and what follows is counted."""
    runs = [job.cold("--wait-for-input", "60") for _ in range(passes)]
    seconds = [since_spark_is_up(one, partitions) for one in runs]
    phases = runs[-1].summary["seconds"]
    say(f"  {samples} samples: {told(seconds)}; the last whole process {runs[-1].seconds:.1f} s, seconds {phases}")
    figures.measured(
        figure(samples),
        statistics.median(seconds),
        f"{partitions:,} partitions; driver {runs[-1].driver} MB, workers {runs[-1].workers} MB",
    )


def since_spark_is_up(one: ColdRun, partitions: int) -> float:
    """Return the seconds of a run without Spark's start; it must have told of every partition, and read nothing."""
    summary = one.summary
    if (summary["partitions"], summary["losing"], summary["records_read"]) != (
        partitions,
        partitions,
        {"source": 0, "target": 0},
    ):
        raise RuntimeError(f"not an assessment of {partitions:,} partitions by metadata only: {summary}")
    return sum(summary["seconds"].values()) - summary["seconds"]["start"]


def write_job(folder: Path, partitions: int, samples: int) -> Path:
    """Write the job's input, of a target one sample behind partitions that grew at each sample."""
    folder.mkdir()
    places, history = np.arange(partitions), np.repeat(np.arange(partitions), samples)
    number = np.tile(np.arange(samples), partitions)
    copied, last = number * GROWTH, samples * GROWTH
    flags = dict.fromkeys(
        ("drained", "complete", "other_writer", "source_compacted", "target_compacted", "recreated"),
        np.zeros(partitions, np.bool_),
    )
    ends = {
        "source_start": np.zeros(partitions, np.int64),
        "cut_off": pa.nulls(partitions),
        "target_start": np.zeros(partitions, np.int64),
        "boundary": np.full(partitions, last),
    }
    write(
        folder,
        "bounds",
        places,
        target_topic=topics_of(places),
        **ends,
        **flags,
        compare_timestamps=np.ones(partitions, np.bool_),
    )
    write(
        folder,
        "floors",
        history,
        source_end=copied + GROWTH,
        target_end=copied,
        replicated=copied - 1,
        sampled_at=BEGAN_AT + number * 10_000,
    )
    write(folder, "stretches", history, start=copied, end=copied + GROWTH, downstream=copied)
    write(folder, "syncs", history, upstream=copied, downstream=copied, sequence=number * partitions + history)
    seen = {
        "source_end": np.full(partitions, last + GROWTH),
        "replicated": np.full(partitions, last - 1),
        "sampled_at": np.full(partitions, BEGAN_AT + samples * 10_000),
    }
    write(folder, "last_seen", places, **seen, stable_end=pa.nulls(partitions))
    write_positions(folder, partitions, last + GROWTH)
    (folder / "job.json").write_text(
        json.dumps({"isolation": "read_uncommitted", "source_readable": False, "content_limit": 0})
    )
    return folder


def write_positions(folder: Path, partitions: int, end: int) -> None:
    """Groups on all partitions of one topic each, anywhere on the source's log."""
    topics, group = partitions // PER_TOPIC, np.repeat(np.arange(GROUPS), PER_TOPIC)
    places = group % topics * PER_TOPIC + np.tile(np.arange(PER_TOPIC), GROUPS)
    names = pa.DictionaryArray.from_arrays(group, [f"consumer-group-{n:07d}" for n in range(GROUPS)]).cast(pa.string())
    known = {
        "position": np.random.default_rng(3).integers(0, end + 1, len(group)),
        "position_at": np.full(len(group), BEGAN_AT),
        "may_have_moved": np.ones(len(group), np.bool_),
    }
    write(folder, "positions", places, group=names, policy=pa.repeat("earliest", len(group)), **known)


def write(folder: Path, name: str, places: np.ndarray, **columns: Any) -> None:
    """Write one file; places are partitions numbered over all topics."""
    given = {"topic": topics_of(places), "partition": places % PER_TOPIC, **columns}
    pq.write_table(pa.table(given, schema=arrow_schema(name)), folder / f"{name}.parquet")


def topics_of(places: np.ndarray) -> pa.Array:
    """Names of the topics of partitions that are numbered over all topics."""
    index = places // PER_TOPIC
    return pa.DictionaryArray.from_arrays(index, [f"orders-{n}" for n in range(int(index.max()) + 1)]).cast(pa.string())
