"""Writes and reads files beside the evidence, with plans, and with data too large for the journal.

The journal holds each file's receipt: name, number of rows, and SHA-256. If the topology names a store, each file is
put there as well, and a machine that lacks a file fetches it.

While the store is away, a step fails before clients are fenced. Behind the fence, and in a procedure whose source is
lost, a file that cannot be stored stops nothing: it is on this machine, is put as soon as the store answers, and only a
step on another machine that needs the file waits for the store.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.domain.canonical_json import canonical_json, read_json
from kafka_dr.errors import Contradiction
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.procedure.entries import FolderReceipt, Receipt
from kafka_dr.procedure.stored_files import StoredFiles, sha256_of

_log = logging.getLogger(__name__)
#: End of the name of the file that lists a stored folder; the digest of this file is the folder's.
_LISTING = ".listing"


class Artifacts:
    """Writes and reads the files of one run, in one folder.

    Attributes:
        folder: the folder that also holds the run's evidence.
        files: the folder of all runs, and its store.
    """

    def __init__(self, folder: Path, files: StoredFiles | None = None, goes_on: Callable[[], bool] = bool) -> None:
        """Name the folder; nothing is written yet.

        Args:
            folder: in the folder of `files`.
            files: None for a folder without a store.
            goes_on: returns whether the run goes on without a store that is away.
        """
        self.folder, self._goes_on = folder, goes_on
        self.files = files or StoredFiles(folder.parent, None)

    def save(self, name: str, frame: pd.DataFrame) -> Receipt:
        """Write a frame as a Parquet file; return the file's receipt for the journal.

        The file's name contains a digest of its content, so no other process replaces the file by a different file.
        """
        return self._put(name, "parquet", len(frame), lambda path: frame.to_parquet(path, index=False))

    def save_json(self, name: str, value: Mapping[str, Any]) -> Receipt:
        """Write an object as canonical JSON; return the file's receipt, whose number of rows is 1."""
        text = canonical_json(value).encode("utf-8", "surrogatepass")
        return self._put(name, "json", 1, lambda path: path.write_bytes(text))

    def _put(self, name: str, ending: str, rows: int, write: Callable[[Path], object]) -> Receipt:
        private_folder(self.folder)
        # Several threads, and processes on several machines, may write the same content at once.
        temporary = private_file(self.folder / f".{name}.{uuid.uuid4().hex}.writing")
        write(temporary)
        digest = sha256_of(temporary)
        path = temporary.replace(self.folder / f"{name}-{digest[:12]}.{ending}")
        self.store(path)
        return Receipt(path.name, rows, digest)

    def load(self, receipt: Receipt | Mapping[str, Any]) -> pd.DataFrame:
        """Return the frame in the file that a receipt names.

        Raises:
            Contradiction: the file is missing or differs from the receipt.
        """
        return pd.read_parquet(self._unchanged(receipt))

    def load_json(self, receipt: Receipt) -> dict[str, Any]:
        """Return the object in the file that a receipt names; raise Contradiction as `load` does."""
        document: dict[str, Any] = read_json(self._unchanged(receipt).read_bytes())
        return document

    @property
    def stored_at(self) -> str:
        """URI of this run's folder in the store, with `/` at its end; empty without a store."""
        store = self.files.store
        return f"{store.uri}/{self.folder.name}/" if store else ""

    def receipt_of(self, folder: Path) -> FolderReceipt:
        """Store a folder below this run's folder, whose files are all written, and return its receipt."""
        listing = _listing_of(folder)
        receipt = FolderReceipt(folder.relative_to(self.folder).as_posix(), _digest_of(listing))
        if self.files.store is not None:
            file = private_file(folder.with_name(f"{folder.name}{_LISTING}"))
            file.write_text(listing, encoding="utf-8")
            for path in [*_files_in(folder), file]:
                self.store(path)
        return receipt

    def find_folder(self, receipt: FolderReceipt) -> Path:
        """Return the path of the folder that a receipt names; raise Contradiction as `load` does."""
        path = self.folder / receipt.folder
        if not path.is_dir():
            self._fetch_folder(path, receipt.sha256)
        present = _digest_of(_listing_of(path)) if path.is_dir() else None
        if present != receipt.sha256:
            raise self._changed(path, present, receipt.sha256)
        return path

    def store(self, path: Path) -> None:
        """Put a file of this run's folder into the store, if the topology names one.

        Raises:
            StoreUnavailable: the store did not take the file, and the run does not go on without it.
        """
        if self.files.store is None:
            return
        if self._goes_on():
            self.store_if_possible(path)
        else:
            self.files.put(path)

    def store_if_possible(self, path: Path) -> None:
        """Put a file of this run's folder into the store; one that the store does not take is named in the log."""
        if why := self.files.put_if_possible(path):
            _log.warning("%s is on this machine alone, and is stored later: %s", path, why)

    def find_file(self, path: Path, sha256: str) -> Path:
        """Return the path of a file with this digest in the folder of a run; fetch the file if this machine lacks it.

        Raises:
            Contradiction: the file is missing or has another digest.
            StoreUnavailable: this machine lacks the file, and the store does not answer.
        """
        present = sha256_of(path) if path.exists() else self.files.fetch(path, sha256)
        if present != sha256:
            raise self._changed(path, present, sha256)
        return path

    def _fetch_folder(self, folder: Path, sha256: str) -> None:
        """Fetch the files of a folder that this machine lacks; without its listing in the store nothing is fetched."""
        listing = folder.with_name(f"{folder.name}{_LISTING}")
        if self.files.store is None or (not listing.exists() and self.files.fetch(listing, sha256) is None):
            return
        for line in self.find_file(listing, sha256).read_text(encoding="utf-8").splitlines():
            name, _, digest = line.rpartition(" ")
            self.find_file(folder / name, digest)

    def _unchanged(self, receipt: Receipt | Mapping[str, Any]) -> Path:
        fields = vars(receipt) if isinstance(receipt, Receipt) else receipt
        return self.find_file(self.folder / fields["file"], fields["sha256"])

    def _changed(self, path: Path, present: str | None, recorded: str) -> Contradiction:
        """Return the error for a file or folder that is missing, or has another digest than the recorded one."""
        store = self.files.store
        if present is not None:
            seen = f"the SHA-256 of the file begins with {present[:12]}, not with {recorded[:12]}"
        else:
            seen = "the file is missing" if store is None else f"the file is missing here and in {store.uri}"
        check = "Check that every machine where tasks run mounts the same evidence folder. If it does, the file was"
        if store is not None:
            check = (
                "The machine that wrote the file may have been unable to store it: copy the file from the evidence"
                " folder of that machine, which the log of the step that wrote the file names. If no machine has the"
                " file, it was"
            )
        return Contradiction(
            f"{path} is not the file that was written",
            seen,
            f"{check} deleted or changed. After open_target is done: restore the file from a backup, then clear the red"
            " step. Otherwise start a new run; if the file is in the folder of an earlier procedure, first restore"
            " the file from a backup.",
        )


def _files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _listing_of(folder: Path) -> str:
    """Return one line with name and digest of each file in a folder."""
    return "".join(f"{path.relative_to(folder).as_posix()} {sha256_of(path)}\n" for path in _files_in(folder))


def _digest_of(listing: str) -> str:
    return hashlib.sha256(listing.encode()).hexdigest()
