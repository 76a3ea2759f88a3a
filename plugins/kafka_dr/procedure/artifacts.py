"""Writes and reads files beside the evidence, with plans, and with data too large for the journal.

The journal holds each file's receipt: name, number of rows, and SHA-256.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.domain.canonical_json import canonical_json, read_json
from kafka_dr.errors import Contradiction
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.procedure.entries import FolderReceipt, Receipt


class Artifacts:
    """Writes and reads the files of one run, in one folder.

    Attributes:
        folder: the folder that also holds the run's evidence.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
        digest = _sha256(temporary)
        path = temporary.replace(self.folder / f"{name}-{digest[:12]}.{ending}")
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

    def receipt_of(self, folder: Path) -> FolderReceipt:
        """Return the receipt of a folder below this run's folder, whose files are all written."""
        return FolderReceipt(folder.relative_to(self.folder).as_posix(), _folder_sha256(folder))

    def find_folder(self, receipt: FolderReceipt) -> Path:
        """Return the path of the folder that a receipt names; raise Contradiction as `load` does."""
        path = self.folder / receipt.folder
        present = _folder_sha256(path) if path.is_dir() else None
        if present != receipt.sha256:
            raise _changed(path, present, receipt.sha256)
        return path

    def _unchanged(self, receipt: Receipt | Mapping[str, Any]) -> Path:
        fields = vars(receipt) if isinstance(receipt, Receipt) else receipt
        file, digest = fields["file"], fields["sha256"]
        path: Path = self.folder / file
        present = _sha256(path) if path.exists() else None
        if present != digest:
            raise _changed(path, present, digest)
        return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _changed(path: Path, present: str | None, recorded: str) -> Contradiction:
    """Return the error for a file or folder that is missing, or has another digest than the recorded one."""
    return Contradiction(
        f"{path} is not the file that was written",
        (
            "the file is missing"
            if present is None
            else f"the SHA-256 of the file begins with {present[:12]}, not with {recorded[:12]}"
        ),
        "Check that every machine where tasks run mounts the same evidence folder. If it does, the file was"
        " deleted or changed. After open_target is done: restore the file from a backup, then clear the red"
        " step. Otherwise start a new run; if the file is in the folder of an earlier procedure, first restore"
        " the file from a backup.",
    )


def _folder_sha256(folder: Path) -> str:
    """Return a digest of the names and contents of all files in a folder."""
    lines = [
        f"{path.relative_to(folder).as_posix()} {_sha256(path)}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
