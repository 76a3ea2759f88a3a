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
from kafka_dr.procedure.entries import StrandedRecordsFound
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class FindStrandedRecords(ProcedureStep):
    """Find records of the returned cluster that never reached the new primary, and export them."""

    expires = True

    def act(self, procedure: Run, context: Any) -> StrandedRecordsFound:
        """Return the search's figures, made by Spark unless log ends alone prove that no record is stranded.

        After an earlier run has deleted topics on the returned cluster, that run's result is returned.
        """
        earlier_result = found_before_deleting(procedure)
        if earlier_result is not None:
            return taken_over(procedure, earlier_result)
        failover = last_failover(procedure)
        returned_logs = ReturnedClusterLogs.of(procedure, failover)
        if returned_logs.nothing_beyond and not compares_whole_logs(procedure):
            rows, digest, folder = returned_logs.untouched(), None, ""
        else:
            result = run_spark_job(
                procedure.reversed,
                context,
                JOB,
                lambda input_folder: write_inputs(input_folder, procedure, failover, returned_logs),
                "Spark did not complete the search for stranded records",
            )
            rows = pd.read_parquet(result / "stranded_summary.parquet", dtype_backend="numpy_nullable").astype(
                {"partition": "int32"}
            )
            digest, folder = json.loads((result / "summary.json").read_text(encoding="utf-8"))["digest"], result.name
        return figures_of(procedure, failover, returned_logs, rows, folder, digest)
