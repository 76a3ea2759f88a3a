"""The only place that starts Spark."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path

from pyspark import SparkConf, SparkContext

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Airflow tries again, with bounds read anew; the same read would only fail again.
    "spark.task.maxFailures": "1",
    # Finished rows come back to the driver, and there is no number of them that would be too many to know.
    "spark.driver.maxResultSize": "0",
    # What a worker's client frees it needs again for the next fetch: handed back to the kernel each time, a tenth of a
    # reading task goes into clearing pages.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
_OF_TASKS = ("loss.task", "translation.task")


def start_spark(name: str) -> SparkContext:
    """Start Spark with the settings of all jobs; the master comes from spark-submit, or is ``local[2]``."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = SparkConf().setAppName(name).setAll(list(SETTINGS.items()))
    # spark-submit's settings are not known here until Spark has started: what is set now would win over its master.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings.setMaster("local[2]")
    context = SparkContext.getOrCreate(settings)
    # Spark's own INFO lines would bury the job's few.
    context.setLogLevel("ERROR")
    return context


def preloaded_spark(name: str) -> SparkContext:
    """Return Spark as `spark_with_package` does, and preload the workers while the input is still being written."""
    context = spark_with_package(name)
    workers = context.defaultParallelism
    context.parallelize(range(workers), workers).foreach(_load)
    return context


def _load(_: int) -> None:
    """Load the modules of all tasks; a worker that is used again has them."""
    for module in _OF_TASKS:
        import_module(f"{__package__}.{module}")


def spark_with_package(name: str) -> SparkContext:
    """Return Spark with workers that have this package, also where the job's folder is not.

    It stops when the driver ends, by its own shutdown hook: stopping it here would first wait a second for PySpark's
    accumulator server, while clients stand still.
    """
    context = start_spark(name)
    _give_package(context)
    return context


@cache
def _give_package(context: SparkContext) -> None:
    """Ship the package once per driver, which refuses a second file of the name; late workers fetch it later."""
    folder = tempfile.TemporaryDirectory(prefix="kafka_dr_spark-")
    atexit.register(folder.cleanup)
    context.addPyFile(str(_packed(Path(folder.name))))


def _packed(folder: Path) -> Path:
    package, archive = Path(__file__).parent, folder / "kafka_dr_spark.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(package.rglob("*")):
            if path.suffix in {".py", ".json"}:
                packed.write(path, path.relative_to(package.parent).as_posix())
    return archive
