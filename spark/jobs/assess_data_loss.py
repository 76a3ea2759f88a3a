"""Determine, per partition, which records are certainly lost with the source, and which may be lost.

    spark-submit spark/jobs/assess_data_loss.py --input DIR --output DIR --logins FILE

Reads bounds.parquet, syncs.parquet, last_seen.parquet, positions.parquet, the flight recorder's files floors.parquet
and stretches.parquet, job.json, and the ends of both logs as far as the comparison needs. With --wait-for-input the job
starts while the input is being written: job.json must be written last and atomically. Writes loss.parquet,
ahead.parquet, rereads.parquet, summary.json and, if the source is readable, the stranded records into the folder
stranded; with `export_to` in job.json this folder is in the store, else all Spark workers must have access to the
output folder. If the input has a folder translate_offsets (the input of the job translate_offsets), the same Spark
session also translates the groups' positions; the folder translate_offsets is missing from the output if the
translation fails. The logins of the clusters and of the store come as JSON from a file that only its owner can read
(--logins), which the job deletes once it has read it. The same input gives the same rows and digest; a second run with
the same --output does nothing. Exit code 0 if the output exists; otherwise one line on stderr gives the reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import translate_offsets
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract import output as sinks
from kafka_dr_spark.contract.task_rows import FLOOR, POSITION, SEEN, STRETCH, SYNC
from kafka_dr_spark.export.place import STRANDED, UNCOMMITTED
from kafka_dr_spark.export.settings import load_export
from kafka_dr_spark.job import JobRun, error_line, print_progress, run_job
from kafka_dr_spark.loss.inventory import listed_files, summarise_inventory, write_inventory
from kafka_dr_spark.loss.task import AssessmentTask

NAME = "assess_data_loss"


def assess(run: JobRun) -> None:
    """Assess the data loss of every partition in the run's input, and create the output folder."""
    rows = sources.tagged_rows(run.given, needed=(SYNC, SEEN, POSITION), optional=(FLOOR, STRETCH))
    print_progress(
        f"partitions: {len(run.bounds)}; the source can {'' if run.limits.source_readable else 'not '}be read"
    )
    export = load_export(run.given, run.logins)
    with run.started(*export.folders(STRANDED, UNCOMMITTED)) as (spark, folder):
        tasks = sources.task_count(len(run.bounds), spark.defaultParallelism)
        packed = sources.packed_for_tasks(rows, sources.spread_partitions(dict.fromkeys(run.bounds, 1), tasks), tasks)
        place = export.place(folder)
        task = AssessmentTask(run.bounds, run.limits, run.clients, place)
        packed_rows = spark.parallelize(packed, tasks).map(task).collect()
        run.clock.phase("assess")
        inventory = write_inventory(packed_rows, run.given, folder)
        place.keep_only(listed_files(inventory))
        for why in inventory.not_stored[:1]:
            print_progress(f"lost records of {len(inventory.not_stored)} partitions are not exported: {why}")
        run.clock.phase("write")
        translate_too(run, folder)
        summary = summarise_inventory(inventory, len(run.bounds), run.digest) | {"export": export.description}
        sinks.publish_output(folder, run.output, summary | {"seconds": run.clock.seconds}, "loss_summary")
    print_progress(
        f"partitions that lose or may lose records: {summary['losing']}; records certainly lost: {summary['certain']};"
        f" groups ahead of replication: {summary['groups_ahead']}"
    )


def translate_too(run: JobRun, folder: Path) -> None:
    """Translate the positions if the input has a folder translate_offsets; print an error instead of raising it.

    The loss is written even if the translation fails. The translation is written to the folder translate_offsets in
    ``folder``, the scratch folder of the loss assessment.
    """
    job_name = translate_offsets.NAME
    if not (run.given / job_name).exists():
        return
    try:
        nested = JobRun(job_name, run.wanted, run.logins, run.given / job_name, folder / job_name)
        nested.make(translate_offsets.translate)
    except Exception as error:  # noqa: BLE001
        print_progress(f"the positions were not translated: {error_line(error)}")


if __name__ == "__main__":
    sys.exit(run_job(NAME, __doc__, assess, reads_all=False))
