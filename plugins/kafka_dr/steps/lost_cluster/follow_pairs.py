"""Wait until the unplanned failovers of all pairs have ended."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_dr.actions.loss.pairs import is_final, procedure_id_of, started_pairs, wait_for_ends
from kafka_dr.errors import Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.common_plan import common_plan_of
from kafka_dr.procedure.entries import PairsMoved, PairsNotMoved, PairsToFollow
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Outcome, Step

#: How long the pairs' runs may take after the approval, in seconds; each of their steps has a deadline of its own.
_MOVE_SECONDS = 21_600.0


class FollowPairs(ProcedureStep):
    """Wait for the end of each pair's run, which acts by the approval of the common plan; name those not completed."""

    def act(self, procedure: Run, context: Any) -> PairsMoved:
        """Return the evidence of all pairs' runs, if all have completed.

        Raises:
            Refusal: a run ended otherwise; the message and the journal name each.
        """
        procedure.approvals.require(Step.APPROVE_LOST_CLUSTER, common_plan_of(procedure).digest)
        names = [procedure_id_of(pair) for pair in started_pairs(procedure)]
        intent = PairsToFollow(follows_pairs=names)
        if intent not in procedure.progress.facts(PairsToFollow):
            record_fact(procedure.authority, self.task_id, intent)
        look = partial(wait_for_ends, procedure)
        closings = procedure.progress.wait(self.task_id, "the runs of all pairs to end", look, _MOVE_SECONDS)
        outcomes = {name: closed.outcome for name, closed in closings.items() if closed.outcome != Outcome.COMPLETED}
        if not outcomes:
            return PairsMoved(evidence_digests={name: closed.digest or "" for name, closed in closings.items()})
        final = all(is_final(outcome) for outcome in outcomes.values())
        record_fact(procedure.authority, self.task_id, PairsNotMoved(not_moved=outcomes, final=final))
        raise Refusal(
            "Not all pairs of the lost cluster were moved",
            "; ".join(f"{name}: {outcome}" for name, outcome in outcomes.items()),
            "Pairs that completed stay moved. A run that failed continues: clear its red step as its page says, then"
            " clear follow_pairs with its downstream tasks. For a run that returned or was refused, start a new run of"
            " unplanned_failover.",
        )
