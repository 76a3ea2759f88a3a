"""Close the procedure that a run of abort_procedure has aborted."""

from __future__ import annotations

from kafka_dr.steps.abort.abort_procedure import AbortedStep
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.vocabulary import Outcome


class CloseAborted(AbortedStep, CloseProcedure):
    """Write the aborted procedure's evidence and release its lease; the task is green if the outcome is `aborted`."""

    green = Outcome.ABORTED
