"""Write the common plan of all pairs of a lost cluster, once each pair's run has assessed its loss."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_dr.actions.loss.pairs import plan_of_pairs, wait_for_assessments
from kafka_dr.procedure.entries import LostClusterPlanned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

#: How long all pairs may take to confirm the loss and to assess it, in seconds; their Spark jobs share the machine.
_ASSESS_SECONDS = 1_800.0


class PlanLostCluster(ProcedureStep):
    """Wait for the plan of each pair's run; refuse what two of them must not do both; write the common plan."""

    expires = True

    def act(self, procedure: Run, context: Any) -> LostClusterPlanned:
        """Return the common plan, which names the digest of each pair's plan; nothing is changed on a cluster."""
        look = partial(wait_for_assessments, procedure)
        runs = procedure.progress.wait(self.task_id, "the loss of every pair to be assessed", look, _ASSESS_SECONDS)
        plan = plan_of_pairs(procedure, runs)
        stored = procedure.artifacts.save_json("plan", plan.as_dict())
        return LostClusterPlanned(plan_file=stored, plan_digest=plan.digest)
