"""Read which ranges of both clusters' logs are compared."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.reconciliation.bounds import set_bounds
from kafka_dr.procedure.entries import BoundsSet
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class SetBounds(ProcedureStep):
    """Read log starts, log ends and Connect's offsets, and set the bounds of the comparison per partition."""

    def act(self, procedure: Run, context: Any) -> BoundsSet:
        """Return the bounds; nothing is changed on any system."""
        return set_bounds(procedure)
