"""Compare what both clusters hold, record by record, and list what differs.

    spark-submit spark/jobs/reconcile_clusters.py --input DIR --output DIR --logins FILE

Reads bounds.parquet (here source_start and cut_off, target_start and boundary are the ranges of both logs to compare),
judged.parquet (which of these records are judged), job.json, and both logs in these ranges, each once; of the records
that differ, the first are read once more. Records are equal if key, value, headers and timestamp are. Writes
reconciled.parquet (a row per partition), summary.json, and the folder differences with one list per partition that has
differences. All Spark workers must have access to the output folder. With --wait-for-input the job starts while the
input is being written: job.json must be written last and atomically. Client settings come as JSON from a file that only
its owner can read (--logins), which the job deletes once it has read it. The same input gives the same rows and digest;
a second run with the same --output does nothing. Exit code 0 if the output exists, whether or not the clusters differ;
otherwise one line on stderr gives the reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract import output as sinks
from kafka_dr_spark.export.settings import shows_keys
from kafka_dr_spark.job import JobRun, print_progress, run_job
from kafka_dr_spark.reconciliation.scope import load_judged
from kafka_dr_spark.reconciliation.task import (
    DIFFERENCES,
    ReconcileTask,
    summarise_reconciled,
    weight_of,
    write_reconciled,
)

NAME = "reconcile_clusters"


def compare_clusters(run: JobRun) -> None:
    """Compare every partition of the run's input, and create the output folder."""
    judged = load_judged(run.given, run.bounds)
    print_progress(f"partitions: {len(run.bounds)}")
    with run.started(DIFFERENCES) as (spark, folder):
        tasks = sources.task_count(len(run.bounds), spark.defaultParallelism)
        weights = {key: weight_of(bounds) for key, bounds in run.bounds.items()}
        task_of_partition = sources.spread_partitions(weights, tasks)
        parts = [[key for key, task in task_of_partition.items() if task == number] for number in range(tasks)]
        compare = ReconcileTask(run.bounds, judged, run.limits, run.clients, str(folder), shows_keys(run.given))
        packed_rows = spark.parallelize(parts, tasks).map(compare).collect()
        run.clock.phase("compare")
        summary = summarise_reconciled(write_reconciled(packed_rows, folder), run.digest)
        sinks.publish_output(folder, run.output, summary | {"seconds": run.clock.seconds}, "reconciled_figures")
    print_progress(", ".join(f"{name}: {summary[name]}" for name in ("missing", "extra", "altered", "repeated")))


if __name__ == "__main__":
    sys.exit(run_job(NAME, __doc__, compare_clusters, reads_source=True))
