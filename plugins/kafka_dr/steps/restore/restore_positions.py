"""Put positions back to what stood there before."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.offsets.commit import commit_positions, held_positions, ledger_frame
from kafka_dr.actions.restore import Left, changed_groups, planned_restore, refuse_living, refuse_unlike
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    PositionsRestored,
    PositionsToRestore,
)
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class RestorePositions(ProcedureStep):
    """Write what was approved to groups at rest, and read every position back."""

    def act(self, procedure: Run, context: Any) -> PositionsRestored:
        """Restore positions; skip those done by an earlier try, and leave alone those changed since the plan."""
        procedure.progress.outcome_entry(Step.APPROVE_RESTORE)
        plan, rows = planned_restore(procedure)
        approval = procedure.approvals.require(Step.APPROVE_RESTORE, plan.digest) if plan.changes else None
        groups = changed_groups(rows)
        refuse_living(procedure, groups)
        held = held_positions(procedure, groups)
        left = Left.of(rows, held, plan.overwrites)
        intent = PositionsToRestore(restores_positions=len(left.todo), deletes_groups=len(left.doomed))
        record_fact(procedure.authority, self.task_id, intent)
        procedure.authority.hold()
        errors = commit_positions(procedure, left.todo)
        procedure.authority.hold()
        refused = {
            group: word for group, word in procedure.systems.target.delete_groups(left.doomed).items() if word != OK
        }
        after = held_positions(procedure, groups)
        ledger = ledger_frame(left.wanted, held, after, errors)
        receipt = procedure.artifacts.save("restored", ledger)
        refuse_unlike(ledger, left.doomed, after, refused)
        return PositionsRestored(
            approval=approval,
            undone=plan.undone,
            written=len(left.todo),
            already=len(left.wanted) - len(left.todo),
            deleted=len(left.doomed),
            changed_since=sum(plan.since.values()) * (not plan.overwrites) + sum(left.since.values()),
            changed_since_planned=left.since,
            ledger=receipt,
        )
