"""Files and folders that only one user may read: evidence, exports, archive, journal.

Folders get mode 700 and files mode 600, whatever the umask. Of a path only its own mode is checked, not the modes of
the folders above it: whoever may not search a folder reaches nothing in it, and folders such as /tmp or /var/lib are
open to all users by design.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from kafka_dr.errors import NotReady

_OTHERS = 0o077


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


def refuse_open(paths: Iterable[Path]) -> None:
    """Refuse if group or others may read, write or search one of these files and folders; skip missing ones.

    An entry of a POSIX ACL for another user shows in the mode of the group, so it is refused as well.

    Raises:
        NotReady: names every such path, its mode, and the commands that mend it.
    """
    modes = {path: path.stat().st_mode for path in paths if path.exists()}
    opened = {path: mode & 0o777 for path, mode in modes.items() if mode & _OTHERS}
    if opened:
        commands = [f"chmod {700 if path.is_dir() else 600} {shlex.quote(str(path))}" for path in opened]
        raise NotReady(
            "Other users may read, write or search what Switchback stores",
            ", ".join(f"{path} has mode {mode:o}" for path, mode in opened.items()),
            f"As the owner, the user who runs Airflow's tasks, run: {'; '.join(commands)}; then start again what was"
            " refused.",
        )
