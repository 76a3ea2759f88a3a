"""Find the records of a returned cluster that were never replicated from it, and write these records to files.

    spark-submit spark/jobs/find_stranded_records.py --input DIR --output DIR --logins FILE

In this job, unlike in the failback that starts it, the source is the returned cluster, and the target is the cluster
that clients moved to. Reads bounds.parquet (the cut-off is the source's log end before the flow back wrote to the
source, the boundary is the target's log end before any client wrote to the target), returned.parquet, syncs.parquet,
the flight recorder's floors.parquet, job.json, and both logs as far as the comparison needs. Each log is read once, and
the stranded records are read once more. With --wait-for-input the job starts while the input is being written: job.json
must be written last and atomically. Writes stranded_summary.parquet, summary.json, and these folders: stranded (the
stranded records), uncommitted (a list of the stranded records whose transaction has not committed), older (replicated
records that are no longer on the target). With `export_to` in job.json these folders are in the store; else all Spark
workers must have access to the output folder. A file's name ends with the task attempt that wrote it; only files that
stranded_summary.parquet names count. The logins of the clusters and of the store come as JSON from a file that only its
owner can read (--logins), which the job deletes once it has read it. The same input gives the same rows and digest; a
second run with the same --output does nothing. Exit code 0 if the output exists; otherwise one line on stderr gives the
reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract import output as sinks
from kafka_dr_spark.contract.task_rows import FLOOR, SYNC
from kafka_dr_spark.export.place import OLDER, STRANDED, UNCOMMITTED
from kafka_dr_spark.export.settings import load_export
from kafka_dr_spark.job import JobRun, print_progress, run_job
from kafka_dr_spark.stranded.task import SearchTask, listed_files, summarise_stranded, weight_of, write_findings

NAME = "find_stranded_records"


def find(run: JobRun) -> None:
    """Find the stranded records of every partition in the run's input, and create the output folder."""
    bounds, returned = run.bounds, sources.load_returned(run.given, run.bounds)
    rows = sources.tagged_rows(run.given, needed=(SYNC,), optional=(FLOOR,))
    print_progress(f"partitions: {len(bounds)}")
    export = load_export(run.given, run.logins)
    with run.started(*export.folders(STRANDED, UNCOMMITTED, OLDER)) as (spark, folder):
        tasks = sources.task_count(len(bounds), spark.defaultParallelism)
        task_of_partition = sources.spread_partitions(
            {key: weight_of(of_key, returned[key]) for key, of_key in bounds.items()}, tasks
        )
        packed = sources.packed_for_tasks(rows, task_of_partition, tasks)
        parts = [
            ([key for key, task in task_of_partition.items() if task == number], packed_part)
            for number, packed_part in enumerate(packed)
        ]
        place = export.place(folder)
        search = SearchTask(bounds, returned, run.limits, run.clients, place)
        packed_rows = spark.parallelize(parts, tasks).map(search).collect()
        run.clock.phase("search")
        findings = write_findings(packed_rows, folder)
        place.keep_only(listed_files(findings))
        summary = summarise_stranded(findings, run.digest) | {"export": export.description}
        sinks.publish_output(folder, run.output, summary | {"seconds": run.clock.seconds}, "stranded_figures")
    print_progress(
        f"stranded records: {summary['records']} on {summary['stranding']} partitions; replicated records that the"
        f" source has lost: {summary['lacking']}"
    )


if __name__ == "__main__":
    sys.exit(run_job(NAME, __doc__, find, reads_source=True))
