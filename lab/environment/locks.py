"""Locks of files and folders between processes; lock files are in the cache, as `down` removes the lab's folder."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.install.jars import cache_folder


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a path while the block runs; first wait until no other process holds it."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / hashlib.sha256(str(path).encode()).hexdigest()[:16]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
