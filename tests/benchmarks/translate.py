"""(a) Translating 10,000 groups x 100 positions: the Spark job beside Kafka's own MirrorClient."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kafka_dr.domain.mirror_maker.mirror_records import Checkpoint, encode_checkpoint

from tests.benchmarks.clusters import CHECKPOINTS, SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, in_turns, ratio, say, told
from tests.benchmarks.passes.contestants import ColdRun, Job, Passes, java_line, kept
from tests.benchmarks.passes.job_input import write_input

WARM, COLD = "(a) warm second pass / MirrorClient's Pattern pass", "(a) cold process / MirrorClient's Pattern pass"
GROUPWISE = "(a) MirrorClient group by group (scaled) / warm second pass"
MEMORY, TENFOLD = "(a) driver's memory", "(a) ten times the positions / time"
PARTITIONS, RECORDS, ROUNDS = 100, 500, 3
GROUPWISE_GROUPS = 4


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(WARM, Bound(1.5))
    figures.promise(COLD, Bound(4))
    figures.promise(GROUPWISE)
    figures.promise(MEMORY, Bound(2048), " MB")
    figures.promise(TENFOLD, Bound(12))


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure on one lab."""
    groups = max(100, int(10_000 * scale))
    topics = {f"orders-{number}": PARTITIONS for number in range(max(1, groups // 1_000))}
    with clusters() as site:
        ends = seed(site, topics)
        once, tenfold = (
            write_job(site, name, topics, count) for name, count in (("once", groups), ("tenfold", groups * 10))
        )
        write_checkpoints(site, once)
        beside_mirror_client(figures, site, once, groups, passes)
        ten_times(figures, site, once, tenfold, passes)
    say(f"  records on the source: {sum(ends.values()):,}")


def seed(site: Clusters, topics: dict[str, int]) -> dict:
    """Write the records, let MirrorMaker 2 mirror them, and stop it."""
    site.create_topics(SOURCE, topics)
    rows = (
        (name, p, b"key-%d" % n, b"%s-%d-%d " % (name.encode(), p, n) + b"x" * 150)
        for n in range(RECORDS)
        for name in topics
        for p in range(PARTITIONS)
    )
    say(f"  records written in {site.write(SOURCE, rows):.1f} s; mirrored {site.await_mirrored(topics):.1f} s later")
    site.stop_mirroring()
    return site.ends(SOURCE, topics)


def write_job(site: Clusters, name: str, topics: dict[str, int], groups: int) -> Path:
    """Write a job's input: half of the positions at the log's end, the others evenly over the whole log."""
    dice, names = np.random.default_rng(7), list(topics)
    group = np.repeat(np.arange(groups), PARTITIONS)
    lag = dice.integers(1, RECORDS + 1, len(group)) * dice.integers(0, 2, len(group))
    positions = pa.table(
        {
            "group": (
                pa.DictionaryArray.from_arrays(group, [f"consumer-group-{n:07d}" for n in range(groups)]).cast(
                    pa.string()
                )
            ),
            "topic": pa.DictionaryArray.from_arrays(group % len(names), names).cast(pa.string()),
            "partition": np.tile(np.arange(PARTITIONS, dtype=np.int32), groups),
            "position": RECORDS - lag,
        }
    )
    return write_input(site, site.scratch / name, positions, topics)


def checkpoints(given: Path) -> Iterator[tuple[str, int, bytes, bytes]]:
    """What MirrorMaker 2 would hold for these groups after some rounds, in the order of its rounds."""
    rows = pq.read_table(given / "positions.parquet", columns=["group", "topic", "partition", "position"])
    for behind in reversed(range(ROUNDS)):
        for batch in rows.to_batches(50_000):
            for row in zip(*(column.to_pylist() for column in batch.columns)):
                position = max(0, row[3] - behind)
                yield CHECKPOINTS, 0, *encode_checkpoint(Checkpoint(*row[:3], position, position, ""))


def write_checkpoints(site: Clusters, given: Path) -> None:
    """Fill the checkpoints topic."""
    say(f"  {ROUNDS} rounds of checkpoints written in {site.write(TARGET, checkpoints(given)):.1f} s")


def peer(site: Clusters) -> list[str]:
    """The command of Kafka's own translation."""
    return java_line("MirrorClientPasses.java", str(site.java_properties(TARGET)), SOURCE)


def beside_mirror_client(figures: Figures, site: Clusters, given: Path, groups: int, passes: int) -> None:
    """Warm passes in turn, then cold processes in turn with the warm Pattern pass that they are compared with."""
    job = Job(site, given)
    with kept(peer(site)) as theirs:
        with job.warm() as ours:
            first = {"the job": our_pass(ours, given), "Pattern": their_pass(theirs, groups)}
            say(
                "  first pass in each process: "
                + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in first.items())
            )
            warm = in_turns(
                {
                    "warm pass of the job": lambda: our_pass(ours, given),
                    "warm Pattern pass": lambda: their_pass(theirs, groups),
                },
                passes,
            )
        mine = warm["warm pass of the job"]
        figures.measured(
            WARM,
            ratio(mine, warm["warm Pattern pass"]),
            f"{groups * PARTITIONS / statistics.median(mine):,.0f} positions/s",
        )
        some = [float(theirs.ask(f"group consumer-group-{n:07d}").split()[0]) for n in range(GROUPWISE_GROUPS)]
        scaled = statistics.median(some) * groups
        say(f"  one group by MirrorClient: {told(some)}; {groups:,} groups scaled: {scaled:,.0f} s")
        figures.measured(
            GROUPWISE, scaled / statistics.median(mine), f"{GROUPWISE_GROUPS} groups run, scaled to {groups:,}"
        )
        cold_processes(figures, site, job, lambda: their_pass(theirs, groups), groups, max(2, passes // 2))


def cold_processes(
    figures: Figures, site: Clusters, job: Job, warm_pattern: Callable[[], float], groups: int, passes: int
) -> None:
    """A fresh process of each, and the warm Pattern pass between them."""
    runs: list[ColdRun] = []

    def cold() -> float:
        runs.append(job.cold())
        return runs[-1].seconds

    took = in_turns(
        {
            "cold process of the job": cold,
            "warm Pattern pass": warm_pattern,
            "cold Pattern process": lambda: cold_pattern(site, groups),
        },
        passes,
    )
    ours = took["cold process of the job"]
    figures.measured(
        COLD,
        ratio(ours, took["warm Pattern pass"]),
        f"{ratio(ours, took['cold Pattern process']):.2g} of a cold Pattern process",
    )
    figures.measured(
        MEMORY,
        max(one.driver for one in runs),
        f"JVM and Python; the workers beside them {max(one.workers for one in runs)} MB",
    )
    say(
        f"  classes {runs[-1].summary['classes']}, records read {runs[-1].summary['records_read']}, seconds"
        f" {runs[-1].summary['seconds']}"
    )


def our_pass(passes: Passes, given: Path) -> float:
    """One warm pass of the job."""
    return float(json.loads(passes.ask(str(given)))["seconds"])


def their_pass(passes: Passes, groups: int) -> float:
    """One pass of the Pattern variant, which must find every position."""
    seconds, found = passes.ask("pattern .*").split()
    if int(found) != groups * PARTITIONS:
        raise RuntimeError(f"MirrorClient found {found} positions of {groups * PARTITIONS}")
    return float(seconds)


def cold_pattern(site: Clusters, groups: int) -> float:
    """The Pattern variant in a process of its own."""
    began = time.monotonic()
    with kept(peer(site)) as fresh:
        their_pass(fresh, groups)
    return time.monotonic() - began


def ten_times(figures: Figures, site: Clusters, once: Path, tenfold: Path, passes: int) -> None:
    """The same partitions with ten times the groups, in turns."""
    runs: dict[str, list] = {"once": [], "tenfold": []}

    def turn(name: str, given: Path) -> float:
        runs[name].append(Job(site, given).cold())
        return runs[name][-1].seconds

    took = in_turns(
        {"positions": lambda: turn("once", once), "ten times as many": lambda: turn("tenfold", tenfold)},
        max(1, passes // 2),
    )
    last = runs["tenfold"][-1]
    work = {name: [one.seconds - one.summary["seconds"]["session"] for one in found] for name, found in runs.items()}
    note = (
        f"without Spark's start {ratio(work['tenfold'], work['once']):.2g}; driver {last.driver} MB, workers"
        f" {last.workers} MB"
    )
    figures.measured(TENFOLD, ratio(took["ten times as many"], took["positions"]), note)
    say(f"  ten times: {last.summary['positions']:,} positions, seconds {last.summary['seconds']}")
