"""Logins for a program that this process starts: files of a private folder, deleted when the program has ended.

Whoever starts the program deletes the folder, also if the program fails or is killed. If this process is killed itself,
the next folder's maker deletes what it left: a process locks its folder, and the kernel lifts the lock when it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka_dr.hooks.private_files import private_file

_PREFIX = "switchback-logins-"
#: A folder that is younger may belong to a process that has not locked it yet.
_LEAST_AGE_SECONDS = 60.0


@contextmanager
def handed_logins(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Yield a new private folder with these files, name -> content; delete it at the end.

    The folder is in the temporary folder of this machine, so that no other machine reads it.
    """
    _delete_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, content in files.items():
            private_file(folder / name).write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _delete_abandoned(parent: Path) -> None:
    """Delete the folders that killed processes have left; another user's folders stay."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                status = os.fstat(lock)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > _LEAST_AGE_SECONDS:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(lock)
