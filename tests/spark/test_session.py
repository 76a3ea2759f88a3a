"""Spark as the jobs start it: two jobs of one driver share what they give to their workers."""

from __future__ import annotations

import zipfile
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
    monkeypatch.setattr(session, "start", lambda name: context)
    assert session.running("first") is context is session.running("second")
    (given,) = context.given
    assert "kafka_dr_spark/session.py" in zipfile.ZipFile(given).namelist()
