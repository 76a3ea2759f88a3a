"""Tells what a returned cluster holds that was never replicated, record by record, and writes these records
down.

    spark-submit spark/jobs/find_stranded_records.py --input DIR --output DIR

The source is the returned cluster, the target the one that clients went to. Reads bounds.parquet (the cut-off is the
source's log end now, the boundary the target's log end before clients wrote there), returned.parquet, syncs.parquet,
what a recorder knows (floors.parquet) and job.json, and both logs as far as they must be compared: once each, and what
is stranded once more. With --wait-for-input it starts while they are written: job.json must come last, as a whole.
Writes stranded_summary.parquet, summary.json and the records themselves into the folders stranded and older, with
uncommitted beside them; DIR must be seen by all workers. Client settings come as JSON from KAFKA_DR_SOURCE_CONFIG and
KAFKA_DR_TARGET_CONFIG, or from private files. The same input gives the same rows and digest; a second run does nothing.
Exit code 0 if the output is there; otherwise one line on stderr says why not.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafka_dr_spark import session, sinks, sources
from kafka_dr_spark.digests import input_digest
from kafka_dr_spark.finding import OLDER, SearchTask, summarise, weight_of, write_findings
from kafka_dr_spark.listing import STRANDED, UNCOMMITTED
from kafka_dr_spark.running import Clock, access, exit_code, options, say
from kafka_dr_spark.tagging import FLOOR, SYNC

NAME = "find_stranded_records"
PARTITIONS_PER_TASK = 500


def run() -> None:
    """Search, unless this very search was done."""
    wanted = options(__doc__).parse_args()
    clock, output = Clock(), wanted.output.absolute()
    if wanted.wait_for_input:
        session.ready(NAME)
        sources.await_input(wanted.input, wanted.wait_for_input)
        clock.phase("start")
    limits = sources.load_limits(wanted.input, wanted.content_limit, wanted.rows_per_read)
    digest = input_digest(wanted.input, asdict(limits))
    if sinks.is_done(output, digest):
        say(f"{output} exists already: nothing to do")
        return
    clients = access(wanted, source_readable=True)
    bounds = sources.load_bounds(wanted.input, source_readable=True)
    returned = sources.load_returned(wanted.input, bounds)
    rows = sources.tagged_rows(wanted.input, needed=(SYNC,), optional=(FLOOR,))
    say(f"partitions: {len(bounds)}")
    clock.phase("plan")
    folder = sinks.aside(output)
    try:
        for name in (STRANDED, UNCOMMITTED, OLDER):
            (folder / name).mkdir()
        spark = session.running(NAME)
        tasks = max(1, min(len(bounds), max(spark.defaultParallelism, len(bounds) // PARTITIONS_PER_TASK)))
        clock.phase("session")
        spread = sources.spread({key: weight_of(one, returned[key]) for key, one in bounds.items()}, tasks)
        packed = sources.packed_for_tasks(rows, spread, tasks)
        parts = [([key for key, task in spread.items() if task == number], one) for number, one in enumerate(packed)]
        made = spark.parallelize(parts, tasks).map(SearchTask(bounds, returned, limits, clients, str(folder))).collect()
        clock.phase("search")
        found = write_findings(made, folder)
        summary = {**summarise(found, digest), "seconds": clock.seconds}
        sinks.publish(folder, output, summary, "stranded_figures")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"stranded records: {summary['records']} on {summary['stranding']} partitions; lacking: {summary['lacking']}")


if __name__ == "__main__":
    sys.exit(exit_code(run))
