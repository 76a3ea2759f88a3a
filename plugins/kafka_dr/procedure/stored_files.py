"""Puts files of this machine's evidence folder into the store, and fetches files that this machine lacks.

A file has one name in both: its path relative to the evidence folder. Without a store the folder is all there is, and
all machines must mount it.

Invariants
1. A file is written locally first. A file that the store has not taken is noted in the folder, and put again as soon as
   a later call of this machine reaches the store: no file is lost because the store is away.
2. A file is fetched only if the folder lacks it, and kept only if its digest is the expected one. So what a machine has
   written itself, it reads without the store.
"""

from __future__ import annotations

import hashlib
import math
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from kafka_dr.errors import StoreUnavailable
from kafka_dr.hooks.file_store import FileStore
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.hooks.redaction import one_line

_NOTES = ".not_stored"
#: For so long after a failure nothing is put whose loss does not stop the step, so that a fence does not wait for it.
_LEFT_ALONE_SECONDS = 30.0
#: A document that was read so recently is not read again; pages ask every two seconds.
_FRESH_SECONDS = 5.0


class StoredFiles:
    """Puts files of one evidence folder into the store, and fetches files that this machine lacks.

    Attributes:
        folder: the evidence folder.
        store: None if the topology names none.
    """

    def __init__(self, folder: Path, store: FileStore | None) -> None:
        self.folder, self.store = folder, store
        self._failed_at: float | None = None
        #: Document -> when it was last asked for, by the monotonic clock, and what was wrong then.
        self._asked: dict[str, tuple[float, str]] = {}

    def put(self, path: Path) -> None:
        """Store a file of the folder, then all files that an earlier call could not store.

        Raises:
            StoreUnavailable: the store did not take the file, which is noted and put again later.
        """
        if self.store is not None:
            # Noted first: a process that is killed leaves the note.
            note = self._note(path)
            self.store.put(self._name(path), path)
            note.unlink(missing_ok=True)
            self._put_noted(self.store)

    def put_if_possible(self, path: Path) -> str:
        """Store a file; return why it is stored later, "" if it is stored. A store that has just failed is not asked.

        For what must go on while the store is away: the file is on this machine, and noted.
        """
        if self.store is None:
            return ""
        if self._failed_at is not None and time.monotonic() - self._failed_at < _LEFT_ALONE_SECONDS:
            self._note(path)
            return "the store has just failed"
        try:
            self.put(path)
        except StoreUnavailable as error:
            self._failed_at = time.monotonic()
            return str(error)
        return ""

    def fetch(self, path: Path, sha256: str) -> str | None:
        """Fetch a file that the folder lacks; return the digest of what the store has, None without such a file.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        if self.store is None:
            return None
        private_folder(path.parent)
        temporary = path.parent / f".{uuid.uuid4().hex}.reading"
        try:
            if not self.store.get(self._name(path), temporary):
                return None
            digest = sha256_of(temporary)
            if digest == sha256:
                temporary.replace(path)
            return digest
        finally:
            temporary.unlink(missing_ok=True)

    def refresh(self, path: Path) -> str:
        """Replace this machine's copy of a document, which another machine may have written anew, by the store's.

        A document that this machine has written and could not store yet stays. A name is asked for at most every few
        seconds; a store that has just failed is not asked.

        Returns:
            Why the copy may be old, with its age, for people; "" if it is not.
        """
        name, now = self._name(path), time.monotonic()
        asked_at, why = self._asked.get(name, (-math.inf, ""))
        if self.store is None or now - asked_at < (_LEFT_ALONE_SECONDS if why else _FRESH_SECONDS):
            return why
        why = "" if name in self.not_stored() else self._refreshed(self.store, path, name)
        self._asked[name] = time.monotonic(), why
        return why

    def _refreshed(self, store: FileStore, path: Path, name: str) -> str:
        try:
            content = store.read(name)
            if content is not None and not (path.is_file() and path.read_bytes() == content):
                private_folder(path.parent)
                temporary = private_file(path.parent / f".{uuid.uuid4().hex}.reading")
                temporary.write_bytes(content)
                temporary.replace(path)
        except StoreUnavailable as error:
            return f"{_copy_of_this_machine(path)}: {error.reason} ({error.seen})"
        except OSError as error:
            return f"{_copy_of_this_machine(path)}: it could not be replaced ({one_line(error)})"
        return ""

    def not_stored(self) -> list[str]:
        """Return the names of this machine's files that the store has not taken yet, sorted."""
        return sorted(note.read_text(encoding="utf-8") for note in self._notes())

    def _put_noted(self, store: FileStore) -> None:
        """Put the files that were noted; stop at the first that fails, because the next call tries again."""
        for note in self._notes():
            try:
                name = note.read_text(encoding="utf-8")
                if (self.folder / name).is_file():
                    store.put(name, self.folder / name)
            except FileNotFoundError:
                continue  # Another process has put the file meanwhile.
            except StoreUnavailable:
                return
            note.unlink(missing_ok=True)

    def _notes(self) -> list[Path]:
        return sorted((self.folder / _NOTES).glob("*")) if (self.folder / _NOTES).is_dir() else []

    def _note(self, path: Path) -> Path:
        """Note a file as not stored; return the note, which whoever stores the file removes."""
        name = self._name(path)
        note = private_folder(self.folder / _NOTES) / hashlib.sha256(name.encode()).hexdigest()
        # Renamed, so that no other process reads a note without a name and removes it.
        temporary = private_file(self.folder / f".{uuid.uuid4().hex}.writing")
        temporary.write_text(name, encoding="utf-8")
        return temporary.replace(note)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


def _copy_of_this_machine(path: Path) -> str:
    """Return how old this machine's copy of a document is, or that there is none."""
    try:
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return f"this machine has no copy of {path.name}"
    return f"{path.name} is the copy of this machine, of {written.isoformat(timespec='seconds')}"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
