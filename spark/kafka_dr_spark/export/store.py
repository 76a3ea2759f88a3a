"""Puts files into the site's store from an executor, through fsspec, within limits.

Invariants
1. A file exists as a whole or not at all, under the name of one attempt: no other attempt writes to it.
2. Every call ends within a limit, and is repeated a few times; then the task fails, or goes on without the export.
3. No error shows the options, which hold credentials.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import fsspec

from kafka_dr_spark.contract.private_files import private_file, private_folder

#: Limits in seconds: of one request to S3, to connect and for the next bytes; of any call, with the slowest transfer
#: that it allows beyond that, in bytes per second. Repetitions have 30 s, as nothing repeats a task: one failure after
#: a call of ten seconds must not end the job. A step has less, as Airflow repeats the step (hooks/file_store.py).
_CONNECT_SECONDS, _READ_SECONDS = 3, 5
_CALL_SECONDS, _FIRST_CALL_SECONDS, _SLOWEST = 10.0, 10.0, 1_000_000
_ATTEMPTS, _REPEAT_SECONDS, _LONGEST_PAUSE = 4, 30.0, 1.0
#: Files that one task puts at the same time, because a store may answer late.
_AT_ONCE = 8
_S3 = ("s3", "s3a")
#: Errors that no repetition cures: a missing bucket, missing rights, a missing package, an unusable option.
_FINAL = (FileNotFoundError, PermissionError, ImportError, TypeError, ValueError)


class NotStored(RuntimeError):
    """The store did not take a file; the message names the file and the kind of error, never an option."""


class _Unanswered(Exception):
    """A call did not end within its limit."""


class ExportStore:
    """A folder of the store. Instances, with the store's options, go to workers; no code prints the options."""

    def __init__(self, uri: str, options: Mapping[str, Any]) -> None:
        """Prepare the store; nothing is read or written yet.

        Args:
            uri: of the folder, without credentials.
            options: fsspec's options of the file system.
        """
        self.uri, self._options = uri.rstrip("/"), dict(options)
        self._opened: tuple[Any, str] | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"ExportStore({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ExportStore, (self.uri, self._options)

    def put_all(self, folder: Path) -> None:
        """Put all files of a folder, under their paths relative to it; stop at the first that the store does not take.

        Raises:
            NotStored: the store did not take a file within the limit.
        """
        failures: list[NotStored] = []

        def put(path: Path) -> None:
            if not failures:
                try:
                    self._put(path, path.relative_to(folder).as_posix())
                except NotStored as error:
                    failures.append(error)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(put, sorted(path for path in folder.rglob("*") if path.is_file())))
        if failures:
            raise failures[0]

    def _put(self, path: Path, name: str) -> None:
        size = path.stat().st_size
        seconds = _CALL_SECONDS + size / _SLOWEST + (0.0 if self._opened else _FIRST_CALL_SECONDS)
        ends_at, pause = time.monotonic() + _REPEAT_SECONDS, 0.1
        for attempt in range(1, _ATTEMPTS + 1):
            error = _error_within(seconds, lambda: self._put_once(path, name, size))
            if error is None:
                return
            if isinstance(error, (*_FINAL, _Unanswered)) or attempt == _ATTEMPTS or time.monotonic() > ends_at:
                # Raised outside of a handler: the text of the error, and of those behind it, may hold credentials.
                raise self._not_stored(name, error)
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _put_once(self, path: Path, name: str, size: int) -> None:
        """Put a file, and read its size back."""
        fs, root = self._file_system()
        place = f"{root}/{name}"
        if _is_local(fs):
            _copy(path, Path(place))
        else:
            fs.put_file(str(path), place)
        stored = int(fs.info(place)["size"])
        if stored != size:
            raise OSError(f"{stored} of {size} bytes are stored")

    def _file_system(self) -> tuple[Any, str]:
        with self._lock:
            if self._opened is None:
                protocol = fsspec.utils.get_protocol(self.uri)
                options = _short_s3_options(self._options) if protocol in _S3 else self._options
                fs, root = fsspec.core.url_to_fs(self.uri, skip_instance_cache=True, **options)
                if protocol in _S3:
                    fs.retries = 1
                self._opened = fs, root.rstrip("/")
            return self._opened

    def _not_stored(self, name: str, error: Exception) -> NotStored:
        kind = str(error) if isinstance(error, _Unanswered) else type(error).__name__
        return NotStored(
            f"writing {self.uri}/{name} in the store failed: {kind}; make sure that every Spark executor reaches the"
            " folder or bucket under `store` in the topology, that it has room, that the login may write there, and"
            " that executors have fsspec and the package of its file system"
        )


def _short_s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with short limits, without botocore's repeats and without listing caches, unless they are set."""
    config = {"connect_timeout": _CONNECT_SECONDS, "read_timeout": _READ_SECONDS, "retries": {"max_attempts": 0}}
    return {
        "use_listings_cache": False,
        **options,
        "config_kwargs": {**config, **(options.get("config_kwargs") or {})},
    }


def _copy(path: Path, place: Path) -> None:
    """Copy a file to a folder that is a store: under a name that nobody reads, then renamed."""
    temporary = private_file(private_folder(place.parent) / f".{place.name}.{os.getpid()}.writing")
    try:
        shutil.copyfile(path, temporary)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def _is_local(fs: Any) -> bool:
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def _error_within(seconds: float, call: Callable[[], None]) -> Exception | None:
    """Call; return its error, _Unanswered if it has not ended after `seconds` and is left behind, None without one."""
    failure: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 (returned in the caller's thread)
            failure.append(error)

    # A daemon: the worker may end while a call hangs.
    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return _Unanswered(f"no answer within {seconds:.0f} s")
    return failure[0] if failure else None
