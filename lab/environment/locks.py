"""Locks on paths between processes; lock files are in the cache folder, because `down` removes the lab's folder."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.install.jars import cache_folder


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock on a path, then hold this lock while the block runs."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / hashlib.sha256(str(path).encode()).hexdigest()[:16]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
