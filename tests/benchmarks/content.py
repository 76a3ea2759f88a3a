"""(e) CONTENT for 100,000 distinct positions on a topic of 5 million records, beside reading both logs whole."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.benchmarks.clusters import SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, in_turns, ratio, say
from tests.benchmarks.passes.contestants import Job, Passes, kept
from tests.benchmarks.passes.job_input import write_input

TOPIC, PARTITIONS = "orders", 10
#: Share of the log, counted from its end, over which the positions are spread.
SPREADS = {"whole log": 1.0, "last tenth": 0.1, "last fiftieth": 0.02}


def records_figure(spread: str) -> str:
    """Name the figure of the records read."""
    return f"(e) records read / both logs whole, positions over the {spread}"


def time_figure(spread: str) -> str:
    """Name the figure of the time."""
    return f"(e) warm pass / bare read of both logs whole, positions over the {spread}"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for spread, share in SPREADS.items():
        figures.promise(records_figure(spread), Bound(1.0 if share == 1 else 2 * share))
        figures.promise(time_figure(spread), None if share == 1 else Bound(1.0))


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure on one lab."""
    records, positions = int(5_000_000 * scale), int(100_000 * scale)
    with clusters() as site:
        seed(site, records)
        given = {name: write_job(site, name, records, positions, share) for name, share in SPREADS.items()}
        beside_whole_reads(figures, site, given, records, max(2, passes // 2))


def seed(site: Clusters, records: int) -> None:
    """Write the records, let MirrorMaker 2 mirror them, and stop it."""
    site.create_topics(SOURCE, {TOPIC: PARTITIONS})
    rows = ((TOPIC, n % PARTITIONS, b"key-%d" % n, b"order-%d " % n + b"x" * 80) for n in range(records))
    say(
        f"  {records:,} records written in {site.write(SOURCE, rows):.1f} s; mirrored"
        f" {site.await_mirrored({TOPIC: PARTITIONS}):.1f} s later"
    )
    site.stop_mirroring()


def write_job(site: Clusters, name: str, records: int, positions: int, share: float) -> Path:
    """Write a job's input: distinct positions spread evenly over the end of every partition; a group a position."""
    each, depth = positions // PARTITIONS, int(records / PARTITIONS * share)
    lags = np.concatenate(
        [np.random.default_rng(p).choice(depth, min(each, depth), replace=False) + 1 for p in range(PARTITIONS)]
    )
    partitions = np.repeat(np.arange(PARTITIONS, dtype=np.int32), min(each, depth))
    table = pa.table(
        {
            "group": [f"consumer-group-{n:06d}" for n in range(len(lags))],
            "topic": pa.repeat(TOPIC, len(lags)),
            "partition": partitions,
            "position": records // PARTITIONS - lags,
        }
    )
    return write_input(site, site.scratch / name.replace(" ", "-"), table, {TOPIC: PARTITIONS})


def beside_whole_reads(figures: Figures, site: Clusters, given: dict[str, Path], records: int, passes: int) -> None:
    """The job's passes and the bare reader's in turn."""
    job, seen = Job(site, given["whole log"]), {}
    with job.warm() as ours, ExitStack() as stack:
        readers = {
            alias: stack.enter_context(kept([sys.executable, "-m", "tests.benchmarks.passes.log_passes"]))
            for alias in (SOURCE, TARGET)
        }

        def mine(name: str) -> float:
            answer = json.loads(ours.ask(str(given[name])))
            seen[name] = json.loads((Path(answer["output"]) / "summary.json").read_text())
            return answer["seconds"]

        first = mine("whole log")
        say(f"  first pass of the job's process: {first:.2f} s")
        contestants = {name: lambda name=name: mine(name) for name in given} | {
            "bare": lambda: bare(site, readers, records)
        }
        took = in_turns(contestants, passes)
    for name, summary in seen.items():
        read = sum(summary["records_read"].values())
        what = (
            f"{summary['positions']:,} positions, classes {summary['classes']}, {summary['exact']:,} exact, {read:,}"
            " records read"
        )
        say(f"  {name}: {what}, seconds {summary['seconds']}")
        figures.measured(records_figure(name), read / (2 * records), f"{read:,} of {2 * records:,}")
        figures.measured(
            time_figure(name),
            ratio(took[name], took["bare"]),
            f"{summary['positions'] / min(took[name]):,.0f} positions/s",
        )


def bare(site: Clusters, readers: dict[str, Passes], records: int) -> float:
    """Both logs at once, a process each, doing nothing with what comes."""
    began = time.monotonic()
    lines = {alias: json.dumps({"settings": site.settings(alias), "topics": {TOPIC: PARTITIONS}}) for alias in readers}
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda alias: readers[alias].ask(lines[alias]), readers))
    if any(int(answer.split()[1]) < records for answer in answers):
        raise RuntimeError(f"a log was not read whole: {answers}")
    return time.monotonic() - began
