"""(n) 20,000 partitions and 10,000 groups: recorder, readiness, forecast, fence; memory for large records and logs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.clusters import HEAP, SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, PeakMemory, say
from tests.benchmarks.readiness import fill
from tests.benchmarks.recorder import samples
from tests.faults.readiness.one_check import check
from tests.faults.support.stepping import ROOT, Run, Stepping, product_environment
from tests.support.size.one_broker import one_broker
from tests.support.size.reading_memory import grown, write_large, write_syncs

PARTITIONS, GROUPS = 20_000, 10_000
CHECK, FIRST, NEXT = "one check of readiness", "recorder's first sample", "recorder's later samples, the slowest"
STEPS = ("check_readiness", "forecast", "fence_producers")
#: By what is done: at most so many seconds, and at most so many MB of the largest process.
BOUNDS = {CHECK: (90, 600), FIRST: (90, 600), NEXT: (45, 600)} | dict.fromkeys(STEPS, (90, 600))
#: Records of 1 MB on so many partitions, and offset syncs of 1 GB.
LARGE_PARTITIONS, LARGE_RECORDS, SYNCS, LONG_NAME = 200, 2, 4_200_000, 200
READINGS = {"tails": "1 MB records", "fingerprints": "1 MB records", "syncs_to_file": "1 GB of offset syncs"}
READINGS |= {"last_syncs": "1 GB of offset syncs"}
#: What a reading takes of memory at most, in MB. The file's writer takes 148 MB from 500,000 offset syncs on.
GROWTH = dict.fromkeys(READINGS, Bound(100)) | {"syncs_to_file": Bound(200)}
RECORDED_SECONDS, FILES = 150, 100_000
RECORDER = "kafka_dr.commands.record_positions"
#: Prints what the DAG record_positions tells the recorder.
SETTINGS = """
import json, os
from kafka_dr.config.settings import load_topology
from kafka_dr.connections import Connections
from kafka_dr.steps.always_on.record_positions import recorder_settings
print(json.dumps(recorder_settings(load_topology(os.environ["KAFKA_DR_TOPOLOGY"]), Connections())))
"""


def seconds(what: str) -> str:
    """Name the figure of the time that something takes."""
    return f"(n) {what}, {PARTITIONS:,} partitions and {GROUPS:,} groups"


def memory(what: str) -> str:
    """Name the figure of the memory that something takes."""
    return f"(n) memory of {what}"


def growth(reading: str) -> str:
    """Name the figure of the memory that a reading takes."""
    return f"(n) growth of memory by {reading}, {READINGS[reading]}"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for what, (longest, most) in BOUNDS.items():
        figures.promise(seconds(what), Bound(longest), " s")
        figures.promise(memory(what), Bound(most), " MB")
    for reading in READINGS:
        figures.promise(growth(reading), GROWTH[reading], " MB")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Large records and logs on one broker; then both clusters, with the recorder, a check, and the first steps."""
    allow_files()
    measure_readings(figures, scale)
    with clusters() as site:
        fill(site, "orders", PARTITIONS * scale, GROUPS * scale)
        measure_recorder(figures, site)
        measure_check(figures, site)
        measure_steps(figures, site)


def allow_files() -> None:
    """Let brokers open as many files as they have partitions; a limit that this user may not raise stays."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, max(hard, FILES)))
    except (ValueError, OSError):
        say(f"  at most {hard:,} open files: a broker may not open all of its partitions")


def measure_readings(figures: Figures, scale: float) -> None:
    """Read large records, and an offset-syncs topic of 1 GB, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="switchback-bench-") as folder, one_broker(Path(folder), HEAP) as settings:
        write_large(settings, max(50, int(LARGE_PARTITIONS * scale)), LARGE_RECORDS)
        write_syncs(settings, int(SYNCS * scale), "o" * LONG_NAME)
        for reading in READINGS:
            figures.measured(growth(reading), grown(reading, settings))


def measure_recorder(figures: Figures, site: Clusters) -> None:
    """Let the recorder's own command take samples for a while, and read from the archive what each took."""
    settings, began = recorder_input(site), time.time()
    with recording(site, settings) as recorder:
        with PeakMemory(recorder.pid) as peak:
            time.sleep(RECORDED_SECONDS)
        took = [took for at, took in samples(site, began) if at >= began]
    if len(took) < 3:
        raise RuntimeError(f"the recorder took {len(took)} samples in {RECORDED_SECONDS} s")
    for what, value in ((FIRST, took[0]), (NEXT, max(took[1:]))):
        figures.measured(seconds(what), value, f"{len(took)} samples in {RECORDED_SECONDS} s")
        figures.measured(memory(what), peak.largest(RECORDER))


def recorder_input(site: Clusters) -> str:
    """Return the line that the DAG record_positions writes to the recorder's standard input."""
    lines = subprocess.run(
        [sys.executable, "-c", SETTINGS], cwd=ROOT, env=product_environment(site.lab), capture_output=True, check=True
    )
    return lines.stdout.decode().splitlines()[-1] + "\n"


@contextmanager
def recording(site: Clusters, settings: str) -> Iterator[subprocess.Popen[str]]:
    """Run the recorder meanwhile; it ends with its standard input."""
    environment, log = product_environment(site.lab), site.scratch / "recorder.log"
    with log.open("w") as output:
        recorder = subprocess.Popen(
            [sys.executable, "-m", RECORDER], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=output, text=True
        )
        with recorder:
            recorder.stdin.write(settings)
            recorder.stdin.flush()
            yield recorder
            recorder.stdin.close()


def measure_check(figures: Figures, site: Clusters) -> None:
    """Check the flow once, in a process that begins from nothing."""
    with PeakMemory(os.getpid()) as peak:
        document = check(site.lab)
    figures.measured(seconds(CHECK), document["took_seconds"], f"found {[one['id'] for one in document['findings']]}")
    figures.measured(memory(CHECK), peak.largest("one_check"))


def measure_steps(figures: Figures, site: Clusters) -> None:
    """Run a planned failover up to its fence, which is lifted again; each step is a process of its own."""
    procedure = Run({"source": SOURCE, "target": TARGET, "reason": "its size is measured"})
    with Stepping(site.lab, site.scratch / "steps") as driver:
        try:
            for step in procedure.steps[: procedure.steps.index(STEPS[-1]) + 1]:
                measure_step(figures, driver, procedure, step)
        finally:
            driver.step(procedure, "return_to_source")


def measure_step(figures: Figures, driver: Stepping, procedure: Run, step: str) -> None:
    """Run one step, and measure it if its time is promised."""
    began = time.monotonic()
    with PeakMemory(os.getpid()) as peak:
        state = driver.step(procedure, step)
    took = time.monotonic() - began
    if state != "done":
        raise RuntimeError(f"{step} ended as {state}: {procedure.texts.get(step, '')[-2000:]}")
    if step in STEPS:
        figures.measured(seconds(step), took)
        figures.measured(memory(step), peak.largest("step_server"))
