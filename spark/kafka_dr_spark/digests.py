"""The digest of a translation, as the ``translation`` schema defines it, and the digest of a job's input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_dr_spark.schemas import column_names


def _canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def partition_digest(rows: pa.Table) -> str:
    """Return the digest of one partition's rows, which must be sorted by group."""
    columns = [rows[name].to_pylist() for name in column_names("translation")]
    return hashlib.sha256(_canonical(list(zip(*columns)))).hexdigest()


def translation_digest(partitions: Iterable[tuple[str, int, str]]) -> str:
    """Return the digest of a translation from topic, partition and digest of all its partitions."""
    return hashlib.sha256(_canonical(sorted(partitions))).hexdigest()


def input_digest(folder: Path, limits: dict[str, Any]) -> str:
    """Return the SHA-256 over the names and bytes of the input files and the limits in force."""
    digest = hashlib.sha256(json.dumps(limits, sort_keys=True).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"):
        digest.update(f"\n{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
