"""The form in which records are exported: whole, without values, or with keys hashed with a secret.

A plain SHA-256 of a short key, such as a customer number, is found by hashing all numbers: keys are hashed by HMAC.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

KEEP, OMIT, HASH = "keep", "omit", "hash"


@dataclass(frozen=True)
class RecordForm:
    """What an export holds of each record, besides topic, partition, offset, timestamp, header names and sizes.

    Attributes:
        values: `keep`, or `omit`: without values and without the values of headers.
        keys: `keep`, or `hash`: the HMAC-SHA-256 of each key in place of the key and its SHA-256.
        secret: key of the HMAC; never shown.
    """

    values: str = KEEP
    keys: str = KEEP
    secret: str = field(default="", repr=False)

    @property
    def description(self) -> dict[str, str]:
        """What summary.json and the metadata of every file say about the form."""
        return {"values": self.values, "keys": self.keys}

    def schema(self, whole: pa.Schema) -> pa.Schema:
        """Return the schema of a file of records, whose metadata describe the form."""
        return whole.with_metadata({f"switchback.{name}": said for name, said in self.description.items()})

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return rows of records in this form, with the same columns."""
        if self.values == OMIT:
            headers = [None if values is None else [None] * len(values) for values in rows["header_values"].to_pylist()]
            rows = _replaced(rows, "value", pa.nulls(len(rows), pa.binary()))
            rows = _replaced(rows, "header_values", pa.array(headers, pa.list_(pa.binary())))
        if self.keys == HASH:
            rows = _replaced(rows, "key_hmac", pa.array(self._hashed(rows["key"].to_pylist()), pa.string()))
            rows = _replaced(rows, "key_sha256", pa.nulls(len(rows), pa.string()))
            rows = _replaced(rows, "key", pa.nulls(len(rows), pa.binary()))
        return rows

    def _hashed(self, keys: list[bytes | None]) -> list[str | None]:
        # Copying is faster than making: only then the secret is not hashed again for each key.
        empty = hmac.new(self.secret.encode(), digestmod="sha256")
        hashed: list[str | None] = []
        for key in keys:
            digest = empty.copy()
            digest.update(key or b"")
            hashed.append(None if key is None else digest.hexdigest())
        return hashed


WHOLE = RecordForm()


def _replaced(rows: pa.Table, name: str, values: Any) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), values)
