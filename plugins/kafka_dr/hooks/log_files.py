"""Reads the newest lines of log files, backwards: time and memory do not grow with the files."""

from __future__ import annotations

import errno
import glob
import os
import time
from collections.abc import Iterator
from pathlib import Path

#: How much is read of one log, rotated files included.
MOST_BYTES = 64 * 1024**2
#: Also the longest line that is read.
_BLOCK = 1024**2


def newest_lines(path_or_glob: str, seconds: float, most_bytes: int = MOST_BYTES) -> Iterator[str]:
    """Yield lines of one log in blocks, the newest block first, until enough is read or the time is over.

    Args:
        path_or_glob: a file, or a glob that matches a log and its rotated files; only regular files are read.
        seconds: after that time no further block is read; the newest block is read in any case.
        most_bytes: after so many bytes no further block is read. A line that is cut in two by this limit is left out.

    Raises:
        OSError: no file matches, or a file cannot be read.
    """
    ends_at, left = time.monotonic() + seconds, most_bytes
    for file in _newest_files(path_or_glob):
        for size, lines in _blocks(file, left):
            left -= size
            yield from lines
            if left <= 0 or time.monotonic() >= ends_at:
                return


def _newest_files(path_or_glob: str) -> list[Path]:
    # A path may hold the characters of a glob.
    paths = [path_or_glob] if os.path.lexists(path_or_glob) else glob.glob(path_or_glob)  # noqa: PTH207 (it takes any text)
    files = {Path(path): Path(path).stat().st_mtime_ns for path in paths if Path(path).is_file()}
    if not files:
        raise FileNotFoundError(errno.ENOENT, "no such file", path_or_glob)
    return sorted(files, key=lambda file: (files[file], file.name), reverse=True)


def _blocks(file: Path, most_bytes: int) -> Iterator[tuple[int, list[str]]]:
    """Yield number of bytes and whole lines of a file's blocks, from the end of the file backwards."""
    with file.open("rb") as opened:
        end = opened.seek(0, os.SEEK_END)
        lowest, cut = max(0, end - most_bytes), b""
        while end > lowest:
            begin = max(lowest, end - _BLOCK)
            opened.seek(begin)
            first, *lines = (opened.read(end - begin) + cut).split(b"\n")
            # The first line may begin in the block before.
            cut = first if len(first) < _BLOCK else b""
            yield end - begin, _decoded([cut, *lines] if begin == 0 else lines)
            end = begin


def _decoded(lines: list[bytes]) -> list[str]:
    return [line.decode("utf-8", "replace") for line in lines if line]
