"""Spark as the jobs start it: two jobs of one driver share what they give to their workers."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from kafka_dr_spark import session


class ClusterContext:
    """Refuses a second file of the same name, as the file server of a driver on a cluster does."""

    def __init__(self) -> None:
        self.given: list[Path] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802
        """Take a file for the workers."""
        if Path(path).name in [one.name for one in self.given]:
            raise ValueError(f"{Path(path).name} was already registered with a different path")
        self.given.append(Path(path))


def test_two_jobs_of_one_driver_give_their_package_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there for as long as the driver: a worker that starts during the second job fetches it then."""
    context = ClusterContext()
    monkeypatch.setattr(session, "start_spark", lambda name, private: context)
    assert session.spark_with_package("first") is context is session.spark_with_package("second")
    (given,) = context.given
    assert "kafka_dr_spark/session.py" in zipfile.ZipFile(given).namelist()


def test_workers_load_what_tasks_need_before_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short task a core, each of which loads the modules of all tasks under the names that workers know."""
    loaded: list[str] = []

    class Workers:
        """Two cores that run what they are given."""

        defaultParallelism = 2

        def parallelize(self, numbers: range, tasks: int) -> Workers:
            """Take one number a task."""
            assert len(numbers) == tasks == 2
            return self

        def foreach(self, task: Callable[[int], None]) -> None:
            """Run it as each worker does."""
            task(0)
            task(1)

    monkeypatch.setattr(session, "spark_with_package", lambda name, private: Workers())
    monkeypatch.setattr(session, "import_module", lambda name: loaded.append(import_module(name).__name__))
    session.preloaded_spark("first")
    assert loaded == ["kafka_dr_spark.loss.task", "kafka_dr_spark.translation.task"] * 2
