"""(h) What the flight recorder takes at rest and under 20,000 records/s: processor, memory, interval."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psutil
import pyarrow.compute as pc
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.loop import SAMPLES

from lab.rehearsal.planned import Rehearsal, wait_for
from tests.benchmarks.clusters import SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.failover import PARTITIONS, seed
from tests.benchmarks.measuring import Bound, Figures

AT_REST, UNDER_LOAD = "at rest", "under load"
#: By state: what it may take at most of a core, in per cent, and of memory, in MB.
BOUNDS = {AT_REST: (Bound(1), Bound(200)), UNDER_LOAD: (None, None)}
LOAD = "(h) load that was acknowledged / asked for"
COMMAND = "kafka_dr.commands.record_positions"
RATE, GROUPS, SEED = 20_000, 20, 4177
SECONDS, LEAST_SECONDS = 120, 60
SAMPLE_SECONDS, HOUR = 90.0, timedelta(hours=1)


@dataclass(frozen=True)
class Taken:
    """What a watched process took: per cent of a core, and the most resident memory, in MB."""

    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"{self.cpu:.1f} % of a core, {self.memory:.0f} MB"


def cpu(state: str) -> str:
    """Name the figure of the processor."""
    return f"(h) recorder's CPU {state}"


def memory(state: str) -> str:
    """Name the figure of the memory."""
    return f"(h) recorder's memory {state}"


def interval(state: str) -> str:
    """Name the figure of the pace."""
    return f"(h) longest interval between samples {state}"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for state, (of_cpu, of_memory) in BOUNDS.items():
        figures.promise(cpu(state), of_cpu, " % of a core")
        figures.promise(memory(state), of_memory, " MB")
        figures.promise(interval(state), Bound(10), " s")
    figures.promise(LOAD, Bound(0.9, at_least=True))


def run(figures: Figures, scale: float, passes: int) -> None:
    """One lab with the recorder of its Airflow, at rest first, then with producers and the demo application."""
    rate, seconds = max(1_000, int(RATE * scale)), max(LEAST_SECONDS, int(SECONDS * scale))
    with clusters(airflow=True) as site:
        rehearsal = Rehearsal(site.lab.root, site.scratch / "rehearsal", SEED, rate, scale=0.1)
        try:
            rehearsal.seed_topics()
            seed(site, GROUPS)
            measure(figures, site, AT_REST, seconds, f"{GROUPS} groups x {PARTITIONS} and more")
            rehearsal.start_clients()
            rehearsal.start_load()
            under_load(figures, site, rehearsal, seconds, rate)
        finally:
            rehearsal.stop()


def under_load(figures: Figures, site: Clusters, rehearsal: Rehearsal, seconds: float, rate: int) -> None:
    """The same under load, and whether the load was what it should be."""
    before, began = rehearsal.load.counts()["acknowledged"], time.monotonic()
    measure(figures, site, UNDER_LOAD, seconds, f"{rate:,} records/s asked for")
    written = (rehearsal.load.counts()["acknowledged"] - before) / (time.monotonic() - began)
    figures.measured(LOAD, written / rate, f"{written:,.0f} records/s")


def measure(figures: Figures, site: Clusters, state: str, seconds: float, note: str) -> None:
    """Watch the recorder, and the task beside it, once everything that there is was written down."""
    for _ in range(2):
        await_sample(site, time.time())
    process, began = recorder(site), time.time()
    taken, of_task = watched([process, process.parent()], seconds)
    ended = time.time()
    await_sample(site, ended)
    looks = samples(site, began)
    longest, slowest = (
        longest_interval([at for at, _ in looks], began, ended),
        max(took for at, took in looks if at >= began),
    )
    figures.measured(cpu(state), taken.cpu, f"{note}; the task beside it {of_task}")
    figures.measured(memory(state), taken.memory, f"over {seconds:.0f} s")
    figures.measured(interval(state), longest, f"one sample took at most {slowest:.1f} s")


def recorder(site: Clusters) -> psutil.Process:
    """Return the recorder's process."""
    members = site.lab.processes.members()
    found = [
        one for one in psutil.process_iter(["cmdline"]) if one.pid in members and COMMAND in (one.info["cmdline"] or ())
    ]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} recorders run on this lab: {found}")
    return found[0]


def watched(processes: Sequence[psutil.Process], seconds: float) -> list[Taken]:
    """Watch processes side by side; one that ends meanwhile raises."""
    began, before, most = time.monotonic(), [cpu_seconds(one) for one in processes], [0] * len(processes)
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(min(0.5, left))
        most = [max(seen, one.memory_info().rss) for seen, one in zip(most, processes, strict=True)]
    passed = time.monotonic() - began
    return [
        Taken(100 * (cpu_seconds(one) - used) / passed, rss / 2**20)
        for one, used, rss in zip(processes, before, most, strict=True)
    ]


def cpu_seconds(process: psutil.Process) -> float:
    """Return the processor time that all threads of a process have had, in seconds."""
    times = process.cpu_times()
    return times.user + times.system


def await_sample(site: Clusters, since: float) -> None:
    """Wait until a sample is kept that was begun after a time, in seconds since 1970."""
    if not wait_for(lambda: any(at > since for at, _ in samples(site, since)), SAMPLE_SECONDS):
        raise TimeoutError(f"the recorder kept no sample under {site.lab.archive} within {SAMPLE_SECONDS:.0f} s")


def samples(site: Clusters, since: float) -> list[tuple[float, float]]:
    """Return when each sample of the forward flow began, in seconds since 1970, and the seconds it took."""
    # Those of the hour of the time, too: the interval in which it lies is told by the one before.
    archive = Archive(f"file://{site.lab.archive}", f"{SOURCE}-to-{TARGET}")
    rows = archive.read(SAMPLES, since=datetime.fromtimestamp(since, UTC) - HOUR, columns=["at", "kind", "details"])
    told = rows.filter(pc.equal(rows["kind"], Kind.SAMPLE.value)).to_pylist() if rows else []
    return sorted((one["at"] / 1000, json.loads(one["details"])["took_ms"] / 1000) for one in told)


def longest_interval(begun: Sequence[float], since: float, ended: float) -> float:
    """Return the longest time between beginnings of samples that touch a span, to the millisecond."""
    return round(
        max(later - earlier for earlier, later in itertools.pairwise(begun) if later > since and earlier < ended), 3
    )
