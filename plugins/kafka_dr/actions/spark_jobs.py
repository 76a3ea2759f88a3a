"""Submit Spark jobs, which read and write files and get all logins by a private file only."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException

from kafka_dr.actions.record_exports import EXPORTING_JOBS, export_fields, export_logins, store_listing
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.spark_settings import SparkSettings
from kafka_dr.domain.mirror_maker.naming import LONGEST_TOPIC, topic_problem
from kafka_dr.errors import Contradiction, SparkFailed
from kafka_dr.hooks.handed_logins import handed_logins
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.hooks.redaction import one_line
from kafka_dr.hooks.spark_place import SparkPlace
from kafka_dr.installation import spark_folder
from kafka_dr.procedure.run import Run

_INPUT_SECONDS = 300.0
#: Settings on a Spark cluster, as the clusters' logins travel in tasks. Without the third setting, a connection whose
#: first exchange is disturbed would go on unencrypted.
_PROTECTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
_SECRET = "spark.authenticate.secret"  # noqa: S105 (the name of a setting)
#: Name of the Kubernetes Secret with the key `secret`, and the folder in an executor's pod where it is mounted.
_KUBERNETES_SECRET, _MOUNTED_AT = "switchback-spark", "/etc/switchback-spark"
#: Exit code of a shell that does not find what it should start.
_NO_SPARK = "127"
#: Name of the file on which the job ends, because no input will come.
_FAILED = "failed"


def run_spark_job(
    procedure: Run, context: Any, job: str, write: Callable[[Path], dict[str, Any]], failure_reason: str
) -> Path:
    """Run one of `spark/jobs` and return its output folder; to save time, write the input while Spark starts.

    Args:
        job: the job's name, also the stem of its file.
        write: function that writes all input files but job.json into a folder, and returns the content of job.json.
        failure_reason: first sentence of the error message if the job ends without a result.

    Raises:
        SparkFailed: the job ended without a result.
    """
    # Each try has folders named after its epoch, because a job of an earlier try may still use the earlier folders.
    input_folder, output_folder = (
        procedure.artifacts.folder / f"{job}-{procedure.lease.epoch}{part}" for part in (".input", "")
    )
    private_folder(input_folder.parent)
    input_folder.mkdir(mode=0o700)
    fields = export_fields(procedure, output_folder) if job in EXPORTING_JOBS else {}
    with run_concurrently() as start:
        inputs = start(_write_input, input_folder, lambda folder: write(folder) | fields)
        try:
            submit_job(procedure, context, job, input_folder, output_folder, failure_reason)
        except SparkFailed:
            # If writing the input failed, the job only reports that input is missing: raise the error of the writing.
            if inputs.done() or (input_folder / _FAILED).exists():
                inputs.result()
            raise
    if job in EXPORTING_JOBS:
        store_listing(procedure, output_folder)
    return output_folder


def write_frame(folder: Path, name: str, frame: pd.DataFrame) -> None:
    """Write a frame as the input file `name`.parquet; an empty frame's text columns get the type string.

    Raises:
        Contradiction: the column `topic` or `target_topic` has a name that Kafka does not allow.
    """
    write_portions(folder, name, [frame])


def write_portions(folder: Path, name: str, portions: Iterable[pd.DataFrame]) -> None:
    """Write frames of equal columns as one input file `name`.parquet, one after the other; at least one frame.

    Raises:
        Contradiction: the column `topic` or `target_topic` has a name that Kafka does not allow.
    """
    with ExitStack() as stack:
        file: pq.ParquetWriter | None = None
        for frame in portions:
            _refuse_illegal_topics(frame)
            texts = dict.fromkeys(frame.select_dtypes(object).columns, "string")
            rows = pa.Table.from_pandas(frame if len(frame) else frame.astype(texts), preserve_index=False)
            if file is None:
                file = stack.enter_context(pq.ParquetWriter(private_file(folder / f"{name}.parquet"), rows.schema))
            file.write_table(rows.cast(file.schema))


def _refuse_illegal_topics(frame: pd.DataFrame) -> None:
    """Refuse topic names that are illegal in Kafka: jobs name files after topics, and a name could be a path."""
    for column in ("topic", "target_topic"):
        for name in sorted(set(frame[column].dropna())) if column in frame else ():
            if problem := topic_problem(name):
                raise Contradiction(
                    "A topic has a name that Kafka does not allow",
                    f"{name[:LONGEST_TOPIC]!a}: {problem}",
                    "No Kafka broker creates such a topic: probably another server answers in place of a broker. Find"
                    " out which servers answer at `bootstrap.servers` in the Airflow connections of the source and of"
                    " the target, and correct the address that leads to no broker; then start a new run.",
                )


def contract_frame(frame: pd.DataFrame, *never_null: str) -> pd.DataFrame:
    """Return a frame of archived rows with the column types that the Spark jobs expect.

    Args:
        never_null: integer columns that have no null.
    """
    return frame.astype({"topic": object, "partition": "int32", **dict.fromkeys(never_null, "int64")})


def _write_input(folder: Path, write: Callable[[Path], dict[str, Any]]) -> None:
    """Write a job's input, job.json last; if writing fails, create the file `failed`, on which the job ends."""
    try:
        private_file(folder / "writing").write_text(json.dumps(write(folder)), encoding="utf-8")
        (folder / "writing").replace(folder / "job.json")
    except BaseException:
        with suppress(OSError):
            private_file(folder / _FAILED)
        raise


