"""Write the loss inventory: partitions that lose records, groups ahead of replication, figures to approve.

`from_offset` of a partition is the source offset below which all acknowledged records are on the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kafka_dr_spark.contract.digests import rows_digest
from kafka_dr_spark.contract.private_files import private_file
from kafka_dr_spark.contract.schemas import arrow_schema, column_names
from kafka_dr_spark.contract.task_rows import unpack_table
from kafka_dr_spark.export.place import STRANDED, UNCOMMITTED
from kafka_dr_spark.translation.case import SOURCE, TARGET

#: Columns with names and digests of written files, which are left out of the digest of the loss.
_PLACES = ("file", "sha256", "uncommitted_sha256")


class Inventory(NamedTuple):
    """The loss inventory.

    Attributes:
        loss: rows of the partitions that lose or may lose records, sorted by topic and partition.
        ahead: one row per group and partition whose position lies above `from_offset`.
        rereads: one row per group, with the bound of its re-reads.
        read: records read for the assessment, by cluster (SOURCE, TARGET).
        unknown: number of partitions that the flight recorder never sampled.
        not_stored: why the store did not take files; one line per partition whose records are in no file.
    """

    loss: pa.Table
    ahead: pa.Table
    rereads: pa.Table
    read: dict[str, int]
    unknown: int
    not_stored: tuple[str, ...] = ()


def write_inventory(made: Iterable[bytes], given: Path, folder: Path) -> Inventory:
    """Write loss.parquet, ahead.parquet and rereads.parquet; return the rows of these files.

    Args:
        made: packed rows of the tasks.
        given: the job's input folder, with the groups' positions.
        folder: output folder.
    """
    rows = pa.concat_tables([unpack_table(packed) for packed in made]).sort_by(
        [("topic", "ascending"), ("partition", "ascending")]
    )
    loss = rows.filter(rows["losing"]).select(column_names("loss"))
    ahead = positions_ahead(loss, given)
    pq.write_table(loss, private_file(folder / "loss.parquet"))
    rereads = rereads_by_group(rows)
    pq.write_table(ahead, private_file(folder / "ahead.parquet"))
    pq.write_table(rereads, private_file(folder / "rereads.parquet"))
    read = {side: pc.sum(rows[f"read_{side}"]).as_py() or 0 for side in (SOURCE, TARGET)}
    not_stored = tuple(rows["not_stored"].drop_null().to_pylist())
    return Inventory(loss, ahead, rereads, read, pc.sum(pc.is_null(rows["sampled_at"])).as_py() or 0, not_stored)


def listed_files(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Yield folder and name of each file of lost records that counts."""
    for row in inventory.loss.select(list(_PLACES)).to_pylist():
        for kind, digest in ((STRANDED, row["sha256"]), (UNCOMMITTED, row["uncommitted_sha256"])):
            if digest is not None:
                yield kind, row["file"]


def positions_ahead(loss: pa.Table, given: Path) -> pa.Table:
    """Return the groups' positions above ``from_offset``, because the target may lack records that they have read."""
    positions = ds.dataset(given / "positions.parquet", format="parquet").to_table(
        columns=["group", "topic", "partition", "position"]
    )
    joined = positions.join(
        loss.select(["topic", "partition", "from_offset"]), ["topic", "partition"], join_type="inner"
    )
    joined = joined.append_column("beyond", pc.subtract(joined["position"], joined["from_offset"]))
    ahead = joined.filter(pc.greater(joined["beyond"], 0)).sort_by(
        [("group", "ascending"), ("topic", "ascending"), ("partition", "ascending")]
    )
    return ahead.select(column_names("ahead")).cast(arrow_schema("ahead"))


def rereads_by_group(rows: pa.Table) -> pa.Table:
    """Return one row per group: its highest bound of re-reads (records), and three counts of its positions.

    The counts are: all positions, positions without a bound, and positions from which the group may have read on after
    they were recorded.

    Args:
        rows: rows of the tasks, one per partition, with the groups' bounds as lists.
    """
    flat = pa.table(
        {
            "group": pc.list_flatten(rows["groups"]),
            "bound": pc.list_flatten(rows["bounds"]),
            "moved": pc.cast(pc.list_flatten(rows["moved"]), pa.int64()),
        }
    )
    by_group = (
        flat.group_by("group")
        .aggregate([("bound", "max"), ("group", "count"), ("bound", "count"), ("moved", "sum")])
        .sort_by("group")
    )
    columns = [
        by_group["group"],
        by_group["bound_max"],
        by_group["group_count"],
        pc.subtract(by_group["group_count"], by_group["bound_count"]),
        by_group["moved_sum"],
    ]
    return pa.table(columns, names=column_names("rereads")).cast(arrow_schema("rereads"))


def summarise_inventory(inventory: Inventory, partitions: int, input_digest: str) -> dict[str, Any]:
    """Return the content of summary.json: partitions, records lost, their times (ms), groups ahead, and re-reads.

    Of partitions that were read, records are counted; of the others (`unread`), their offsets. `records` and the
    figures about them are those of the partitions that were read; None if there is loss and no partition was read.
    """
    loss = inventory.loss
    unread = loss.filter(pc.is_null(loss["records"]))
    listed = len(unread) < len(loss) or not len(loss)
    certain = pc.max_element_wise(pc.subtract(unread["certain_to"], unread["from_offset"]), 0, skip_nulls=False)
    ends = pc.max_element_wise(pc.subtract(loss["possible_to"], loss["from_offset"]), 0, skip_nulls=False)
    rate = pc.sum(loss["records_per_second"]).as_py()
    return {
        "digest": loss_digest(loss),
        "input_digest": input_digest,
        "partitions": partitions,
        "losing": len(loss),
        "unknown": inventory.unknown,
        "unread": len(unread),
        "certain": sum_of(loss.filter(pc.is_valid(loss["certain_to"]))["records"]) + sum_of(certain),
        "possible": None if ends.null_count else sum_of(ends),
        "records": sum_of(loss["records"]) if listed else None,
        "bytes": sum_of(loss["bytes"]) if listed else None,
        "first_at": pc.min(loss["first_at"]).as_py(),
        "last_at": pc.max(loss["last_at"]).as_py(),
        "aborted": sum_of(loss["aborted"]) if listed else None,
        "undecided": sum_of(loss["undecided"]) if listed else None,
        "records_per_second": None if rate is None else round(rate),
        "groups_ahead": len(pc.unique(inventory.ahead["group"])),
        "positions_ahead": len(inventory.ahead),
        "rereads": {
            "bound": pc.max(inventory.rereads["bound"]).as_py(),
            **{name: sum_of(inventory.rereads[name]) for name in ("positions", "unknown", "may_have_moved")},
        },
        "records_read": inventory.read,
        "not_exported": len(inventory.not_stored),
    }


def sum_of(values: pa.ChunkedArray) -> int:
    """Return the sum of a column, 0 if it has no values."""
    return pc.sum(values).as_py() or 0


def loss_digest(loss: pa.Table) -> str:
    """Return the SHA-256 of the rows of loss.parquet, without the columns on the written files of lost records."""
    return rows_digest(loss.drop_columns(list(_PLACES)))
