"""Find records of the returned cluster that were never replicated, and export them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from kafka_dr.actions.failback.returned_logs import ReturnedClusterLogs
from kafka_dr.actions.failback.stranded_input import write_inputs
from kafka_dr.actions.failback.stranded_search import (
    JOB,
    compares_whole_logs,
    figures_of,
    found_before_deleting,
    last_failover,
    taken_over,
)
from kafka_dr.actions.spark_jobs import run_spark_job
from kafka_dr.procedure.entries import (
    StrandedRecordsFound,
)
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class FindStrandedRecords(ProcedureStep):
    """Find records of the returned cluster that the cluster clients went to never got, and export them."""

    expires = True

    def act(self, procedure: Run, context: Any) -> StrandedRecordsFound:
        """Keep what was found before a deletion; else search, by records where nothing else proves the answer."""
        deleted = found_before_deleting(procedure)
        if deleted is not None:
            return taken_over(procedure, deleted)
        failover = last_failover(procedure)
        there = ReturnedClusterLogs.of(procedure, failover)
        if there.nothing_beyond and not compares_whole_logs(procedure):
            rows, digest, folder = there.untouched(), None, ""
        else:
            made = run_spark_job(
                procedure.reversed,
                context,
                JOB,
                lambda given: write_inputs(given, procedure, failover, there),
                "Spark did not look for stranded records",
            )
            rows = pd.read_parquet(made / "stranded_summary.parquet", dtype_backend="numpy_nullable").astype(
                {"partition": "int32"}
            )
            digest, folder = json.loads((made / "summary.json").read_text(encoding="utf-8"))["digest"], made.name
        return figures_of(procedure, failover, there, rows, folder, digest)
