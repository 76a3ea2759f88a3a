"""Modes of files: what users other than the owner may reach, and a umask for a while."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process, which its child processes inherit, inside this context."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes_in(folder: Path) -> dict[str, set[int]]:
    """Return the modes of all folders (the given one included) and of all files in a folder."""
    paths = [folder, *folder.rglob("*")]
    return {
        "folders": {mode_of(path) for path in paths if path.is_dir()},
        "files": {mode_of(path) for path in paths if path.is_file()},
    }


def mode_of(path: Path) -> int:
    """Return the permission bits of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


#: What `modes_in` returns if only the owner may reach anything.
PRIVATE = {"folders": {0o700}, "files": {0o600}}
