"""Benches of runs whose source is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions import spark_jobs
from kafka_dr_spark.stranded import task as finding
from kafka_dr_spark.loss.task import AssessmentTask
from kafka_dr_spark.reading.windows import WindowReader

from tests.support.lost_source import JobsWithoutSpark, Recorder


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], JobsWithoutSpark]:
    """Makes the jobs of a bench run without Spark."""

    def make(bench: Any) -> JobsWithoutSpark:
        jobs = JobsWithoutSpark(bench)
        monkeypatch.setattr(spark_jobs, "submit", jobs.submit)
        monkeypatch.setattr(WindowReader, "read", lambda self, windows: jobs.read(windows))
        # Listing the source's records needs a real one; what is listed is tested with the job.
        monkeypatch.setattr(AssessmentTask, "_listed", lambda self, losses, seen: {})
        monkeypatch.setattr(finding, "list_stranded", jobs.list_stranded)
        monkeypatch.setattr(finding, "write_records", jobs.write_older)
        return jobs

    return make


@pytest.fixture
def recorder(quick_path: Path) -> Recorder:
    """An archive beside the bench."""
    return Recorder(quick_path / "archive")


@pytest.fixture
def make_lost(make_bench: Callable[..., Any], quick_path: Path, without_spark: Any) -> Callable[..., Any]:
    """Makes the bench of an unplanned run whose source is confirmed to be lost, with or without a recorder's
    archive.
    """

    def make(recorded: bool = True, state: str = "lost", override: str | None = None, **topology: Any) -> Any:
        if recorded:
            topology["recorder"] = {"archive": f"file://{quick_path}/archive"}
        bench = make_bench(dag_id="unplanned_failover", **topology)
        bench.jobs = without_spark(bench)
        procedure = bench.opened()
        verdict = {"state": state, "rounds": 3, "views": []}
        bench.done(
            procedure,
            "confirm_source_lost",
            state=state,
            override=override,
            overridden=state != "lost",
            verdict=verdict,
            window_seconds=1.0,
        )
        bench.clusters["primary"].away = state == "lost"
        return bench

    return make
