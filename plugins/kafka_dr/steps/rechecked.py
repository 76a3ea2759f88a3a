"""The base of steps that check again what earlier steps proved."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.recheck import recheck_preconditions
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class RecheckedStep(ProcedureStep):
    """A step between wait_for_zero_lag and open_target; if tried again, it first rechecks what earlier steps proved."""

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Take an epoch and write the intent; if the step is tried again, recheck what earlier steps proved.

        Args:
            woken: whether Airflow wakes the step after a wait; this is no new try, and nothing is rechecked.
        """
        is_repeated = procedure.progress.began(self.task_id) is not None
        super().begin(procedure, context, woken)
        if is_repeated and not woken:
            recheck_preconditions(procedure)
