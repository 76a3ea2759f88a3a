"""Compare the records of both clusters between the bounds."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.reconciliation.comparison import compare_records
from kafka_dr.procedure.entries import RecordsCompared
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class CompareRecords(ProcedureStep):
    """Run the Spark job that compares both clusters by content, and store counts, samples and lists."""

    def act(self, procedure: Run, context: Any) -> RecordsCompared:
        """Return how the clusters differ; differences are a result, not a failure."""
        return compare_records(procedure, context)
