"""The digest of a translation is that of its canonical JSON, however many partitions are done at once."""

from __future__ import annotations

import hashlib
import json
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.contract import digests
from kafka_dr_spark.contract.schemas import arrow_schema

COLUMNS = arrow_schema("translation")
OF_TYPE = {
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(0, 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
}
CELLS = [OF_TYPE[field.type] | st.none() if field.nullable else OF_TYPE[field.type] for field in COLUMNS]
PARTITIONS = st.lists(st.lists(st.tuples(*CELLS), max_size=5), max_size=4)


def table(rows: list[tuple]) -> pa.Table:
    """Rows as the job holds them."""
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row)) for row in rows], schema=COLUMNS)


def plain(rows: list[tuple]) -> str:
    """The digest as the schema defines it, by the shortest way."""
    return hashlib.sha256(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


@given(PARTITIONS)
def test_digests_are_those_of_the_json(partitions: list[list[tuple]]) -> None:
    """Nulls, quotes, control characters, empty partitions: all as JSON writes them, in portions of any size."""
    for at_once in (1, 3, 100_000):
        with mock.patch.object(digests, "ROWS_AT_ONCE", at_once):
            assert digests.partition_digests([table(rows) for rows in partitions]) == [
                plain(rows) for rows in partitions
            ]


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x00", "\x1f", "\x7f", "\u2028", "null", "\u00e9\U0001f600"])
def test_text_that_json_may_write_in_another_way(text: str) -> None:
    """Each of them alone, beside text that JSON writes as it is."""
    row = tuple(text if field.type == pa.string() else {pa.bool_(): True}.get(field.type, 7) for field in COLUMNS)
    other = tuple("as it is" if field.type == pa.string() else cell for field, cell in zip(COLUMNS, row))
    assert digests.partition_digest(table([other, row])) == plain([other, row])
