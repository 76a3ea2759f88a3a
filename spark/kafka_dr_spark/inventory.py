"""The inventory of what is lost: rows by partition, groups that had gone further, and the figures that a person approves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kafka_dr_spark.answers import SOURCE, TARGET
from kafka_dr_spark.schemas import arrow_schema, column_names
from kafka_dr_spark.tagging import unpack

#: Columns that say where something was written, not what is lost.
_PLACES = ("file", "sha256")


class Inventory(NamedTuple):
    """What is lost.

    Attributes:
        loss: rows of the partitions that lose or may lose records, in order.
        ahead: groups' positions above what was replicated.
        read: records read to find out, by side.
        unknown: partitions that no sample ever saw.
    """

    loss: pa.Table
    ahead: pa.Table
    read: dict[str, int]
    unknown: int


def write_inventory(made: Iterable[bytes], given: Path, folder: Path) -> Inventory:
    """Write loss.parquet and ahead.parquet.

    Args:
        made: packed rows of the tasks.
        given: the job's input, with the groups' positions.
        folder: where to write.
    """
    rows = pa.concat_tables([unpack(one) for one in made]).sort_by([("topic", "ascending"), ("partition", "ascending")])
    loss = rows.filter(rows["losing"]).select(column_names("loss"))
    ahead = positions_ahead(loss, given)
    pq.write_table(loss, folder / "loss.parquet")
    pq.write_table(ahead, folder / "ahead.parquet")
    read = {side: pc.sum(rows[f"read_{side}"]).as_py() or 0 for side in (SOURCE, TARGET)}
    return Inventory(loss, ahead, read, pc.sum(pc.is_null(rows["sampled_at"])).as_py() or 0)


def positions_ahead(loss: pa.Table, given: Path) -> pa.Table:
    """Return the groups' positions above what was certainly replicated: they had consumed what may never have reached the target."""
    held = ds.dataset(given / "positions.parquet", format="parquet").to_table(columns=["group", "topic", "partition", "position"])
    both = held.join(loss.select(["topic", "partition", "from_offset"]), ["topic", "partition"], join_type="inner")
    both = both.append_column("beyond", pc.subtract(both["position"], both["from_offset"]))
    found = both.filter(pc.greater(both["beyond"], 0)).sort_by([("group", "ascending"), ("topic", "ascending"), ("partition", "ascending")])
    return found.select(column_names("ahead")).cast(arrow_schema("ahead"))


def summarise(inventory: Inventory, partitions: int, input_digest: str) -> dict[str, Any]:
    """Return the figures of an inventory."""
    loss = inventory.loss
    listed = loss["records"].null_count == 0
    certain = pc.max_element_wise(pc.subtract(loss["certain_to"], loss["from_offset"]), 0, skip_nulls=False)
    ends = pc.max_element_wise(pc.subtract(loss["possible_to"], loss["from_offset"]), 0, skip_nulls=False)
    rate = pc.sum(loss["records_per_second"]).as_py()
    return {
        "digest": loss_digest(loss),
        "input_digest": input_digest,
        "partitions": partitions,
        "losing": len(loss),
        "unknown": inventory.unknown,
        "certain": _total(loss.filter(pc.is_valid(loss["certain_to"]))["records"]) if listed else _total(certain),
        "possible": None if ends.null_count else _total(ends),
        "records": _total(loss["records"]) if listed else None,
        "bytes": _total(loss["bytes"]) if listed else None,
        "records_per_second": None if rate is None else round(rate),
        "groups_ahead": len(pc.unique(inventory.ahead["group"])),
        "positions_ahead": len(inventory.ahead),
        "records_read": inventory.read,
    }


def _total(values: pa.ChunkedArray) -> int:
    """Return the sum; of nothing it is 0."""
    return pc.sum(values).as_py() or 0


def loss_digest(loss: pa.Table) -> str:
    """Return the SHA-256 of the rows as canonical JSON lists, a line each; what a second run writes elsewhere makes no difference."""
    digest = hashlib.sha256()
    for row in loss.drop_columns(list(_PLACES)).to_pylist():
        digest.update(json.dumps(list(row.values()), ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()
