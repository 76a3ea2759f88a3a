"""How the recorder is watched from outside."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.benchmarks.recorder import longest_interval, watched


@pytest.mark.parametrize(
    ("begun", "longest"),
    [
        ([0.0, 10.004, 20.009, 30.011, 40.0], 10.0),
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


def test_processes_are_watched_side_by_side() -> None:
    """One that works takes more than one that sleeps, and one that holds memory more than that."""
    programs = ("while True: pass", "import time; time.sleep(60)", "import time; big = bytearray(100_000_000); time.sleep(60)")
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
