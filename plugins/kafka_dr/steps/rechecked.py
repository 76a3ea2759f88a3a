"""The base of steps that check again what earlier steps proved."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.recheck import recheck_preconditions
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class RecheckedStep(ProcedureStep):
    """A step between zero lag and open_target; repeated after a crash, the step first rechecks earlier proofs."""

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Begin as every step does; then recheck earlier proofs, unless this is the step's first try."""
        is_repeated = procedure.progress.began(self.task_id) is not None
        super().begin(procedure, context, woken)
        if is_repeated and not woken:
            recheck_preconditions(procedure)