def submit_job(
    procedure: Run, context: Any, job: str, input_folder: Path, output_folder: Path, failure_reason: str
) -> None:
    """Submit a job to Spark and wait until the job has ended; an empty context means that no Airflow task runs it.

    Raises:
        SparkFailed: the job failed, or was killed after the deadline `spark_seconds`.
    """
    settings, connections = procedure.topology.spark, procedure.systems.connections
    connections.check_spark(settings.connection)
    place = connections.spark_place(settings.connection)
    exports = export_logins(procedure) if job in EXPORTING_JOBS else {}
    with handed_logins(_private_files(procedure, place, exports)) as folder:
        submission = _submission(procedure, job, settings, place, folder, input_folder, output_folder, bool(context))
        _execute(procedure, submission, context, failure_reason)


def _private_files(procedure: Run, place: SparkPlace, exports: Mapping[str, Any]) -> dict[str, bytes]:
    """Return what spark-submit gets by files: name -> content; `exports` are the secrets of an export."""
    logins: dict[str, Any] = {
        role: procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection)
        for role, alias in (("source", procedure.request.source), ("target", procedure.request.target))
    } | dict(exports)
    files = {}
    if place.keytab:
        files["keytab"] = place.keytab
    if place.kind == "kubernetes":
        # Spark would otherwise write the secret into the specification of each executor's pod.
        files["spark_secret"] = str(place.secret).encode()
    elif place.secret:
        logins["spark"] = {_SECRET: place.secret}
    return files | {"logins.json": json.dumps(logins).encode()}


def _settings_of(place: SparkPlace, chosen: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings on spark-submit's command line, which hold no secret; `chosen` are those of the topology."""
    own = {"spark.ui.enabled": "false"} | ({} if place.kind == "task" else _PROTECTED)
    # The executors' Python may be in an archive, which only executors unpack.
    driver = {"spark.pyspark.driver.python": sys.executable} if "spark.pyspark.python" in chosen else {}
    if place.kind == "kubernetes":
        own |= {
            f"{_SECRET}.driver.file": str(folder / "spark_secret"),
            f"{_SECRET}.executor.file": f"{_MOUNTED_AT}/secret",
            f"spark.kubernetes.executor.secrets.{_KUBERNETES_SECRET}": _MOUNTED_AT,
        }
    return {**driver, **chosen, **own}


def _submission(
    procedure: Run,
    job: str,
    settings: SparkSettings,
    place: SparkPlace,
    folder: Path,
    input_folder: Path,
    output_folder: Path,
    in_airflow: bool,
) -> SparkSubmitOperator:
    home = Path(os.environ.get("KAFKA_DR_SPARK_HOME") or spark_folder())
    options = {
        "--input": input_folder,
        "--output": output_folder,
        "--logins": folder / "logins.json",
        "--wait-for-input": _input_seconds(procedure),
    }
    # OpenLineage describes the Airflow task that runs the job; a command has none.
    outside_airflow: dict[str, Any] = {} if in_airflow else {"openlineage_inject_parent_job_info": False}
    return SparkSubmitOperator(
        task_id="spark_submit",
        application=str(home / "jobs" / f"{job}.py"),
        application_args=[str(word) for option in options.items() for word in option],
        conn_id=settings.connection,
        name=f"{job} {procedure.id}",
        conf=_settings_of(place, settings.conf, folder),
        # Else the provider would write the connection's keytab to a file that others may read, and leave it there.
        keytab=str(folder / "keytab") if place.keytab else None,
        deploy_mode="client",
        **outside_airflow,
    )


def _execute(procedure: Run, submission: SparkSubmitOperator, context: Any, failure_reason: str) -> None:
    limit = procedure.request.deadlines.spark_seconds
    try:
        with killed_after(limit, submission) as killed:
            submission.execute(context)
    except (FileNotFoundError, PermissionError) as error:
        raise SparkFailed(
            failure_reason,
            one_line(f"spark-submit does not start: {error}"),
            "Put the folder of Airflow's Python, which has spark-submit, on the PATH of every process of Airflow where"
            " tasks run, or correct `spark-binary` in the extra of Spark's connection. Airflow tries the task again by"
            " itself; if all tries fail, start a new run.",
        ) from None
    except AirflowException as error:
        if killed.is_set():
            raise SparkFailed(
                failure_reason,
                f"the Spark job had not ended after {limit:.0f} s, and was killed",
                "Read in the log of this Airflow task what Spark waited for, such as a free executor or a broker, and"
                " correct that. If the Spark job was still working, raise `spark_seconds` under `deadlines` in the"
                " topology. Airflow tries the task again by itself; if all tries fail, start a new run.",
            ) from None
        # The error of spark-submit holds the whole command line: show only the exit code.
        code = re.search(r"Error code is: (-?\d+)", str(error))
        exit_text = f"spark-submit ended with {code.group(1)}" if code else str(error)[:200]
        if code and code.group(1) == _NO_SPARK:
            exit_text += ": PYSPARK_PYTHON names a Python without PySpark, or SPARK_HOME a folder without Spark"
        raise SparkFailed(
            failure_reason,
            exit_text,
            "Correct the cause that the ERROR lines in the log of this Airflow task state. Airflow tries the task again"
            " by itself; if all tries fail, start a new run.",
        ) from None


@contextmanager
def killed_after(seconds: float, submission: SparkSubmitOperator) -> Iterator[Event]:
    """Yield an event; after `seconds`, kill the job and set the event, unless the `with` block has ended before.

    A timer thread does this, because signals reach only the main thread.
    """
    killed = Event()

    def kill() -> None:
        killed.set()
        submission.on_kill()

    timer = Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield killed
    finally:
        timer.cancel()


def _input_seconds(procedure: Run) -> float:
    """Return how many seconds the job waits for its input: 300, or the rest of `max_fence_seconds` if it is shorter."""
    deadline = procedure.progress.fence_deadline()
    return _INPUT_SECONDS if deadline is None else max(1.0, min(_INPUT_SECONDS, deadline - procedure.progress.now()))
