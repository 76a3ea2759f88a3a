"""(j) 5 million against 5 million records x 500 B: an anti-join beside Spark's reading of both sides."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pandas as pd

from tests.benchmarks.clusters import SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, in_turns, ratio, say
from tests.benchmarks.passes.contestants import Job, Passes
from tests.benchmarks.passes.job_input import bounds_of, places_of
from tests.benchmarks.stranded import PARTITIONS, RECORD_BYTES, TOPIC, records

WARM, MEMORY = (
    "(j) warm pass of the anti-join / reading both sides with the same readers",
    "(j) memory of driver and executors",
)
#: Of each partition, after MirrorMaker 2 was stopped.
STRANDED = 200


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(WARM, Bound(2.5))
    figures.promise(MEMORY, Bound(4096), " MB")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure on one lab."""
    mirrored = max(1, int(5_000_000 * scale) // PARTITIONS) * PARTITIONS
    with clusters() as site:
        fill(site, mirrored)
        beside_a_reader(figures, site, write_job(site), mirrored, passes // 2 + 1)


def fill(site: Clusters, mirrored: int) -> None:
    """Write records, let MirrorMaker 2 mirror them, stop it, and write some more."""
    site.create_topics(SOURCE, {TOPIC: PARTITIONS})
    wrote = site.write(SOURCE, records(0, mirrored))
    say(
        f"  {mirrored:,} records written in {wrote:.1f} s, mirrored"
        f" {site.await_mirrored({TOPIC: PARTITIONS}, 1_800):.1f} s later"
    )
    site.stop_mirroring()
    site.write(SOURCE, records(mirrored, mirrored + STRANDED * PARTITIONS))


def write_job(site: Clusters) -> Path:
    """Write the job's input: nobody recorded anything, so that all of both logs is compared."""
    folder, topics = site.scratch / "anti_join", {TOPIC: PARTITIONS}
    folder.mkdir()
    bounds = bounds_of(site, topics, drained=False)
    bounds.to_parquet(folder / "bounds.parquet", index=False)
    syncs = site.syncs()
    syncs[syncs["topic"].isin(topics)].to_parquet(folder / "syncs.parquet", index=False)
    places = places_of(topics)
    ends, stable = site.cluster(TARGET).ends(places), site.cluster(SOURCE).ends(places, "read_committed")
    unknown = ("proven_end", "replicated", "deleted_to", "written_from")
    every = {"source_from": 0, "target_from": 0, "copied_back": False, "decided_to": 0, **dict.fromkeys(unknown)}
    rows = (
        {"topic": tp.topic, "partition": tp.partition, "stable_end": stable[tp], "target_end": ends[tp], **every}
        for tp in places
    )
    returned = pd.DataFrame(rows).astype({"partition": "int32", **dict.fromkeys(unknown, "Int64")})
    returned.to_parquet(folder / "returned.parquet", index=False)
    job = {"isolation": "read_uncommitted", "source_readable": True, "content_limit": 5_000_000}
    (folder / "job.json").write_text(json.dumps(job))
    return folder


def beside_a_reader(figures: Figures, site: Clusters, given: Path, mirrored: int, passes: int) -> None:
    """Warm passes in turn, then one fresh process of the job for its memory."""
    job, reading = Job(site, given, "find_stranded_records"), Job(site, given, "tests.benchmarks.read_both")
    with job.warm() as ours, reading.warm() as theirs:
        contestants = {
            "warm pass of the anti-join": lambda: our_pass(ours, given, mirrored),
            "reading both sides": lambda: their_pass(theirs, given, mirrored),
        }
        took = in_turns(contestants, passes, warm_up=True)
    mine, plain = took.values()
    figures.measured(
        WARM, ratio(mine, plain), f"{2 * mirrored:,} records, {2 * mirrored / statistics.median(mine):,.0f}/s"
    )
    cold = job.cold()
    figures.measured(
        MEMORY,
        cold.driver + cold.workers,
        f"driver {cold.driver} MB, workers {cold.workers} MB; a fresh process {cold.seconds:.1f} s, seconds"
        f" {cold.summary['seconds']}",
    )


def our_pass(passes: Passes, given: Path, mirrored: int) -> float:
    """One warm pass of the job, which must find what is stranded to the record."""
    seconds, summary = one_pass(passes, given)
    stranded = STRANDED * PARTITIONS
    found = summary["records"], summary["bytes"], summary["lacking"], summary["inexact"], summary["records_read"]
    if found != (stranded, stranded * RECORD_BYTES, 0, 0, {"source": mirrored + stranded, "target": mirrored}):
        raise RuntimeError(f"{stranded:,} records are stranded, found: {found}")
    return seconds


def their_pass(passes: Passes, given: Path, mirrored: int) -> float:
    """One warm pass of the reading, which must read every record."""
    seconds, summary = one_pass(passes, given)
    if summary["records_read"] != {"source": mirrored + STRANDED * PARTITIONS, "target": mirrored}:
        raise RuntimeError(f"read: {summary['records_read']}")
    return seconds


def one_pass(passes: Passes, given: Path) -> tuple[float, dict[str, Any]]:
    """Seconds and summary of one pass, whose output is taken away."""
    answer = json.loads(passes.ask(str(given)))
    summary = json.loads((Path(answer["output"]) / "summary.json").read_text())
    shutil.rmtree(answer["output"])
    return float(answer["seconds"]), summary
