"""Benches for steps, and clusters that never answer."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions import spark_jobs
from kafka_dr.procedure import find
from kafka_dr_spark.loss.task import AssessmentTask
from kafka_dr_spark.reading.windows import WindowReader
from kafka_dr_spark.reconciliation import task as comparing
from kafka_dr_spark.stranded import task as finding

from tests.support.bench import Bench
from tests.support.lost_source import JobsWithoutSpark, Recorder

MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is room: the journal waits for the disk at every write."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < 2**28:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="switchback-") as folder:
        yield Path(folder)


@pytest.fixture(params=["silent", "full"])
def hanging(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give two addresses at which nothing answers: one takes connections, one has a full queue."""
    server, waiting = socket.socket(), []
    server.bind(("127.0.0.1", 0))
    server.listen(64 if request.param == "silent" else 0)
    for _ in range(0 if request.param == "silent" else 4):
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(server.getsockname())
    yield f"127.0.0.1:{server.getsockname()[1]}"
    for one in (*waiting, server):
        one.close()


@pytest.fixture
def make_bench(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    """Makes a bench with another topology."""

    def make(**topology: Any) -> Bench:
        bench = Bench(quick_path, **topology)
        monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(bench.topology))
        monkeypatch.setattr(find, "Connections", lambda: bench.connections)
        return bench

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters with identity naming."""
    return make_bench()


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], JobsWithoutSpark]:
    """Makes the jobs of a bench run without Spark."""

    def make(bench: Any) -> JobsWithoutSpark:
        jobs = JobsWithoutSpark(bench)
        monkeypatch.setattr(spark_jobs, "submit_job", jobs.submit)
        monkeypatch.setattr(WindowReader, "read", lambda self, windows: jobs.read(windows))
        # Listing the source's records needs a real one; what is listed is tested with the job.
        monkeypatch.setattr(AssessmentTask, "_listed", lambda self, losses, seen: {})
        monkeypatch.setattr(comparing, "read_details", lambda access, limits, places: {})
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
            topology = {"recorder": {"archive": f"file://{quick_path}/archive"}} | topology
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
