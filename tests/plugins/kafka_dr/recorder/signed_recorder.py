"""A recorder that signs its samples into an archive, and what an attacker does who may write to the archive."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from kafka_dr.domain.recorder_rows import Kind, RecorderRows
from kafka_dr.domain.sample_chain import SampleStatement
from kafka_dr.hooks.archive import Archive
from kafka_dr.hooks.signing import Signer, make_key
from kafka_dr.recorder.loop import SAMPLES, SCHEMA
from kafka_dr.recorder.sample_proof import SampleProof
from kafka_dr.recorder.sample_signing import SampleSigning
from kafka_dr.recorder.signed_samples import SignedSamples

BEGIN = datetime(2026, 11, 25, 9, 59, 30, tzinfo=UTC)
FLOW, IDS = "primary->standby", ("id-primary", "id-standby")


class Notes:
    """What the recorder has the journal note, at once and in memory."""

    def __init__(self, noted: tuple[int, str] | None = None) -> None:
        self.noted, self.newest = noted, None

    def note(self, newest: SampleStatement) -> None:
        """Keep the newest."""
        self.newest = newest


class SignedRecorder:
    """Signs samples of one flow, ten seconds apart, each with one row by which it is told apart."""

    def __init__(self, folder: Path, flow: str = FLOW, key: Path | None = None, ids: Any = IDS) -> None:
        self.folder, self.flow, self.ids, self.now, self.count = folder, flow, ids, BEGIN, 0
        self.key = key or folder / f"key-{flow.replace('>', '')}"
        if not self.key.exists():
            folder.mkdir(parents=True, exist_ok=True)
            make_key(self.key)
        self.signer = Signer.of_file(self.key)
        self.archive = Archive(f"file://{folder}", flow.replace("->", "-to-"))
        self.proof = SampleProof(flow, (self.signer.public_key,))
        self.notes = Notes()
        self.start()

    def start(self, noted: tuple[int, str] | None = None) -> None:
        """Begin as a new process, which knows nothing but the archive and the journal's note."""
        self.notes.noted = noted
        self.signing = SampleSigning(self.archive, SAMPLES, self.proof, self.signer, self.notes)

    def sample(self, *rows: tuple[Kind, dict[str, Any]], dropped: int = 0, ids: Any = None) -> pa.Table:
        """Store a sample; without rows, one with its number as a position."""
        table = self.table(*rows)
        self.signing.write(table, self.now, ids or self.ids, dropped)
        return table

    def table(self, *rows: tuple[Kind, dict[str, Any]]) -> pa.Table:
        """The rows of the next sample, ten seconds later."""
        self.now, self.count = self.now + timedelta(seconds=10), self.count + 1
        made = RecorderRows(int(self.now.timestamp() * 1000))
        for kind, values in rows or [(Kind.POSITION, {"group": "g", "position": self.count})]:
            made.add(kind, **values)
        return pa.table(made.columns, SCHEMA)

    def reading(self, **known: Any) -> SignedSamples:
        """A reader that relies on this recorder's key."""
        return SignedSamples(self.archive, SampleProof(self.flow, (self.signer.public_key,), **known))

    @property
    def files(self) -> list[Path]:
        """The archive's files, oldest first."""
        return sorted((self.folder / self.flow.replace("->", "-to-") / SAMPLES).rglob("[!.]*.parquet"))


def read(samples: SignedSamples) -> list[int]:
    """The samples that count, oldest first."""
    hours = [table["position"].to_pylist() for table in samples.back(SAMPLES)]
    return [number for hour in reversed(hours) for number in hour]


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a file's rows and leave its metadata, so that its statement is that of other rows."""
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(change(rows).replace_schema_metadata(rows.schema.metadata), path)


def copied(path: Path, hour: str | None = None, name: str = "095959.000000-replayed") -> Path:
    """Put a file in again under another name, in its own hour or another one."""
    folder = path.parent if hour is None else path.parents[2] / hour
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(path, folder / f"{name}.parquet"))
