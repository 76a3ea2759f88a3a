"""Run the Spark job reconcile_clusters on the bounds of a comparison, and read its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.spark_jobs import run_spark_job, write_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import BoundsSet, RecordsCompared
from kafka_dr.procedure.run import Run

JOB = "reconcile_clusters"
#: Partitions with differences that the evidence names; all stand in the job's output.
_NAMED = 100
#: Deadline of a Spark task: _READ_SECONDS, and one second more per _READ_A_SECOND offsets of both whole logs.
_READ_SECONDS, _READ_A_SECOND = 120, 20_000
_KINDS = ("missing", "extra", "altered", "repeated")
_COUNTS = (
    *("partitions", "differing", "source_records", "target_records", "equal", *_KINDS, "moved", "behind", "older"),
    *("cut", "superseded", "listed"),
)


def compare_records(procedure: Run, context: Any) -> RecordsCompared:
    """Return how both clusters differ between the bounds that set_bounds read; the lists stand beside the evidence.

    Raises:
        SparkFailed: the job ended without a result.
    """
    bounds = procedure.progress.require(BoundsSet)
    result = run_spark_job(
        procedure,
        context,
        JOB,
        lambda folder: write_inputs(folder, procedure, bounds),
        "Spark did not complete the comparison of the clusters",
    )
    summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
    rows = pd.read_parquet(result / "reconciled.parquet", dtype_backend="numpy_nullable")
    return RecordsCompared(
        **{name: summary[name] for name in _COUNTS},
        partitions_that_differ=differing_rows(rows),
        folder=procedure.artifacts.receipt_of(result),
        digest=summary["digest"],
    )


def differing_rows(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the first partitions with differences, with counts and samples."""
    differing = rows[(rows[list(_KINDS)] > 0).any(axis=1)].head(_NAMED)
    columns = ["topic", "partition", *_KINDS, "file", "samples"]
    records: list[dict[Any, Any]] = differing[columns].astype(object).to_dict("records")
    return [{**row, "samples": json.loads(row["samples"])} for row in records]


def write_inputs(folder: Path, procedure: Run, bounds: BoundsSet) -> dict[str, Any]:
    """Write the job's input files to `folder`, and return the fields of its job.json.

    Log starts are read again, as retention may have deleted records since the bounds were set.
    """
    logs, judged = (procedure.artifacts.load(receipt) for receipt in (bounds.bounds, bounds.judged))
    here = [TopicPartition(t, int(p)) for t, p in zip(logs["topic"], logs["partition"], strict=True)]
    there = [TopicPartition(t, int(p)) for t, p in zip(logs["target_topic"], logs["partition"], strict=True)]
    exists = logs["target_start"].notna()
    starts = procedure.systems.source.starts(here)
    starts_there = procedure.systems.target.starts([tp for tp, held in zip(there, exists, strict=True) if held])
    for side, end, now in (
        ("source", "cut_off", [starts.get(tp) for tp in here]),
        ("target", "boundary", [starts_there.get(tp) for tp in there]),
    ):
        judged[f"{side}_low"] = _raised(judged[f"{side}_low"], now, judged[f"{side}_high"])
        logs[f"{side}_start"] = _raised(logs[f"{side}_start"], now, logs[end])
    write_frame(folder, "bounds", logs.astype({"partition": "int32"}))
    write_frame(folder, "judged", judged.astype({"partition": "int32"}))
    # A range may be widened up to the whole log.
    whole = sum(int((judged[f"{side}_high"] - judged[f"{side}_low"]).sum()) for side in ("source", "target"))
    return {
        "isolation": bounds.isolation,
        "source_readable": True,
        "deadline_seconds": _READ_SECONDS + whole // _READ_A_SECOND,
        "export_keys": procedure.topology.exports.keys,
    }


def _raised(offsets: pd.Series, starts: list[int | None], ends: pd.Series) -> pd.Series:
    """Return offsets raised to log starts, at most to the ends of what is compared; null without a log."""
    raised = [
        None if start is None or pd.isna(end) else min(max(offset, start), end)
        for offset, start, end in zip(offsets, starts, ends, strict=True)
    ]
    return pd.Series(raised, offsets.index, "Int64")
