"""What Spark's executors have: their Python, the packages of the jobs, and their clocks."""

from __future__ import annotations

import importlib
import platform
import socket
import time
from typing import Any

from pyspark import SparkContext

#: Packages that tasks of the jobs import on executors.
PACKAGES = ("confluent_kafka", "numpy", "pandas", "pyarrow")


def examine_executors(context: SparkContext, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run tasks on all executors, and return what driver and executors have.

    Args:
        more: packages beside `PACKAGES`.
    """
    packages = (*PACKAGES, *more)
    # The first task of a worker starts its Python, which takes longer than reading a clock may take. Executors may
    # register until this stage ends.
    _wide(context, [0] * _cores(context)).foreach(_begin)
    cores = _cores(context)
    seen: dict[str, dict[str, Any]] = {}
    # One stage that fills all cores reaches every executor; tasks that run alone read clocks best.
    for tasks in (cores, *[1] * cores):
        sent = time.time()
        answers = _wide(context, [packages] * tasks).map(_look).collect()
        received = time.time()
        for answer in answers:
            answer |= {"ahead": answer.pop("time") - (sent + received) / 2, "doubt": (received - sent) / 2}
            if answer["host"] not in seen or answer["doubt"] < seen[answer["host"]]["doubt"]:
                seen[answer["host"]] = answer
    return {
        "spark": context.version,
        "java": _java_version(context),
        "python": platform.python_version(),
        "executors": list(seen.values()),
    }


def _cores(context: SparkContext) -> int:
    return max(2, context.defaultParallelism)


def _wide(context: SparkContext, values: list[Any]) -> Any:
    """Return a dataset with a task for each value."""
    return context.parallelize(values, len(values))


def _java_version(context: SparkContext) -> str:
    jvm: Any = context._jvm  # noqa: SLF001 (PySpark has no other way)
    return str(jvm.System.getProperty("java.version"))


def _begin(_: int) -> None:
    """Start Python on a worker."""


def _look(packages: tuple[str, ...]) -> dict[str, Any]:
    """Return what this worker has."""
    missing = {}
    for name in packages:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 (whatever keeps a package from being used is the answer)
            missing[name] = f"{type(error).__name__}: {error}"[:200]
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "missing": missing,
        "time": time.time(),
    }
