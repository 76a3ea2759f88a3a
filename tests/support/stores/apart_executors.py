"""Spark executors that share no folder with their driver, on one machine: each has an empty one mounted over it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path


def can_mount() -> bool:
    """Whether this user may mount in a namespace of their own."""
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


def python_without(hidden: Path, folder: Path) -> dict[str, str]:
    """Return environment variables by which executors start a Python that sees an empty folder in place of `hidden`.

    Args:
        hidden: folder of the driver.
        folder: where the starting script is written.
    """
    script = folder / "executor-python"
    command = f'mount -t tmpfs none {shlex.quote(str(hidden))} && exec {shlex.quote(sys.executable)} "$@"'
    # A process of Spark stops the executor's Python by its id: `exec` keeps it.
    script.write_text(f'#!/bin/sh\nexec unshare -rm /bin/sh -c {shlex.quote(command)} python "$@"\n')
    script.chmod(0o755)
    return {"PYSPARK_PYTHON": str(script), "PYSPARK_DRIVER_PYTHON": sys.executable}
