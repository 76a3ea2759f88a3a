"""Tells what is lost with the source: by partition, certainly and possibly, and to the record where the source
can be read.

    spark-submit spark/jobs/assess_data_loss.py --input DIR --output DIR

Reads bounds.parquet, syncs.parquet, last_seen.parquet, positions.parquet, what a recorder knows (floors.parquet,
stretches.parquet) and job.json, and the ends of both logs as far as they must be compared. With --wait-for-input it
starts while they are written: job.json must come last, as a whole. Writes loss.parquet, ahead.parquet, rereads.parquet,
summary.json and, where the source is readable, the stranded records themselves into the folder stranded; then DIR must
be seen by all workers. Where the input holds a folder translate_offsets, that job's own input, its output is made
beside these, by the same start of Spark; where that cannot be done the output lacks it. Client settings come as JSON
from KAFKA_DR_SOURCE_CONFIG and KAFKA_DR_TARGET_CONFIG, or from private files. The same input gives the same rows and
digest; a second run does nothing. Exit code 0 if the output is there; otherwise one line on stderr says why not.
"""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import translate_offsets
from kafka_dr_spark import session, sinks, sources
from kafka_dr_spark.assessing import AssessmentTask
from kafka_dr_spark.digests import input_digest
from kafka_dr_spark.inventory import summarise, write_inventory
from kafka_dr_spark.listing import STRANDED, UNCOMMITTED
from kafka_dr_spark.running import Clock, access, exit_code, options, reason, say
from kafka_dr_spark.tagging import FLOOR, POSITION, SEEN, STRETCH, SYNC

NAME = "assess_data_loss"
PARTITIONS_PER_TASK = 500


def run() -> None:
    """Assess, unless this very assessment exists."""
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
    clients = access(wanted, limits.source_readable)
    bounds = sources.load_bounds(wanted.input, limits.source_readable)
    rows = sources.tagged_rows(wanted.input, needed=(SYNC, SEEN, POSITION), optional=(FLOOR, STRETCH))
    say(f"partitions: {len(bounds)}; the source can {'' if limits.source_readable else 'not '}be read")
    clock.phase("plan")
    folder = sinks.aside(output)
    try:
        for name in (STRANDED, UNCOMMITTED):
            (folder / name).mkdir()
        spark = session.running(NAME)
        tasks = max(1, min(len(bounds), max(spark.defaultParallelism, len(bounds) // PARTITIONS_PER_TASK)))
        clock.phase("session")
        packed = sources.packed_for_tasks(rows, sources.spread(dict.fromkeys(bounds, 1), tasks), tasks)
        made = spark.parallelize(packed, tasks).map(AssessmentTask(bounds, limits, clients, str(folder))).collect()
        clock.phase("assess")
        inventory = write_inventory(made, wanted.input, folder)
        clock.phase("write")
        translate_too(wanted, folder)
        summary = {**summarise(inventory, len(bounds), digest), "seconds": clock.seconds}
        sinks.publish(folder, output, summary, "loss_summary")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(
        f"partitions that lose or may lose records: {summary['losing']}; certainly lost: {summary['certain']}; groups"
        f" ahead: {summary['groups_ahead']}"
    )


def translate_too(wanted: Namespace, folder: Path) -> None:
    """Translate what the input holds for that; the loss must be told whether or not it succeeds."""
    given = wanted.input / translate_offsets.NAME
    if not given.exists():
        return
    try:
        translate_offsets.translate(wanted, given, folder / translate_offsets.NAME, Clock())
    except Exception as error:  # noqa: BLE001
        say(f"the positions were not translated: {reason(error)}")


if __name__ == "__main__":
    sys.exit(exit_code(run))
