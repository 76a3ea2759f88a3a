"""The common plan of all pairs of a lost cluster, and what its approval approves for one pair's run.

A *part* is the plan of one pair's run of unplanned_failover.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.errors import ApprovalMissing, Contradiction
from kafka_dr.procedure.approvals import Approvals, PairState
from kafka_dr.procedure.entries import Approval, LostClusterPlanned, ProcedureClosed, SourceReturned, SourceToReopen
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedures import LOST_CLUSTER
from kafka_dr.vocabulary import Entry, Step

if TYPE_CHECKING:
    from kafka_dr.procedure.run import Run


@dataclass(frozen=True)
class CommonPlan:
    """The newest common plan of a run of lost_cluster.

    Attributes:
        digest: of the plan; the approval names it.
        document: the plan, with the fields of `LostClusterPlan`.
    """

    digest: str
    document: Mapping[str, Any]

    def part(self, procedure_id: str) -> Mapping[str, Any] | None:
        """Return the part of a pair's run, with the fields of `PairPart`; None if the plan has no such part."""
        return next((part for part in self.document["pairs"] if part["procedure_id"] == procedure_id), None)


def common_plan_of(common: Run) -> CommonPlan:
    """Return the newest plan of a run of lost_cluster.

    Raises:
        Refusal: the run has no plan yet.
        Contradiction: the plan's file is missing, or does not match its digest.
    """
    planned = common.progress.with_plan(common.progress.require(LostClusterPlanned))
    if digest_of(planned.whole_plan) != planned.plan_digest:
        raise Contradiction(
            "The common plan does not match its digest in the journal",
            f"the plan's SHA-256 in the journal of {common.id} is {planned.plan_digest}; the plan gives another",
            "Nothing acts under this plan: start a new run of lost_cluster.",
        )
    return CommonPlan(planned.plan_digest, planned.whole_plan)


class PartApprovals(Approvals):
    """Approvals of a pair's run: the approval of the common plan stands for that of the run's own plan.

    Args:
        run: the pair's run.
        common_id: procedure id of the run of lost_cluster.
        valid_seconds: maximum age of an approval, in seconds, as long as the pair's open_target is not done.
    """

    def __init__(self, run: Run, common_id: str, valid_seconds: float) -> None:
        super().__init__(run.identity.dag_id, run.identity.run_id, run.systems, run.progress, valid_seconds)
        self._run, self.common_id, self._valid = run, common_id, valid_seconds

    def starter(self) -> str:
        """Return the name of the user who started the run of lost_cluster; ApprovalMissing as `Approvals.starter`."""
        return self._of_common(self._common()).starter()

    def require(self, gate: str, digest: str) -> Approval:
        """Return the approval of the common plan for the gate of the run's own plan; other gates as usual.

        Raises:
            ApprovalMissing: the common plan is not approved, or does not have exactly this plan as the run's part.
        """
        if gate != Step.APPROVE_DATA_LOSS:
            return super().require(gate, digest)
        common = self._common()
        plan = common_plan_of(common)
        part = plan.part(self._run.id)
        if part is None or part["plan_digest"] != digest:
            raise ApprovalMissing(
                "The common plan does not have this plan as its part",
                f"plan of this run: {digest[:12]}; in the plan of {self.common_id}:"
                f" {part['plan_digest'][:12] if part else 'no part of this run'}",
                "What was approved is not what this run would do. When all runs of that plan have ended, start a new"
                " run of lost_cluster, or of unplanned_failover for this pair alone, which is approved by itself.",
            )
        return self._of_common(common).require(Step.APPROVE_LOST_CLUSTER, plan.digest)

    def covers_translation(self, digest: str) -> bool:
        """Whether the approved common plan showed exactly this translation to its approver."""
        part = common_plan_of(self._common()).part(self._run.id)
        return part is not None and (part["translation"] or {}).get("digest") == digest

    def wait_for_approval(self, digest: str) -> Approval:
        """Return the approval of the common plan; for `Progress.wait`.

        Raises:
            NotYet: the run of lost_cluster has not been approved yet.
            ApprovalMissing: it has ended without approval, or its approval is not one of this run's plan.
        """
        common = self._common()
        if (closed := common.progress.done(ProcedureClosed)) is not None:
            raise ApprovalMissing(
                "The common plan was not approved",
                f"{self.common_id} ended: {closed.outcome}, {closed.reason_for_outcome}",
                "This run has changed nothing, and ends. Correct the cause, then start a new run of lost_cluster.",
            )
        planned, approved = (
            common.journal.last(common.id, step, Entry.OUTCOME)
            for step in (Step.PLAN_LOST_CLUSTER, Step.APPROVE_LOST_CLUSTER)
        )
        if planned is None or approved is None or approved.sequence < planned.sequence:
            raise NotYet(f"{self.common_id} is {'not planned' if planned is None else 'not approved'} yet")
        return self.require(Step.APPROVE_DATA_LOSS, digest)

    def routes_clients(self) -> bool:
        """Whether the routing record is to lead to this run's target, by the common plan."""
        part = common_plan_of(self._common()).part(self._run.id)
        return part is None or bool(part["routes"])

    def pair_in(self, state: PairState) -> str | None:
        """Return the procedure id of another pair's run of the common plan that has come so far; None if none has."""
        parts = common_plan_of(self._common()).document["pairs"]
        others = [self._run.other(part["procedure_id"]) for part in parts if part["procedure_id"] != self._run.id]
        return next((run.id for run in others if run is not None and _is_in(run, state)), None)

    def _common(self) -> Run:
        common = self._run.other(self.common_id)
        if common is None or common.identity.dag_id != LOST_CLUSTER.dag_id:
            raise ApprovalMissing(
                f"{self.common_id} is no run of lost_cluster",
                "the journal has no such run that took its lease",
                "Leave the param common_plan out: lost_cluster alone sets it. Start a new run.",
            )
        return common

    def _of_common(self, common: Run) -> Approvals:
        # The pair's own progress counts: once its open_target is done, the approval's age no longer does.
        identity = common.identity
        return Approvals(identity.dag_id, identity.run_id, self._systems, self._progress, self._valid)


def _is_in(run: Run, state: PairState) -> bool:
    if state == "opened":
        return run.progress.began(Step.OPEN_TARGET) is not None and run.progress.done(SourceReturned) is None
    return bool(run.progress.facts(SourceToReopen))
