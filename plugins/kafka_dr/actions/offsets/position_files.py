"""Read files of positions that readers keep outside Kafka's groups, and write translated positions to a file.

A *reader* is a program that stores its positions itself, for example Flink, Spark, or a program with a database table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput
from kafka_dr.hooks.private_files import private_file

#: Columns of the input and their types. The column `reader` may be missing, if the file has one reader's positions.
TYPES: Mapping[str, type] = {"topic": str, "partition": int, "offset": int, "reader": str}
OPTIONAL = "reader"
_ENDINGS = (".json", ".parquet")
_NUMBERS: Mapping[str, Any] = {"partition": np.iinfo(np.int32), "offset": np.iinfo(np.int64)}
_EXPECTED = (
    "The input is a JSON list of objects, or a Parquet file, with `topic` (text), `partition` and `offset` (integers),"
    " and, if it has positions of several readers, `reader` (text). `offset` is the next record to read."
)


def check_ending(path: Path) -> None:
    """Raise BadInput if a file's name ends neither with .json nor with .parquet."""
    if path.suffix not in _ENDINGS:
        raise BadInput(
            "The ending of a file's name does not say whether it is JSON or Parquet",
            str(path),
            f"Give a name that ends with {' or '.join(_ENDINGS)}.",
        )


def read_positions(path: Path) -> pd.DataFrame:
    """Return a file's positions, in the order of the file: topic, partition (int32), offset (int64), perhaps reader.

    Raises:
        BadInput: the file cannot be read, lacks a column, or has a value of another type; the message names the row.
    """
    check_ending(path)
    try:
        return _read_json(path) if path.suffix == ".json" else _read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unusable(path, f"{type(error).__name__}: {str(error)[:300]}") from None


def _read_json(path: Path) -> pd.DataFrame:
    rows = read_json(path.read_bytes())
    if not isinstance(rows, list):
        raise _unusable(path, f"the file holds no list, but a value of type {type(rows).__name__}")
    odd = next((number for number, row in enumerate(rows, 1) if type(row) is not dict), None)
    if odd is not None:
        raise _unusable(path, f"row {odd} is no object")
    columns = {}
    for name, kind in TYPES.items():
        if name == OPTIONAL and not any(name in row for row in rows):
            continue
        missing = next((number for number, row in enumerate(rows, 1) if name not in row), None)
        if missing is not None:
            raise _unusable(path, f"row {missing} has no `{name}`")
        columns[name] = _checked([row[name] for row in rows], name, kind, path)
    return pd.DataFrame(columns)


def _checked(values: Sequence[Any], name: str, kind: type, path: Path) -> Any:
    """Return a JSON column's values as an array; raise BadInput for a value of another type, or out of range."""
    if set(map(type, values)) - {kind}:
        number = next(n for n, value in enumerate(values, 1) if type(value) is not kind)
        raise _unusable(path, f"`{name}` of row {number} is {values[number - 1]!a:.100}, not of type {kind.__name__}")
    limits = _NUMBERS.get(name)
    if limits is None:
        return np.array(values, object)
    if values and not limits.min <= min(values) <= max(values) <= limits.max:
        number = next(n for n, value in enumerate(values, 1) if not limits.min <= value <= limits.max)
        raise _unusable(path, f"`{name}` of row {number} is {values[number - 1]!s:.100}: no {name} is so large")
    return np.array(values, limits.dtype)


def _read_parquet(path: Path) -> pd.DataFrame:
    present = pq.read_schema(path).names if path.is_file() else pq.ParquetDataset(path).schema.names
    missing = [name for name in TYPES if name not in present and name != OPTIONAL]
    if missing:
        raise _unusable(path, f"the column `{missing[0]}` is missing; the file has {first_few(present)}")
    table = pq.read_table(path, columns=[name for name in TYPES if name in present])
    return pd.DataFrame({name: _converted(table[name].combine_chunks(), name, path) for name in table.column_names})


def _converted(column: pa.Array, name: str, path: Path) -> Any:
    """Return a Parquet column as an array; raise BadInput for nulls and other types."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    fits = pa.types.is_integer(kind) if name in _NUMBERS else pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not fits and len(column):
        raise _unusable(path, f"the column `{name}` has type {column.type}, not {TYPES[name].__name__}")
    if column.null_count:
        raise _unusable(path, f"the column `{name}` is null in {column.null_count} rows")
    if name not in _NUMBERS:
        return column.cast(pa.string()).to_numpy(zero_copy_only=False)
    return column.cast(pa.from_numpy_dtype(_NUMBERS[name].dtype)).to_numpy()


def _unusable(path: Path, seen: str) -> BadInput:
    return BadInput(f"The positions in {path} cannot be used", seen, _EXPECTED)


def write_rows(path: Path, rows: pd.DataFrame) -> None:
    """Write translated positions as JSON or Parquet, by the file's ending, readable by its owner alone.

    The file is written in full, or not at all.
    """
    aside = private_file(path.with_name(f".{path.name}.{uuid.uuid4().hex}.writing"))
    try:
        if path.suffix == ".parquet":
            rows.to_parquet(aside, index=False)
        else:
            lines = rows.to_json(orient="records", lines=True, force_ascii=False).splitlines() if len(rows) else []
            aside.write_text("[" + ",\n ".join(lines) + "]\n", encoding="utf-8")
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
