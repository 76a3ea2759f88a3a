"""Puts files into the site's store, a folder or bucket behind a URI, and reads them back, through fsspec.

Invariants
1. A file exists as a whole or not at all: in a folder it is renamed from a temporary name, in an object store it is put
   in one request, or in parts that count together.
2. Every call ends within a limit, whatever the store does: the file system's own repeats, which may outlast a fence,
   are off, and a call that hangs is left behind. What may pass is repeated here, a few times; steps repeat it longer.
3. No error shows the options, which hold credentials.
4. A process that was forked makes its own client. No folder is listed, so no cached listing can be old.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import fsspec
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from kafka_dr.errors import StoreUnavailable, SwitchbackError
from kafka_dr.hooks.private_files import private_file, private_folder

_T = TypeVar("_T")
#: Limits of one request to an S3 store, in seconds: to connect, and for the next bytes of an answer.
_CONNECT_SECONDS, _READ_SECONDS = 3, 5
#: Limit of one call, in seconds, and the slowest transfer that it allows beyond that, in bytes per second.
_CALL_SECONDS, _SLOWEST = 10.0, 1_000_000
#: What the first call of a process may take longer, because it reads the store's connection and logs in.
_FIRST_CALL_SECONDS = 10.0
_ATTEMPTS, _LONGEST_PAUSE = 4, 1.0
_S3 = ("s3", "s3a")
#: Errors that no repetition cures: a missing bucket, missing rights, an unusable URI or option.
_FINAL = (FileNotFoundError, PermissionError, ImportError, TypeError, ValueError, SwitchbackError)


class _Hung(Exception):
    """A call did not end within its limit."""


class FileStore:
    """The files of one store, by names relative to its URI, with `/` between folders.

    Attributes:
        uri: of the folder or bucket, such as `s3://bucket/prefix`.
    """

    def __init__(self, uri: str, options: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Prepare the store; nothing is read or written yet.

        Args:
            uri: without credentials.
            options: returns fsspec's options for the file system, such as credentials; never shown. Called on first
                use, so that nothing else stops while they cannot be read.
        """
        self.uri, self._options = uri.rstrip("/"), options
        self._client: tuple[int, Any, str] | None = None

    def put(self, name: str, path: Path) -> None:
        """Store a local file under a name; a file that has the name already is replaced.

        Raises:
            StoreUnavailable: the store did not take the file within the limit.
        """
        seconds = _CALL_SECONDS + path.stat().st_size / _SLOWEST
        self._repeat("writing", name, seconds, lambda fs, place: _put(fs, place, path))

    def get(self, name: str, path: Path) -> bool:
        """Copy a stored file to a local path, with mode 600; return False if the store has no such file.

        Raises:
            StoreUnavailable: the store did not give the file within the limit.
        """
        size = self._repeat("reading", name, _CALL_SECONDS, _size_of)
        if size is None:
            return False
        seconds = _CALL_SECONDS + size / _SLOWEST
        self._repeat("reading", name, seconds, lambda fs, place: fs.get_file(place, str(private_file(path))))
        return True

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if the store has no such file.

        Raises:
            StoreUnavailable: the store did not answer within the limit.
        """
        content: bytes | None = self._repeat("reading", name, _CALL_SECONDS, _content_of)
        return content

    def has(self, name: str) -> bool:
        """Whether the store has a file of this name; raise StoreUnavailable as `read` does."""
        return self._repeat("reading", name, _CALL_SECONDS, _size_of) is not None

    def remove(self, name: str) -> None:
        """Remove a file that this process has written; StoreUnavailable if the store does not let it."""
        self._repeat("removing", name, _CALL_SECONDS, lambda fs, place: fs.rm_file(place))

    def _repeat(self, what: str, name: str, seconds: float, call: Callable[[Any, str], _T]) -> _T:
        """Call the file system within a limit, again after an error that may pass; return the result."""

        def once() -> _T:
            fs, root = self._file_system()
            return call(fs, f"{root}/{name}")

        attempts = Retrying(
            stop=stop_after_attempt(_ATTEMPTS) | stop_after_delay(_CONNECT_SECONDS + _READ_SECONDS),
            wait=wait_random_exponential(multiplier=0.1, max=_LONGEST_PAUSE),
            # A call that hung is not repeated here: behind a fence, its limit is long enough.
            retry=retry_if_exception(lambda error: not isinstance(error, (*_FINAL, _Hung))),
            reraise=True,
        )
        try:
            if not self._client:
                # Modules load outside the limit: a busy machine takes long for this, whatever the store does.
                fsspec.get_filesystem_class(fsspec.utils.get_protocol(self.uri))
                seconds += _FIRST_CALL_SECONDS
            result: _T = attempts(_within, seconds, once)
        except Exception as error:
            raise _unavailable(what, f"{self.uri}/{name}", error) from error
        return result

    def _file_system(self) -> tuple[Any, str]:
        """Return the file system and the store's root there; each process makes its own."""
        if self._client is None or self._client[0] != os.getpid():
            protocol = fsspec.utils.get_protocol(self.uri)
            options = _short_s3_options(self._options()) if protocol in _S3 else self._options()
            fs, root = fsspec.core.url_to_fs(self.uri, skip_instance_cache=True, **options)
            if protocol in _S3:
                fs.retries = 1
            self._client = os.getpid(), fs, root.rstrip("/")
        return self._client[1:]


def _short_s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with short limits, without botocore's repeats and without listing caches, unless they are set."""
    config = {
        "connect_timeout": _CONNECT_SECONDS,
        "read_timeout": _READ_SECONDS,
        "retries": {"max_attempts": 0},
    }
    return {
        "use_listings_cache": False,
        **options,
        "config_kwargs": {**config, **(options.get("config_kwargs") or {})},
    }


def _put(fs: Any, place: str, path: Path) -> None:
    if not _is_local(fs):
        fs.put_file(str(path), place)
        return
    folder = private_folder(Path(place).parent)
    temporary = private_file(folder / f".{uuid.uuid4().hex}.writing")
    try:
        shutil.copyfile(path, temporary)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def _size_of(fs: Any, place: str) -> int | None:
    try:
        return int(fs.info(place)["size"])
    except FileNotFoundError:
        return None


def _content_of(fs: Any, place: str) -> bytes | None:
    try:
        content: bytes = fs.cat_file(place)
    except FileNotFoundError:
        return None
    return content


def _is_local(fs: Any) -> bool:
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return the result of `call`; raise _Hung if it has not ended after `seconds`, and leave it behind."""
    outcome: list[_T] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:  # noqa: BLE001 (raised in the caller's thread)
            failure.append(error)

    # A daemon: the process may end while a call hangs.
    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise _Hung(f"no answer within {seconds:.0f} s")
    if failure:
        raise failure[0]
    return outcome[0]


def _unavailable(what: str, where: str, error: Exception) -> StoreUnavailable:
    """Return the error for a failed call; only the kind of `error` is shown, as its text may hold credentials."""
    ours = isinstance(error, SwitchbackError | _Hung)
    return StoreUnavailable(
        f"{what} in the store failed",
        f"{where}: {error if ours else type(error).__name__}",
        "Make sure that every machine where tasks run reaches the folder or bucket under `store` in the topology, that"
        " it has room, and that it lets the credentials of its Airflow connection read, write and list files.",
        may_pass=not isinstance(error, _FINAL),
    )
