"""Export what only the target holds of the chosen topics, before anything is changed."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.re_replication.export import export_target
from kafka_dr.actions.re_replication.scope import require_approved
from kafka_dr.procedure.entries import TargetTopicsExported
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class ExportTargetTopics(ProcedureStep):
    """Write records that only the target holds, groups' positions and topic settings to private files."""

    def act(self, procedure: Run, context: Any) -> TargetTopicsExported:
        """Return receipts of the files; nothing is changed on the clusters."""
        require_approved(procedure)
        return export_target(procedure)
