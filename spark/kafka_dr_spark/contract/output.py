"""Write a job's output to a scratch folder and rename it, so that the output exists in full or not at all."""

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
from kafka_dr_spark.contract.private_files import private_file, private_folder
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema, check_fields
from kafka_dr_spark.contract.task_rows import unpack_table
from kafka_dr_spark.translation.task import REPORT, ROW

MOST_LISTED = 100


class AlreadyThere(ContractBroken):
    """The output folder exists already, but was made from another input or is not the finished output of a job."""


def is_done(output: Path, input_digest: str) -> bool:
    """Return whether the output folder exists and was made from the input with this digest.

    Raises:
        AlreadyThere: the output was made from another input, or is not the finished output of a job.
    """
    if not output.exists():
        return False
    try:
        present_digest = json.loads((output / "summary.json").read_text(encoding="utf-8"))["input_digest"]
    except (OSError, ValueError, KeyError, TypeError):
        raise AlreadyThere(
            f"{output} exists, but is not the finished output of a job; move {output} away or choose another --output"
        ) from None
    if present_digest != input_digest:
        raise AlreadyThere(
            f"{output} holds the output of another input (digest {present_digest[:12]}, not {input_digest[:12]}); move"
            f" {output} away or choose another --output"
        )
    return True


def scratch_folder(output: Path) -> Path:
    """Create an empty folder beside the output and return its path; `publish_output` renames the folder later."""
    folder = output.with_name(f"{output.name}.writing-{uuid.uuid4()}")
    return private_folder(folder)


def write_rows(finished: Iterable[bytes], folder: Path) -> list[dict[str, Any]]:
    """Write the translation rows to translation.parquet; return one report per partition, sorted by partition.

    A report has the partition's topic and number, and its figures for summary.json.

    Args:
        finished: packed output of the tasks: translation rows and report rows, distinguished by column ``kind``.
        folder: scratch folder, which becomes the output folder.
    """
    reports: list[dict[str, Any]] = []
    with pq.ParquetWriter(private_file(folder / "translation.parquet"), arrow_schema("translation")) as file:
        for table in map(unpack_table, finished):
            file.write_table(table.filter(pc.equal(table["kind"], ROW)).drop_columns("kind"))
            reports += _reports(table.filter(pc.equal(table["kind"], REPORT)))
    return sorted(reports, key=lambda report: (report["topic"], report["partition"]))


def _reports(rows: pa.Table) -> list[dict[str, Any]]:
    report_rows = rows.select(["topic", "partition", "evidence"]).to_pylist()
    return [
        {"topic": row["topic"], "partition": row["partition"], **json.loads(row["evidence"])} for row in report_rows
    ]


def publish_output(folder: Path, output: Path, summary: dict[str, Any], shape: str = "summary") -> None:
    """Write summary.json into the scratch folder and rename the folder to the output.

    If another process has meanwhile made the output from the same input, the scratch folder is deleted.

    Args:
        folder: scratch folder.
        output: path of the output folder.
        summary: content of summary.json.
        shape: name of the schema that the summary must fit.

    Raises:
        AlreadyThere: another process has meanwhile made the output from another input.
    """
    check_fields(shape, summary)
    text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
    private_file(folder / "summary.json").write_text(text, encoding="utf-8")
    try:
        folder.rename(output)
    except OSError:
        if not is_done(output, summary["input_digest"]):
            raise
        shutil.rmtree(folder)


def summarise_reports(reports: list[dict[str, Any]], input_digest: str) -> dict[str, Any]:
    """Return the content of summary.json for a translation, merged from the reports of its partitions."""
    with_reads = [report for report in reports if "read" in report]
    bounds = [report["bound_max"] for report in reports if report["bound_max"] is not None]
    classes = sum((Counter(report["classes"]) for report in reports), Counter())
    unknown = sum(report["bound_unknown"] for report in reports)
    return {
        "digest": translation_digest((report["topic"], report["partition"], report["digest"]) for report in reports),
        "input_digest": input_digest,
        "positions": sum(report["positions"] for report in reports),
        "exact": sum(report["exact"] for report in reports),
        "classes": dict(sorted(classes.items())),
        "bound_max": None if unknown else max(bounds, default=0),
        "bound_unknown": unknown,
        "records_read": {side: sum(report["read"][side] for report in with_reads) for side in ("source", "target")},
        "records_read_by_partition": _most_read(with_reads),
        "refused": _refused(reports),
        "refused_count": classes["REFUSED"],
        "holes": _listed(with_reads, "holes"),
        "cut": _listed(with_reads, "cut"),
        "repeats": {_name(report): report["repeats"] for report in with_reads if report["repeats"]},
        "discarded": {_name(report): report["discarded"] for report in with_reads if report["discarded"]},
    }


def _name(report: dict[str, Any]) -> str:
    return f"{report['topic']}-{report['partition']}"


def _most_read(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(reports, key=lambda report: (-sum(report["read"].values()), report["topic"], report["partition"]))
    return [
        {"topic": report["topic"], "partition": report["partition"], **report["read"]}
        for report in ordered[:20]
        if any(report["read"].values())
    ]


def _refused(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    key_columns = ("topic", "partition")
    rows = [
        {
            "group": row["group"],
            **{name: report[name] for name in key_columns},
            "position": row["position"],
            "reason": row["evidence"],
        }
        for report in reports
        for row in report["refused"]
    ]
    return rows[:MOST_LISTED]


def _listed(reports: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [
        {"topic": report["topic"], "partition": report["partition"], **finding}
        for report in reports
        for finding in report[what]
    ]
