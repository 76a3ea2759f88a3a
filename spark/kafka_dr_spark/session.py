"""Start Spark and send this package to its workers; no other module starts Spark."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from pyspark import SparkConf, SparkContext

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Airflow retries the whole step, which reads the log bounds again; a Spark task repeated with the same bounds would
    # only fail again.
    "spark.task.maxFailures": "1",
    # 0 means no limit: all finished rows come back to the driver, however many.
    "spark.driver.maxResultSize": "0",
    # A worker's Kafka client reuses freed memory for the next fetch: if malloc returned it to the kernel each time,
    # clearing pages would take a tenth of a reading task.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
_OF_TASKS = ("loss.task", "translation.task")


def start_spark(name: str, private: Mapping[str, str] | None = None) -> SparkContext:
    """Start Spark and return its context; the master is spark-submit's, or ``local[2]`` without spark-submit.

    Args:
        name: name of the application.
        private: settings with a secret, which must not stand on spark-submit's command line.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = SparkConf().setAppName(name).setAll([*SETTINGS.items(), *(private or {}).items()])
    # spark-submit's settings are unknown here until Spark has started: a master set now would override spark-submit's.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings.setMaster("local[2]")
    context = SparkContext.getOrCreate(settings)
    # Spark's own INFO lines would bury the job's few lines.
    context.setLogLevel("ERROR")
    return context


def preloaded_spark(name: str, private: Mapping[str, str] | None = None) -> SparkContext:
    """Start Spark, send this package to all workers, import the tasks' modules there, and return Spark's context.

    A job calls this function while its input is being written, to save time.
    """
    context = spark_with_package(name, private)
    workers = context.defaultParallelism
    context.parallelize(range(workers), workers).foreach(_load_modules)
    return context


def _load_modules(_: int) -> None:
    """Import the modules of the jobs' tasks in a worker; this saves later tasks in the same worker the import."""
    for module in _OF_TASKS:
        import_module(f"{__package__}.{module}")


def spark_with_package(name: str, private: Mapping[str, str] | None = None) -> SparkContext:
    """Start Spark, send this package to all workers, and return Spark's context.

    Spark's own shutdown hook stops Spark when the driver ends, because an explicit stop would first wait a second for
    PySpark's accumulator server, during the clients' downtime.
    """
    context = start_spark(name, private)
    _ship_package(context)
    return context


@cache
def _ship_package(context: SparkContext) -> None:
    """Send the package to the workers, once per Spark context because Spark refuses a second file of the same name.

    A worker that starts later fetches the archive when it starts, so the archive is deleted only when the driver ends.
    """
    folder = tempfile.TemporaryDirectory(prefix="kafka_dr_spark-")
    atexit.register(folder.cleanup)
    context.addPyFile(str(_zip_package(Path(folder.name))))


def _zip_package(folder: Path) -> Path:
    package, archive = Path(__file__).parent, folder / "kafka_dr_spark.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(package.rglob("*")):
            if path.suffix in {".py", ".json"}:
                packed.write(path, path.relative_to(package.parent).as_posix())
    return archive
