"""Spark jobs: files in, files out; client settings go through the environment only."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pandas as pd
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from kafka_dr.actions.concurrently import run_concurrently
from kafka_dr.domain.mirror_maker.naming import LONGEST_TOPIC, topic_problem
from kafka_dr.errors import Contradiction, SparkFailed
from kafka_dr.procedure.run import Run

_INPUT_SECONDS = 300.0
#: File that tells a job there will be no input.
_FAILED = "failed"


def run_spark_job(
    procedure: Run, context: Any, job: str, write: Callable[[Path], dict[str, Any]], in_vain: str
) -> Path:
    """Run one of `spark/jobs` and return its folder; its input is written while Spark starts, to save seconds.

    Args:
        job: the job's name, and its file's.
        write: writes all files of the input into a folder; answers what job.json says, which comes last.
        in_vain: what was not done, when it ended without its result.

    Raises:
        SparkFailed: it ended without its result.
    """
    # Each process has its own folders: an orphan of an earlier try may still be reading and writing.
    given, made = (procedure.artifacts.folder / f"{job}-{procedure.lease.epoch}{part}" for part in (".input", ""))
    given.mkdir(parents=True)
    with run_concurrently() as start:
        inputs = start(_write_input, given, write)
        try:
            submit_job(procedure, context, job, given, made, in_vain)
        except SparkFailed:
            # Spark that was told there will be no input only says that.
            if inputs.done() or (given / _FAILED).exists():
                inputs.result()
            raise
    return made


def write_frame(folder: Path, name: str, frame: pd.DataFrame) -> None:
    """Write one file of a job's input; text columns are typed explicitly, as pandas gives empty ones no type."""
    _refuse_illegal_topics(frame)
    texts = dict.fromkeys(frame.select_dtypes(object).columns, "string")
    (frame if len(frame) else frame.astype(texts)).to_parquet(folder / f"{name}.parquet", index=False)


def _refuse_illegal_topics(frame: pd.DataFrame) -> None:
    """Jobs name files after topics: a name that a cluster made up must not lead out of their folder."""
    for column in ("topic", "target_topic"):
        for name in sorted(set(frame[column].dropna())) if column in frame else ():
            if problem := topic_problem(name):
                raise Contradiction(
                    "A cluster names a topic that Kafka does not allow",
                    f"{name[:LONGEST_TOPIC]!a}: {problem}",
                    "Find out what answers under the cluster's address: no broker makes such a topic. Then start a new"
                    " run.",
                )


def contract_frame(frame: pd.DataFrame, *never_null: str) -> pd.DataFrame:
    """A frame of the archive in the types of the jobs' contract."""
    return frame.astype({"topic": object, "partition": "int32", **dict.fromkeys(never_null, "int64")})


def _write_input(folder: Path, write: Callable[[Path], dict[str, Any]]) -> None:
    """Write a job's input, and last job.json; or that there will be none."""
    try:
        (folder / "writing").write_text(json.dumps(write(folder)), encoding="utf-8")
        (folder / "writing").replace(folder / "job.json")
    except BaseException:
        with suppress(OSError):
            (folder / _FAILED).touch()
        raise


def submit_job(procedure: Run, context: Any, job: str, given: Path, made: Path, in_vain: str) -> None:
    """Submit a job and wait until it ends, `spark_seconds` at most; SparkFailed if that was without its result."""
    procedure.systems.connections.check_spark(procedure.topology.spark.connection)
    home = Path(os.environ.get("KAFKA_DR_SPARK_HOME", Path(__file__).parents[3] / "spark"))
    secrets = {
        f"KAFKA_DR_{side}_CONFIG": json.dumps(
            procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection)
        )
        for side, alias in (("SOURCE", procedure.request.source), ("TARGET", procedure.request.target))
    }
    submission = SparkSubmitOperator(  # noqa: AIR001 (run by the step, no task of a DAG)
        task_id="spark_submit",
        application=str(home / "jobs" / f"{job}.py"),
        application_args=[
            "--input",
            str(given),
            "--output",
            str(made),
            "--wait-for-input",
            str(_input_seconds(procedure)),
        ],
        conn_id=procedure.topology.spark.connection,
        env_vars=secrets,
        name=f"{job} {procedure.id}",
        conf={"spark.ui.enabled": "false"},
    )
    limit = procedure.request.deadlines.spark_seconds
    try:
        with killed_after(limit, submission) as late:
            submission.execute(context)
    except AirflowException as error:
        if late.is_set():
            raise SparkFailed(
                in_vain,
                f"it had not ended after {limit:.0f} s, and was killed",
                "Look at the task's log for what Spark waited for; where it was at work, raise `spark_seconds`.",
            ) from None
        # The message of an ended spark-submit holds its whole command: of that only the exit code is told.
        code = re.search(r"Error code is: (-?\d+)", str(error))
        seen = f"spark-submit ended with {code.group(1)}" if code else str(error)[:200]
        raise SparkFailed(in_vain, seen, "Look at the ERROR lines in the task's log.") from None


@contextmanager
def killed_after(seconds: float, submission: SparkSubmitOperator) -> Iterator[Event]:
    """Kill a job that lasts longer, and set the event; by a thread, as signals reach the main one only."""
    late = Event()

    def kill() -> None:
        late.set()
        submission.on_kill()

    timer = Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _input_seconds(procedure: Run) -> float:
    """How long Spark waits for its input: no longer than clients may be fenced, since nobody needs it after that."""
    deadline = procedure.progress.fence_deadline()
    return _INPUT_SECONDS if deadline is None else max(1.0, min(_INPUT_SECONDS, deadline - time.time()))
