"""How the recorder is watched from outside."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from kafka_dr.domain.recorder_rows import Kind, RecorderRows
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.loop import Recording

from lab.environment.state import Lab
from tests.benchmarks.clusters import SOURCE, TARGET
from tests.benchmarks.recorder import longest_interval, samples, watched


@pytest.mark.parametrize(
    ("begun", "longest"),
    [
        ([0.0, 10.004, 20.009, 30.011, 40.0], 10.005),
        ([0.0, 10.0, 23.5, 33.5], 13.5),
        # One that reaches into the span counts whole, before and after; others do not.
        ([0.0, 14.0, 24.0, 34.0], 14.0),
        ([0.0, 10.0, 20.0, 31.0], 11.0),
        ([-30.0, 0.0, 10.0, 20.0, 30.0, 60.0], 10.0),
    ],
)
def test_longest_interval(begun: list[float], longest: float) -> None:
    """Between samples around a span from 5 to 25."""
    assert longest_interval(begun, 5.0, 25.0) == longest


def test_samples_are_told_by_what_the_recorder_keeps(tmp_path: Path) -> None:
    """Their own rows, also those of the hour before; nothing where nothing was kept."""
    site, began = SimpleNamespace(lab=Lab(tmp_path)), datetime(2026, 3, 1, 11, 59, 55, tzinfo=UTC)
    assert samples(site, began.timestamp()) == []

    def look(whole: bool) -> RecorderRows:
        rows = RecorderRows(int(now.timestamp() * 1000))
        rows.add(Kind.GROUP, group="billing", members=0, state="Empty")
        rows.add(Kind.SAMPLE, details=json.dumps({"took_ms": 1_500}))
        return rows

    archive = Archive(f"file://{site.lab.archive}", f"{SOURCE}-to-{TARGET}")
    recording = Recording("flow", look, archive, 10.0, timedelta(days=1), threading.Event())
    for now in (began, began + timedelta(seconds=10)):
        recording.sample(now)
    at = began.timestamp()
    assert samples(site, at + 6) == [(at, 1.5), (at + 10, 1.5)]


def test_processes_are_watched_side_by_side() -> None:
    """One that works takes more than one that sleeps, and one that holds memory more than that."""
    programs = (
        "while True: pass",
        "import time; time.sleep(60)",
        "import time; big = bytearray(100_000_000); time.sleep(60)",
    )
    children = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        working, sleeping, holding = watched([psutil.Process(child.pid) for child in children], 1.5)
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert working.cpu > sleeping.cpu
    assert holding.memory > sleeping.memory + 50
    assert str(working).endswith(" MB")


def test_a_process_that_ends_is_not_taken_for_one_at_rest() -> None:
    """It raises."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.2)"]) as child, pytest.raises(psutil.Error):
        process = psutil.Process(child.pid)
        child.wait()
        watched([process], 1.0)
