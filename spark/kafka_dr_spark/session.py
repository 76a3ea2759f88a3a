"""The only place that builds a Spark session."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The partitions are balanced by plan; merging them would undo it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.task.maxFailures": "1",
}


def build(name: str) -> SparkSession:
    """Return a session with the settings of all jobs; the master comes from spark-submit, or is ``local[2]``."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # Spark's own INFO lines would bury the job's few.
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def running(name: str) -> Iterator[SparkSession]:
    """Give a session whose workers have this package, also where the job's folder is not; stop it afterwards."""
    with tempfile.TemporaryDirectory(prefix="kafka_dr_spark-") as folder:
        session = build(name)
        session.sparkContext.addPyFile(str(_packed(Path(folder))))
        try:
            yield session
        finally:
            session.stop()


def _packed(folder: Path) -> Path:
    package, archive = Path(__file__).parent, folder / "kafka_dr_spark.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(package.rglob("*")):
            if path.suffix in {".py", ".json"}:
                packed.write(path, path.relative_to(package.parent).as_posix())
    return archive
