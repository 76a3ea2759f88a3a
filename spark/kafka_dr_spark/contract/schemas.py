"""Load the JSON schemas of the jobs' input and output, and compare files and tables with these schemas."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

import pyarrow as pa

ARROW_TYPES = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "strings": pa.list_(pa.string()),
    "binaries": pa.list_(pa.binary()),
}
JSON_TYPES = {"string": str, "bool": bool, "int": int, "object": dict, "list": list}


class ContractBroken(ValueError):
    """An input file, table or setting of a job is unusable; the message names the file or setting and the fault."""


@lru_cache
def load_schema(name: str) -> dict[str, Any]:
    """Return the schema of an input or output file, by its name, such as ``positions``, from the folder schemas."""
    text = resources.files("kafka_dr_spark.contract").joinpath(f"schemas/{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@lru_cache
def column_names(name: str) -> list[str]:
    """Return the column names of a table's schema, in order."""
    return [column["name"] for column in load_schema(name)["columns"]]


@lru_cache
def arrow_schema(name: str) -> pa.Schema:
    """Return a table's schema as an Arrow schema."""
    return pa.schema([pa.field(c["name"], ARROW_TYPES[c["type"]], c["nullable"]) for c in load_schema(name)["columns"]])


def check_columns(name: str, seen: pa.Schema) -> None:
    """Raise ContractBroken unless ``seen`` has every column of the schema with its type; more columns are allowed."""
    for column in load_schema(name)["columns"]:
        index = seen.get_field_index(column["name"])
        if index < 0:
            raise ContractBroken(
                f"{name}: column {column['name']} is missing; present: {', '.join(seen.names)}; install the folders"
                " plugins and spark from the same release, because the Airflow task writes this file for the job"
            )
        if not _same_type(seen.field(index).type, ARROW_TYPES[column["type"]]):
            raise ContractBroken(
                f"{name}: column {column['name']} must be {column['type']}, is {seen.field(index).type}"
            )


def check_values(name: str, table: pa.Table | pa.RecordBatch) -> None:
    """Raise ContractBroken if a column holds nulls or values that the schema does not allow."""
    for column in load_schema(name)["columns"]:
        if column["name"] not in table.schema.names:
            continue
        values = table.column(column["name"])
        if not column["nullable"] and values.null_count:
            raise ContractBroken(f"{name}: column {column['name']} holds {values.null_count} nulls")
        if "values" in column:
            _check_listed(name, column, values)


def _check_listed(name: str, column: dict[str, Any], values: pa.Array | pa.ChunkedArray) -> None:
    not_allowed = sorted(set(values.unique().to_pylist()) - set(column["values"]))
    if not_allowed:
        raise ContractBroken(
            f"{name}: column {column['name']} holds {not_allowed[0]!r}; allowed: {', '.join(column['values'])}"
        )


def check_fields(name: str, document: Any) -> dict[str, Any]:
    """Return a JSON document with the schema's defaults added; raise ContractBroken if it does not fit the schema."""
    if not isinstance(document, dict):
        raise ContractBroken(f"{name}: must be a JSON object, is {type(document).__name__}")
    checked = dict(document)
    for field in load_schema(name)["fields"]:
        if field["name"] not in checked:
            if field["required"]:
                raise ContractBroken(f"{name}: field {field['name']} is missing")
            checked[field["name"]] = field["default"]
        _check_field(name, field, checked[field["name"]])
    return checked


def _check_field(name: str, field: dict[str, Any], value: Any) -> None:
    allowed = tuple(type(None) if part == "null" else JSON_TYPES[part] for part in field["type"].split(" or "))
    wrong_type = not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)
    if wrong_type:
        raise ContractBroken(f"{name}: field {field['name']} must be {field['type']}, is {type(value).__name__}")
    if "values" in field and value not in field["values"]:
        raise ContractBroken(f"{name}: field {field['name']} must be one of {', '.join(field['values'])}, is {value!r}")
    if "minimum" in field and value < field["minimum"]:
        raise ContractBroken(f"{name}: field {field['name']} must be at least {field['minimum']}, is {value}")


def _same_type(seen: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(seen):
        seen = seen.value_type
    return bool(seen.equals(wanted) or (pa.types.is_string(wanted) and pa.types.is_large_string(seen)))
