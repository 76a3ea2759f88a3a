"""Compute the SHA-256 digests, in hex, of a translation, of other result rows, and of a job's input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafka_dr_spark.contract.schemas import column_names

ROWS_AT_ONCE = 100_000
#: Characters that JSON must escape, as a regular expression.
ESCAPED_CHARACTERS = r'["\\\x00-\x1f]'


def _canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def partition_digest(rows: pa.Table) -> str:
    """Return the digest of one partition's translation rows, which must be sorted by group."""
    return partition_digests([rows])[0]


def partition_digests(partitions: list[pa.Table]) -> list[str]:
    """Return the digest of each partition's translation rows; one call is faster than a call per partition.

    The rows of each partition must be sorted by group.
    """
    digests = [hashlib.sha256(b"[") for _ in partitions]
    pieces = [
        (n, rows.slice(start, ROWS_AT_ONCE), start == 0)
        for n, rows in enumerate(partitions)
        for start in range(0, len(rows), ROWS_AT_ONCE)
    ]
    for portion in _portions(pieces):
        text, ends = _as_json(pa.concat_tables([rows for _, rows, _ in portion]))
        edges = ends[np.cumsum([0, *(len(rows) for _, rows, _ in portion)])].tolist()
        for (number, _, first), start, end in zip(portion, edges, edges[1:]):
            digests[number].update(text[start + first : end])
    for digest in digests:
        digest.update(b"]")
    return [digest.hexdigest() for digest in digests]


def _portions(pieces: list[tuple[int, pa.Table, bool]]) -> Iterator[list[tuple[int, pa.Table, bool]]]:
    portion: list[tuple[int, pa.Table, bool]] = []
    for piece in pieces:
        if portion and sum(len(rows) for _, rows, _ in portion) + len(piece[1]) > ROWS_AT_ONCE:
            yield portion
            portion = []
        portion.append(piece)
    if portion:
        yield portion


def _as_json(rows: pa.Table) -> tuple[memoryview, NDArray[np.int32]]:
    """Return rows as text, and the byte offsets in this text at which each row begins and the last row ends.

    The text has one canonical JSON list per row, each after a comma.
    """
    columns = [_column_as_json(rows[name].combine_chunks()) for name in column_names("translation")]
    lines = pc.binary_join_element_wise(",[", pc.binary_join_element_wise(*columns, ","), "]", "")
    _, offsets, text = lines.buffers()
    return memoryview(text), np.frombuffer(offsets, np.int32, len(lines) + 1)


def _column_as_json(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        text = pc.binary_join_element_wise('"', values, '"', "")
        if pc.any(pc.match_substring_regex(values, ESCAPED_CHARACTERS)).as_py():
            text = pa.array(
                [None if value is None else _canonical(value).decode() for value in values.to_pylist()], pa.string()
            )
    else:
        text = values.cast(pa.string())
    return text.fill_null("null")


def translation_digest(partitions: Iterable[tuple[str, int, str]]) -> str:
    """Return the digest of a translation from topic, partition number and digest of each translated partition."""
    return hashlib.sha256(_canonical(sorted(partitions))).hexdigest()


def rows_digest(rows: pa.Table) -> str:
    """Return the SHA-256 of rows as canonical JSON lists, one row per line."""
    digest = hashlib.sha256()
    for row in rows.to_pylist():
        digest.update(_canonical(list(row.values())) + b"\n")
    return digest.hexdigest()


def input_digest(folder: Path, limits: dict[str, Any]) -> str:
    """Return the SHA-256 over the read limits in force and the names, sizes and bytes of all input files.

    Files whose names begin with a dot or an underscore are left out.
    """
    digest = hashlib.sha256(json.dumps(limits, sort_keys=True).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"):
        digest.update(f"\n{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
