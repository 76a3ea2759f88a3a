"""Close a procedure whose own run does not run any more."""

from __future__ import annotations

from kafka_dr.steps.abort.abort_procedure import AbortedStep
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.vocabulary import Outcome


class CloseAborted(AbortedStep, CloseProcedure):
    """Write the evidence of the aborted procedure and release its lease; green when it was aborted."""

    green = Outcome.ABORTED
