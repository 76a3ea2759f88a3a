"""Folders and files that only the user of driver and executors may read, whatever the umask: modes 700 and 600."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path


def private_folder(folder: Path) -> Path:
    """Create a folder, and missing folders above it, with mode 700, and return it; existing folders keep their mode."""
    missing = list(takewhile(lambda path: not path.exists(), [folder, *folder.parents]))
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
    return folder


def private_file(path: Path) -> Path:
    """Give a file mode 600, create it empty if it is missing, and return its path.

    A library that then opens the path for writing keeps the mode.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return path
