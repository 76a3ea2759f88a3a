"""Compile the few Java classes that tests and benchmarks bring, once per user, outside of the checkout."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lab.errors import LabError
from lab.install.jars import cache_folder
from lab.install.setup import NO_COMPILER, OLDEST_JAVA, find_compiler


def compile_java(sources: Iterable[Path], classpath: str) -> Path:
    """Compile Java sources, unless this user has compiled the same ones; return the folder of the classes.

    The classes run on every Java that the lab runs on, whatever the compiler's version.

    Args:
        sources: files in the unnamed package, or files whose packages do not depend on their folders.
        classpath: class path as Java takes it, for example `jars/kafka/*`; it names the folder in the cache, too.

    Raises:
        LabError: there is no compiler, or the sources have errors; the text has the compiler's messages.
    """
    files = sorted(sources)
    digest = hashlib.sha256("\0".join([classpath, *(file.read_text() for file in files)]).encode())
    folder = cache_folder() / f"classes-{digest.hexdigest()[:16]}"
    if not folder.exists():
        _compile(files, classpath, folder)
    return folder


def _compile(files: list[Path], classpath: str, folder: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        raise LabError(NO_COMPILER)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    command = [compiler, "--release", str(OLDEST_JAVA), "-proc:none", "-cp", classpath, "-d", str(temporary)]
    try:
        done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            names = ", ".join(file.name for file in files)
            raise LabError(f"{names} cannot be compiled; correct what the compiler names: {done.stderr[-2000:]}")
        try:
            temporary.rename(folder)
        except OSError:
            # Another process of this user was faster, with the same sources.
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
