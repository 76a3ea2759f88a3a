"""Writes a job's output: aside first, then renamed, so that it is there whole or not at all."""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_dr_spark.contract.digests import translation_digest
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema, check_fields
from kafka_dr_spark.contract.task_rows import unpack_table
from kafka_dr_spark.translation.task import REPORT, ROW

MOST_LISTED = 100


class AlreadyThere(ContractBroken):
    """The output exists and was made from another input."""


def is_done(output: Path, input_digest: str) -> bool:
    """Say whether this very output exists already; AlreadyThere if one of another input does."""
    if not output.exists():
        return False
    try:
        seen = json.loads((output / "summary.json").read_text(encoding="utf-8"))["input_digest"]
    except (OSError, ValueError, KeyError, TypeError):
        raise AlreadyThere(
            f"{output} exists and is no finished translation; move it away or choose another --output"
        ) from None
    if seen != input_digest:
        raise AlreadyThere(
            f"{output} holds the translation of another input (digest {seen[:12]}, not {input_digest[:12]})"
        )
    return True


def scratch_folder(output: Path) -> Path:
    """Return a fresh folder beside the output to write into."""
    folder = output.with_name(f"{output.name}.writing-{uuid.uuid4()}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    return folder


def write_rows(finished: Iterable[bytes], folder: Path) -> list[dict[str, Any]]:
    """Write the rows as translation.parquet and return the reports, each with its topic and partition.

    Args:
        finished: packed rows and reports, told apart by ``kind``.
        folder: where to write.
    """
    reports: list[dict[str, Any]] = []
    with pq.ParquetWriter(folder / "translation.parquet", arrow_schema("translation")) as file:
        for table in map(unpack_table, finished):
            file.write_table(table.filter(pc.equal(table["kind"], ROW)).drop_columns("kind"))
            reports += _reports(table.filter(pc.equal(table["kind"], REPORT)))
    return sorted(reports, key=lambda one: (one["topic"], one["partition"]))


def _reports(rows: pa.Table) -> list[dict[str, Any]]:
    told = rows.select(["topic", "partition", "evidence"]).to_pylist()
    return [{"topic": row["topic"], "partition": row["partition"], **json.loads(row["evidence"])} for row in told]


def publish_output(folder: Path, output: Path, summary: dict[str, Any], shape: str = "summary") -> None:
    """Write the summary last and put the folder in its place; another copy of this job may have been faster."""
    check_fields(shape, summary)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    try:
        folder.rename(output)
    except OSError:
        if not is_done(output, summary["input_digest"]):
            raise
        shutil.rmtree(folder)


def summarise_reports(reports: list[dict[str, Any]], input_digest: str) -> dict[str, Any]:
    """Put the partitions' reports together."""
    read = [one for one in reports if "read" in one]
    bounds = [one["bound_max"] for one in reports if one["bound_max"] is not None]
    classes = sum((Counter(one["classes"]) for one in reports), Counter())
    unknown = sum(one["bound_unknown"] for one in reports)
    return {
        "digest": translation_digest((one["topic"], one["partition"], one["digest"]) for one in reports),
        "input_digest": input_digest,
        "positions": sum(one["positions"] for one in reports),
        "exact": sum(one["exact"] for one in reports),
        "classes": dict(sorted(classes.items())),
        "bound_max": None if unknown else max(bounds, default=0),
        "bound_unknown": unknown,
        "records_read": {side: sum(one["read"][side] for one in read) for side in ("source", "target")},
        "records_read_by_partition": _most_read(read),
        "refused": _refused(reports),
        "refused_count": classes["REFUSED"],
        "holes": _listed(read, "holes"),
        "cut": _listed(read, "cut"),
        "repeats": {_name(one): one["repeats"] for one in read if one["repeats"]},
        "discarded": {_name(one): one["discarded"] for one in read if one["discarded"]},
    }


def _name(report: dict[str, Any]) -> str:
    return f"{report['topic']}-{report['partition']}"


def _most_read(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(reports, key=lambda one: (-sum(one["read"].values()), one["topic"], one["partition"]))
    return [
        {"topic": one["topic"], "partition": one["partition"], **one["read"]}
        for one in ordered[:20]
        if any(one["read"].values())
    ]


def _refused(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    place = ("topic", "partition")
    rows = [
        {
            "group": row["group"],
            **{name: one[name] for name in place},
            "position": row["position"],
            "reason": row["evidence"],
        }
        for one in reports
        for row in one["refused"]
    ]
    return rows[:MOST_LISTED]


def _listed(reports: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [{"topic": one["topic"], "partition": one["partition"], **found} for one in reports for found in one[what]]
