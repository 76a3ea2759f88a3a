"""A load process while its cluster is dead."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lab.workload.load_worker import TICK, LoadWorker


class FullProducer:
    """A client whose queue stays full; the worker is told to stop after some polls."""

    def __init__(self, worker: LoadWorker, polls: int) -> None:
        self.worker, self.left, self.tried = worker, polls, 0

    def produce(self, *_: Any, **__: Any) -> None:
        """No room."""
        self.tried += 1
        raise BufferError

    def poll(self, seconds: float) -> None:
        """Nothing is delivered meanwhile."""
        time.sleep(seconds)
        self.left -= 1
        if self.left <= 0:
            self.worker._stopping.set()


def test_a_full_queue_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Whoever stops the load does not wait until all that is due has been tried; what finds no room is let go."""
    worker = LoadWorker(
        {
            "worker": 0,
            "rate": 100_000,
            "topics": {"orders": 1},
            "folder": str(tmp_path),
            "properties": {},
            "idempotent": False,
        }
    )
    full = FullProducer(worker, polls=5)
    with (tmp_path / "load-0.acks").open("wb") as acks:
        began = time.monotonic()
        worker._produce(full, acks)  # type: ignore[arg-type]
    assert 0 < full.tried <= 5
    assert time.monotonic() - began < 100 * TICK
