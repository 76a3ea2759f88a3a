"""Translate consumer-group positions from source offsets to target offsets.

    spark-submit spark/jobs/translate_offsets.py --input DIR --output DIR --logins FILE

Reads positions.parquet, syncs.parquet, bounds.parquet, job.json, and the records around the positions from both
clusters. If the replication direction has changed, segments.parquet lists the segments of both logs and
syncs_back.parquet holds the offset syncs of the flow from target to source. With --wait-for-input the job starts while
the input is being written: job.json must be written last and atomically; a file `failed` means that job.json will not
be written. Writes translation.parquet and summary.json. Client settings come as JSON from a file that only its owner
can read (--logins), which the job deletes once it has read it. The same input gives the same rows and digest; a second
run with the same --output does nothing. Exit code 0 if the output exists; otherwise one line on stderr gives the
reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafka_dr_spark import session
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract import output as sinks
from kafka_dr_spark.job import JobRun, print_progress, run_job
from kafka_dr_spark.translation.task import PartitionTask

NAME = "translate_offsets"
ROWS_PER_TASK = 100_000
RECORDS_PER_TASK = 250_000
# Starting a Spark worker takes as long as reading this many records, because workers that start together slow each
# other down.
RECORDS_OF_A_START = 50_000


def translate(run: JobRun) -> None:
    """Translate every position in the run's input to a target offset, and create the output folder."""
    segments = sources.load_segments(run.given)
    rows = sources.tagged_rows(run.given)
    extents = sources.measure_positions(rows)
    reading = {key: sources.records_at_most(extent, run.bounds.get(key), run.limits) for key, extent in extents.items()}
    print_progress(
        f"positions: {sources.total_rows(extents)} on {len(extents)} partitions; records to read at most:"
        f" {2 * sum(reading.values())}"
    )
    weights = {key: extent.rows + 2 * reading[key] + 100 for key, extent in extents.items()}
    with run.started() as (spark, folder):
        tasks = task_count(sources.total_rows(extents), sum(reading.values()), len(extents), spark.defaultParallelism)
        packed = sources.packed_for_tasks(rows, sources.spread_partitions(weights, tasks), tasks)
        task = PartitionTask(run.bounds, run.limits, run.clients, segments)
        finished = spark.parallelize(packed, tasks).map(task).collect()
        run.clock.phase("translate")
        reports = sinks.write_rows(finished, folder)
        run.clock.phase("write")
        summary = sinks.summarise_reports(reports, run.digest)
        sinks.publish_output(folder, run.output, summary | {"seconds": run.clock.seconds})
    print_progress(
        f"classes: {summary['classes']}; exact: {summary['exact']} of {summary['positions']}; records read:"
        f" {summary['records_read']}"
    )


def task_count(rows: int, records: int, partitions: int, cores: int) -> int:
    """Return the number of Spark tasks: at least 1, and at most one per partition.

    Up to one task per core is used, but only as many as have at least `RECORDS_OF_A_START` records each to read: that
    takes as long as starting a Spark worker. Big inputs get more tasks than cores.

    Args:
        rows: number of positions to translate.
        records: most records to read of one cluster.
        partitions: number of partitions with positions.
        cores: number of cores of all Spark workers.
    """
    useful_tasks = max(min(cores, records // RECORDS_OF_A_START), rows // ROWS_PER_TASK, records // RECORDS_PER_TASK)
    return max(1, min(useful_tasks, partitions))


if __name__ == "__main__":
    sys.exit(run_job(NAME, __doc__, translate, prepare=session.start_spark))
