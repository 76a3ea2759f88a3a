"""Processes of a lab are found again and stopped for certain, and nothing else is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.environment.processes import ProcessTable, boot_id, find_process
from lab.errors import LabError

SLEEP = [sys.executable, "-c", "import time; time.sleep(300)"]
# A leader whose child leaves the process group, as Airflow's tasks do, and outlives the leader.
FAMILY = [sys.executable, "-c", "import os, time\nif os.fork() == 0: os.setpgid(0, 0)\ntime.sleep(300)"]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    """A process table whose processes are stopped after the test."""
    table = ProcessTable(tmp_path / "processes", tmp_path / "logs", marker=str(tmp_path))
    yield table
    table.stop(grace=0.0)


def _start(table: ProcessTable, name: str, argv: list[str], cwd: Path) -> int:
    table.start(name, argv, dict(os.environ), cwd)
    pid = table.pid(name)
    assert pid is not None
    return pid


def _wait_for(count: int, table: ProcessTable) -> None:
    deadline = time.monotonic() + 20
    while len(table.members()) != count:
        assert time.monotonic() < deadline, table.members()
        time.sleep(0.05)


def test_a_started_process_is_found_by_another_table(table: ProcessTable, tmp_path: Path) -> None:
    """A second command on the same lab sees the pid that the first one started."""
    pid = _start(table, "one", SLEEP, tmp_path)
    assert ProcessTable(tmp_path / "processes", tmp_path / "logs", str(tmp_path)).pid("one") == pid


def test_a_new_process_of_a_name_ends_what_the_dead_one_left(table: ProcessTable, tmp_path: Path) -> None:
    """Children of a killed leader, unmarked as Airflow's idle workers are, do not outlive its record."""
    unmarked = [
        sys.executable,
        "-c",
        f"import os, subprocess, sys, time\nsubprocess.Popen({SLEEP!r}, env={{}})\ntime.sleep(300)",
    ]
    leader = _start(table, "one", unmarked, tmp_path)
    _wait_for(2, table)
    (child,) = set(table.members()) - {leader}
    os.kill(leader, signal.SIGKILL)
    _wait_for(1, table)
    second = _start(table, "one", SLEEP, tmp_path)
    _wait_for(1, table)
    assert set(table.members()) == {second}
    assert find_process(child) is None or find_process(child).state == "Z"


def test_a_killed_process_has_no_pid(table: ProcessTable, tmp_path: Path) -> None:
    """After kill -9 the pid is gone and the death is reported with the tail of the output."""
    pid = _start(
        table, "one", [sys.executable, "-c", "import time; print('last words', flush=True); time.sleep(300)"], tmp_path
    )
    deadline = time.monotonic() + 20
    while "last words" not in table.tail("one") and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    _wait_for(0, table)
    assert table.pid("one") is None
    with pytest.raises(LabError, match="last words"):
        table.must_live("one")


def test_children_of_a_killed_leader_are_stopped(table: ProcessTable, tmp_path: Path) -> None:
    """A child in a process group of its own is stopped although its leader was killed before."""
    leader = _start(table, "family", FAMILY, tmp_path)
    _wait_for(2, table)
    (child,) = set(table.members()) - {leader}
    os.kill(leader, signal.SIGKILL)
    _wait_for(1, table)
    table.stop(grace=0.0)
    left = find_process(child)
    assert left is None or left.state == "Z"


@pytest.mark.parametrize("wrong", [{"started": -1}, {"boot": "another boot"}])
def test_a_used_again_pid_is_never_stopped(table: ProcessTable, tmp_path: Path, wrong: dict) -> None:
    """A process that merely has a recorded pid, but not the start time or the boot, survives."""
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        seen = find_process(stranger.pid)
        assert seen is not None
        record = {"pid": stranger.pid, "started": seen.started, "boot": boot_id()} | wrong
        (tmp_path / "processes").mkdir()
        (tmp_path / "processes" / "one.json").write_text(json.dumps(record))
        assert table.pid("one") is None
        table.stop(grace=0.0)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_deaf_process_is_killed_after_its_grace(table: ProcessTable, tmp_path: Path) -> None:
    """SIGTERM is tried first where asked for, and SIGKILL ends what ignores it."""
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)"
    )
    _start(table, "airflow-deaf", [sys.executable, "-c", deaf], tmp_path)
    deadline = time.monotonic() + 20
    while "deaf" not in table.tail("airflow-deaf") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert table.stop(grace=0.3, politely=("airflow",)) == 1
    assert table.members() == {}


def test_stopping_twice_is_harmless(table: ProcessTable, tmp_path: Path) -> None:
    """A second stop finds nothing to do."""
    _start(table, "one", SLEEP, tmp_path)
    assert (table.stop(grace=0.0), table.stop(grace=0.0)) == (1, 0)
