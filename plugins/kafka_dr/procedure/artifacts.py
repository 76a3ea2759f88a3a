"""Files beside the evidence: what is too large for the journal, under a receipt that the journal holds."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.errors import Contradiction
from kafka_dr.procedure.entries import Receipt


class Artifacts:
    """The folder of one run.

    Attributes:
        folder: where the run's evidence and larger results lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, name: str, frame: pd.DataFrame) -> Receipt:
        """Write a frame as Parquet; return its receipt, which goes into the journal.

        Its content is in the file's name: what a second process of a step writes never replaces what the journal knows.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # Several threads, and processes on several machines, may write the same at once.
        aside = self.folder / f".{name}.{uuid.uuid4().hex}.writing"
        frame.to_parquet(aside, index=False)
        digest = _sha256(aside)
        path = aside.replace(self.folder / f"{name}-{digest[:12]}.parquet")
        return Receipt(path.name, len(frame), digest)

    def load(self, receipt: Receipt | Mapping[str, Any]) -> pd.DataFrame:
        """Read a frame back.

        Raises:
            Contradiction: the file is not the one of the receipt.
        """
        written = vars(receipt) if isinstance(receipt, Receipt) else receipt
        file, digest = written["file"], written["sha256"]
        path = self.folder / file
        if not path.exists() or _sha256(path) != digest:
            raise Contradiction(
                f"{path} is not the file that was written",
                f"its SHA-256 is not {digest[:12]}...",
                "Before the opening the procedure returns by itself: start a new one; after it, clear the task that"
                " wrote it, so that it is made again.",
            )
        return pd.read_parquet(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
