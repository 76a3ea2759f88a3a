"""One command at a time on one lab; the lock lies outside the lab's folder, for `down` empties that."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.jars import cache_folder


@contextmanager
def exclusive(state: Path) -> Iterator[None]:
    """Wait until no other `up` or `down` works on this folder, and keep others waiting meanwhile."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / hashlib.sha256(str(state).encode()).hexdigest()[:16]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
