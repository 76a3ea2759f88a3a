"""Benches for steps, and clusters that never answer."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.steps import base as procedure_step

from tests.support.bench import Bench

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
        monkeypatch.setattr(procedure_step, "Connections", lambda: bench.connections)
        return bench

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters with identity naming."""
    return make_bench()
