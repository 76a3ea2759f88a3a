"""Looks at this machine: Java, and the file system that holds a path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kafka_dr.hooks.redaction import one_line

_MOUNTS = Path("/proc/self/mountinfo")
_JAVA_SECONDS = 30.0


def java_program() -> str | None:
    """Return the Java that spark-submit starts: that of JAVA_HOME, else the first on PATH; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    return shutil.which(program)


def java_version(program: str) -> tuple[str, str]:
    """Return Java's version, and the first line of what it prints; the version is empty if it does not start."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", one_line(error)
    text = done.stderr or done.stdout
    version = re.search(r'version "([^"]+)"', text)
    return version[1] if version else "", one_line(text.partition("\n")[0])


def file_system_of(path: Path) -> str:
    """Return the type of the file system that holds a path, such as `ext4` or `nfs4`; "" if that is unknown."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8").splitlines()
        device = next(place for place in (path, *path.parents) if place.exists()).stat().st_dev
    except (OSError, StopIteration):
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    found = [line.partition(" - ")[2].split() for line in lines if line.split()[2] == number]
    return found[-1][0] if found and found[-1] else ""
