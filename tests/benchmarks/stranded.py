"""(f) 5 million stranded records x 500 B listed by the loss assessment, beside a plain Java consumer."""

from __future__ import annotations

import json
import random
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.benchmarks.clusters import SOURCE, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, in_turns, ratio, say
from tests.benchmarks.passes.contestants import Job, Passes, java_line, kept
from tests.benchmarks.passes.job_input import write_input, write_last_seen

WARM, MEMORY = "(f) warm pass of the assessment / plain Java consumer's pass", "(f) driver's memory"
TOPIC, PARTITIONS = "orders", 100
#: Of each partition, before MirrorMaker 2 stops.
MIRRORED = 200
RECORD_BYTES, GROUPS = 500, 100


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(WARM, Bound(3.5))
    figures.promise(MEMORY, Bound(2048), " MB")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure on one lab."""
    stranded = max(1, int(5_000_000 * scale) // PARTITIONS) * PARTITIONS
    with clusters() as site:
        strand(site, stranded)
        beside_a_consumer(figures, site, write_job(site, stranded), stranded, passes // 2 + 1)


def strand(site: Clusters, stranded: int) -> None:
    """Write some records, let MirrorMaker 2 mirror them, stop it, and write the others."""
    site.create_topics(SOURCE, {TOPIC: PARTITIONS})
    mirrored = MIRRORED * PARTITIONS
    site.write(SOURCE, records(0, mirrored))
    site.await_mirrored({TOPIC: PARTITIONS})
    site.stop_mirroring()
    say(
        f"  {stranded:,} records written in {site.write(SOURCE, records(mirrored, mirrored + stranded)):.1f} s; none of"
        " them is mirrored"
    )


def records(first: int, last: int) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Numbered records of one size on all partitions in turn, compressible by half, as text is."""
    text = random.Random(11).randbytes(2_000_000).hex().encode()
    for number in range(first, last):
        key, head = b"key-%09d" % number, b"order-%09d " % number
        start, rest = number * 7_919 % (len(text) - RECORD_BYTES), RECORD_BYTES - len(key) - len(head)
        yield TOPIC, number % PARTITIONS, key, head + text[start : start + rest]


def write_job(site: Clusters, stranded: int) -> Path:
    """Write the job's input: groups that had consumed half of what is stranded."""
    group = np.repeat(np.arange(GROUPS), PARTITIONS)
    positions = pa.table(
        {
            "group": [f"consumer-group-{n:06d}" for n in group],
            "topic": pa.repeat(TOPIC, len(group)),
            "partition": np.tile(np.arange(PARTITIONS, dtype=np.int32), GROUPS),
            "position": np.full(len(group), MIRRORED + stranded // PARTITIONS // 2, np.int64),
        }
    )
    folder = write_input(site, site.scratch / "stranded", positions, {TOPIC: PARTITIONS}, drained=False)
    write_last_seen(site, folder, {TOPIC: PARTITIONS})
    return folder


def beside_a_consumer(figures: Figures, site: Clusters, given: Path, stranded: int, passes: int) -> None:
    """Warm passes in turn, then one fresh process of the job for its memory."""
    job = Job(site, given, "assess_data_loss")
    with job.warm() as ours, kept(java_line("ConsumerPasses.java", str(site.java_properties(SOURCE)))) as theirs:
        contestants = {
            "warm pass of the assessment": lambda: our_pass(ours, given, stranded),
            "plain Java consumer": lambda: their_pass(theirs, stranded),
        }
        took = in_turns(contestants, passes, warm_up=True)
    mine, plain = took.values()
    figures.measured(WARM, ratio(mine, plain), f"{stranded:,} records, {stranded / statistics.median(mine):,.0f}/s")
    cold = job.cold()
    figures.measured(
        MEMORY,
        cold.driver,
        f"JVM and Python; the workers beside them {cold.workers} MB; a fresh process {cold.seconds:.1f} s, seconds"
        f" {cold.summary['seconds']}",
    )


def our_pass(passes: Passes, given: Path, stranded: int) -> float:
    """One warm pass of the job, which must list every record."""
    answer = json.loads(passes.ask(str(given)))
    output = Path(answer["output"])
    summary = json.loads((output / "summary.json").read_text())
    # Gigabytes, and writing them back would slow down whoever comes next.
    shutil.rmtree(output)
    all_of_it("the assessment", summary["records"], summary["bytes"], stranded)
    return float(answer["seconds"])


def their_pass(passes: Passes, stranded: int) -> float:
    """One pass of the plain consumer over the same records."""
    seconds, count, size = passes.ask(f"{TOPIC} {MIRRORED}").split()
    all_of_it("the plain consumer", int(count), int(size), stranded)
    return float(seconds)


def all_of_it(who: str, count: int, size: int, stranded: int) -> None:
    """Refuse a pass that did not read exactly what is stranded."""
    if (count, size) != (stranded, stranded * RECORD_BYTES):
        raise RuntimeError(
            f"{who} read {count:,} records of {size:,} bytes, not {stranded:,} of {stranded * RECORD_BYTES:,}"
        )
