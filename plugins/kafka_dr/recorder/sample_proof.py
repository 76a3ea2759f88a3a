"""The proof that a file's samples are the flight recorder's: a signed statement in the file's Parquet metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_dr.domain.sample_chain import ClusterIds, SampleStatement
from kafka_dr.hooks.signing import Signer, is_signed, key_id

_STATEMENT, _SIGNATURE, _KEY = b"switchback.statement", b"switchback.signature", b"switchback.key"


def with_proof(rows: pa.Table, statement: SampleStatement, signer: Signer) -> pa.Table:
    """Return the rows with the signed statement in the table's metadata."""
    signed = {_STATEMENT: statement.text, _SIGNATURE: signer.sign(statement.text.encode()), _KEY: signer.key_id}
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), **signed})


@dataclass(frozen=True)
class SampleProof:
    """What a file must prove to count.

    Attributes:
        flow: `source->target`.
        public_keys: the recorder's keys; a statement is signed by one of them.
        ids: cluster ids of source and target that are known otherwise; None for an unknown one.
    """

    flow: str
    public_keys: Sequence[str]
    ids: ClusterIds = (None, None)

    def statement_of(self, rows: pa.Table, hour: str) -> SampleStatement | str:
        """Return the valid statement of a file, or the reason why the file does not count.

        Args:
            rows: all rows of the file, with its metadata.
            hour: the hour whose folder holds the file, such as `2026-11-25/09`.
        """
        metadata = rows.schema.metadata or {}
        text, signature, key = map(metadata.get, (_STATEMENT, _SIGNATURE, _KEY))
        if text is None or signature is None or key is None:
            return "unsigned"
        public_key = next((one for one in self.public_keys if key_id(one).encode() == key), None)
        if public_key is None:
            return f"signed by a key that the topology does not name, {key[:16].decode('ascii', 'replace')!a}"
        if not is_signed(text, signature.decode("ascii", "replace"), public_key):
            return "the signature is not that of its statement"
        statement = SampleStatement.parse(text.decode("utf-8", "replace"))
        return "its statement is not one about samples" if statement is None else self._fitting(statement, rows, hour)

    def _fitting(self, statement: SampleStatement, rows: pa.Table, hour: str) -> SampleStatement | str:
        if statement.flow != self.flow:
            return f"its samples are of the flow {statement.flow}"
        for what, stated, known in zip(("source", "target"), statement.ids, self.ids, strict=True):
            if stated and known and stated != known:
                return f"its samples are of another {what}, cluster id {stated!a} and not {known!a}"
        if statement.hour != hour:
            return f"its samples are of the hour {statement.hour}"
        return statement if statement.rows == rows_digest(rows) else "its rows were changed"


def rows_digest(rows: pa.Table) -> str:
    """Return the SHA-256 of a table's column names, types and values, however the table is stored."""
    digest = hashlib.sha256()
    for field, column in zip(rows.schema, rows.columns, strict=True):
        digest.update(f"{field.name} {field.type} {len(column)}\n".encode())
        for part in _bytes_of(column.combine_chunks()):
            digest.update(part)
    return digest.hexdigest()


def _bytes_of(column: pa.Array) -> Iterator[bytes]:
    """Yield which values are null, then the values; of texts the lengths, then the characters."""
    yield np.packbits(pc.is_valid(column).to_numpy(zero_copy_only=False)).tobytes()
    if not pa.types.is_string(column.type):
        yield pc.fill_null(column, 0).to_numpy(zero_copy_only=False).tobytes()
        return
    yield pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).tobytes()
    yield "".join(text for text in column.to_pylist() if text is not None).encode("utf-8", "surrogatepass")
