"""Writes a text file atomically: after a crash or power cut the file has either its new or its old content."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str, mode: int) -> None:
    """Write a text to a temporary file that only its owner can read, set `mode`, and rename the file to `path`.

    Raises:
        OSError: the write failed. The file at `path` is unchanged, or already new if only the folder was not synced.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # Without a sync of the folder, a power cut may undo the rename.
    finally:
        os.close(folder)
