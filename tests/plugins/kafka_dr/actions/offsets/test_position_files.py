"""Files of positions: what is read as it stands, and what is refused with its row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr.actions.offsets.position_files import read_positions, write_rows
from kafka_dr.errors import BadInput

from tests.file_modes import umask

ROW = {"topic": "orders", "partition": 0, "offset": 5}


def json_file(folder: Path, value: Any) -> Path:
    """A file with a value as JSON."""
    path = folder / "positions.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def parquet_file(folder: Path, **columns: pa.Array) -> Path:
    """A file with columns."""
    path = folder / "positions.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_json_and_parquet_are_read_alike(tmp_path: Path) -> None:
    """In their order, with more columns than are needed."""
    rows = [ROW | {"reader": "b", "more": None}, ROW | {"offset": 2**60, "reader": "a", "more": 1}]
    read = read_positions(json_file(tmp_path, rows))
    assert read.to_dict("records") == [{name: row[name] for name in (*ROW, "reader")} for row in rows]
    assert read["partition"].dtype == "int32" and read["offset"].dtype == "int64"
    columns = {
        "topic": pa.array(["orders", "orders"]).dictionary_encode(),
        "partition": pa.array([0, 0], pa.int16()),
        "offset": pa.array([5, 2**60]),
        "reader": pa.array(["b", "a"], pa.large_string()),
    }
    assert read_positions(parquet_file(tmp_path, **columns, more=pa.array([1.5, 2.5]))).equals(read)


def test_a_folder_of_parquet_files_is_read_whole(tmp_path: Path) -> None:
    """As Spark writes it."""
    folder = tmp_path / "positions.parquet"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for number in (0, 1):
        pq.write_table(pa.table({name: [value] for name, value in ROW.items()}), folder / f"part-{number}.parquet")
    assert len(read_positions(folder)) == 2


def test_an_empty_list_is_no_position(tmp_path: Path) -> None:
    """With its columns, of which an empty Parquet file may not know the types."""
    empty = dict.fromkeys(ROW, pa.array([], pa.null()))
    for path in (json_file(tmp_path, []), parquet_file(tmp_path, **empty)):
        read = read_positions(path)
        assert read.columns.tolist() == list(ROW) and len(read) == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "JSONDecodeError"),
        ("[" * 100_000, "nested too deeply"),
        ({"topic": "orders"}, "no list, but a value of type dict"),
        ([ROW, 5], "row 2 is no object"),
        ([{"topic": "orders", "partition": 0}], "row 1 has no `offset`"),
        ([ROW, ROW | {"offset": "5"}], "`offset` of row 2 is '5', not of type int"),
        ([ROW | {"offset": 5.0}], "`offset` of row 1 is 5.0, not of type int"),
        ([ROW | {"offset": True}], "not of type int"),
        ([ROW | {"topic": None}], "`topic` of row 1 is None, not of type str"),
        ([ROW | {"reader": "a"}, ROW], "row 2 has no `reader`"),
        ([ROW | {"offset": 2**63}], "`offset` of row 1 is 9223372036854775808: no offset is so large"),
        ([ROW | {"partition": 2**31}], "no partition is so large"),
    ],
)
def test_json_of_another_form_is_refused(tmp_path: Path, value: Any, said: str) -> None:
    """With file and row."""
    with pytest.raises(BadInput) as refused:
        read_positions(json_file(tmp_path, value))
    assert said in refused.value.seen and "positions.json" in refused.value.reason


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"offset": None}, "the column `offset` is missing; the file has topic, partition"),
        ({"offset": pa.array([5.0])}, "`offset` has type double, not int"),
        ({"offset": pa.array([2**63], pa.uint64())}, "ArrowInvalid"),
        ({"partition": pa.array([None], pa.int32())}, "`partition` is null in 1 rows"),
        ({"topic": pa.array([1])}, "`topic` has type int64, not str"),
    ],
)
def test_parquet_of_another_form_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    """With the column."""
    columns = {name: pa.array([value]) for name, value in ROW.items()} | changed
    path = parquet_file(tmp_path, **{name: column for name, column in columns.items() if column is not None})
    with pytest.raises(BadInput) as refused:
        read_positions(path)
    assert said in refused.value.seen


@pytest.mark.parametrize("name", ["positions.csv", "missing.json", "missing.parquet", "text.parquet"])
def test_what_is_no_file_of_either_form_is_refused(tmp_path: Path, name: str) -> None:
    """By its name, or as it cannot be read."""
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(BadInput, match=name):
        read_positions(tmp_path / name)


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_rows_are_written_whole_for_their_owner(tmp_path: Path, ending: str) -> None:
    """Nulls stay null, and what was there before is replaced."""
    path = tmp_path / f"out.{ending}"
    path.write_text("before")
    rows = pd.DataFrame({"topic": ["orders", "ö\n"], "target_offset": pd.array([5, None], "Int64"), "exact": True})
    with umask(0):
        write_rows(path, rows)
    found = json.loads(path.read_text()) if ending == "json" else pq.read_table(path).to_pylist()
    assert found == [
        {"topic": "orders", "target_offset": 5, "exact": True},
        {"topic": "ö\n", "target_offset": None, "exact": True},
    ]
    assert path.stat().st_mode & 0o777 == 0o600 and [*tmp_path.iterdir()] == [path]
    write_rows(path, rows[:0])
    assert len(pd.read_json(path) if ending == "json" else pd.read_parquet(path)) == 0


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    """And nothing half written."""
    path = tmp_path / "out.parquet"
    path.write_text("before")
    with pytest.raises(pa.ArrowInvalid, match="Could not convert"):
        write_rows(path, pd.DataFrame({"topic": [1.5, "text"]}))
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]
