"""Exports without values, or with hashed keys: what they leave out is in no file, and they say so."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from kafka_dr_spark.contract.logins import Logins
from kafka_dr_spark.contract.schemas import ContractBroken, check_columns, check_values
from kafka_dr_spark.export.record_form import RecordForm
from kafka_dr_spark.export.settings import load_export
from kafka_dr_spark.reading.record_files import FileWindow, rows_of
from kafka_dr_spark.translation.case import SOURCE, ReadWindow

SECRET = "a-secret-that-stands-in-no-file"
KEY, VALUE, HEADER = b"customer-4711", b"value-of-4711", b"header-of-4711"
RECORDS: list[tuple[bytes | None, bytes | None]] = [(KEY, VALUE), (KEY, None), (None, b""), (b"", VALUE)]


def written(folder: Path, form: RecordForm) -> Path:
    """The file of four records, one a tombstone and one without a key."""
    window = FileWindow(ReadWindow(SOURCE, "orders", 0, 0, 4), folder / "orders-0.parquet", form=form)
    messages = [
        Message(
            topic="orders",
            partition=0,
            offset=offset,
            key=key,
            value=value,
            timestamp=(TIMESTAMP_CREATE_TIME, 7),
            headers=[("h", HEADER), ("n", None)] if offset else None,
        )
        for offset, (key, value) in enumerate(RECORDS)
    ]
    window.add_rows(rows_of(messages))
    figures = window.close()
    assert figures["bytes"] == sum(len(key or b"") + len(value or b"") for key, value in RECORDS)
    return folder / figures["file"]


@pytest.mark.parametrize("values", ["keep", "omit"])
@pytest.mark.parametrize("keys", ["keep", "hash"])
def test_what_is_left_out_stands_nowhere_in_the_file(values: str, keys: str, tmp_path: Path) -> None:
    """Nor does a plain hash of a key; sizes, header names, and equality of keys remain."""
    path = written(tmp_path, RecordForm(values, keys, SECRET if keys == "hash" else ""))
    raw, table = path.read_bytes(), pq.read_table(path)
    check_columns("stranded", table.schema)
    check_values("stranded", table)
    assert (VALUE in raw or HEADER in raw) == (values == "keep")
    assert (KEY in raw or sha256(KEY).hexdigest().encode() in raw) == (keys == "keep")
    assert SECRET.encode() not in raw
    rows = table.to_pylist()
    assert [row["value_bytes"] for row in rows] == [13, None, 0, 13]
    assert [row["header_names"] for row in rows] == [[], *[["h", "n"]] * 3]
    whole_headers = [[], *[[HEADER, None]] * 3]
    assert [row["header_values"] for row in rows] == (
        whole_headers if values == "keep" else [[None] * len(names) for names in whole_headers]
    )
    hashed = [None if key is None else hmac.new(SECRET.encode(), key, "sha256").hexdigest() for key, _ in RECORDS]
    assert [row["key_hmac"] for row in rows] == (hashed if keys == "hash" else [None] * 4)
    assert hashed[0] == hashed[1] != hashed[3]
    metadata = pq.read_schema(path).metadata
    assert (metadata[b"switchback.values"], metadata[b"switchback.keys"]) == (values.encode(), keys.encode())


def test_the_secret_comes_from_the_logins_and_is_shown_nowhere(tmp_path: Path) -> None:
    """Without it nothing is exported: an empty secret would make a hash that anybody can make."""
    (tmp_path / "job.json").write_text(
        '{"isolation": "read_uncommitted", "source_readable": true, "export_values": "omit", "export_keys": "hash"}'
    )
    with pytest.raises(ContractBroken, match="has no export_secret, and job.json demands hashed keys"):
        load_export(tmp_path, Logins())
    export = load_export(tmp_path, Logins(export_secret=SECRET))
    assert export.form == RecordForm("omit", "hash", SECRET)
    assert SECRET not in repr(export) + repr(export.place(tmp_path)) + str(export.description)
    assert export.description == {"at": None, "values": "omit", "keys": "hash"}
