"""Wait until the flow back has caught up with the new primary."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.failback.catch_up import CatchUp
from kafka_dr.actions.failback.resync_scope import refuse_replaced
from kafka_dr.procedure.entries import FlowBackCaughtUp
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class WaitForCatchUp(ProcedureStep):
    """Wait until the flow back's lag is so small that wait_for_zero_lag, with clients fenced, will end in time."""

    expires = True

    def act(self, procedure: Run, context: Any) -> FlowBackCaughtUp:
        """Wait up to `catch_up_seconds` until all records older than half of `zero_lag_seconds` are copied."""
        catch_up = CatchUp(procedure, self.task_id)
        caught_up = procedure.progress.wait(
            self.task_id, "The flow back catching up", catch_up.look, procedure.request.deadlines.catch_up_seconds
        )
        refuse_replaced(procedure)
        return caught_up
