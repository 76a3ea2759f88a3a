"""Steps of a drill that run whatever became of the steps before."""

from __future__ import annotations

from typing import Any

from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import JournaledStep, take_new_epoch


class AfterPasses(JournaledStep):
    """A step that needs no outcome of its predecessors."""

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Take a new epoch and write the intent."""
        take_new_epoch(procedure, woken)
        self.intend(procedure, context)
