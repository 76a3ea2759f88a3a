"""Plan a change of a flow; refuse patterns that do not do what was meant."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.flow_change.planned_change import make_change_plan
from kafka_dr.procedure.entries import ChangePlanned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class PlanChange(ProcedureStep):
    """Read the flow's connectors and the names on both clusters; write what the change would add and drop."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ChangePlanned:
        """Return the plan; nothing is changed."""
        plan = make_change_plan(procedure)
        return ChangePlanned(plan_file=procedure.artifacts.save_json("plan", plan.as_dict()), plan_digest=plan.digest)
