"""The base of steps that look again at what was proven before them."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.recheck import recheck_preconditions
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class RecheckedStep(ProcedureStep):
    """A step between zero lag and the opening; begun again after a crash, it first checks earlier steps' results."""

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """As every step; then look again, unless this is its first beginning."""
        begun = procedure.progress.began(self.task_id) is not None
        super().begin(procedure, context, woken)
        if begun and not woken:
            recheck_preconditions(procedure)
