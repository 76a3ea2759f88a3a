"""One process at a time on one file or folder; the lock lies apart, for `down` empties the lab's folder."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.install.jars import cache_folder


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait until no other process works on this path, and keep others waiting meanwhile."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / hashlib.sha256(str(path).encode()).hexdigest()[:16]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
