"""Restore groups' positions on the target to the values from before an earlier procedure committed positions."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.offsets.commit import commit_positions, held_positions, ledger_frame
from kafka_dr.actions.restore import RemainingRestore, changed_groups, planned_restore, refuse_living, refuse_unlike
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import PositionsRestored, PositionsToRestore
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class RestorePositions(ProcedureStep):
    """Write the approved positions on the target, only to groups without members; read every position back."""

    def act(self, procedure: Run, context: Any) -> PositionsRestored:
        """Write the plan's positions on the target, delete the plan's groups and positions; read all back.

        A position that is restored already is not written again. A position that another writer has changed is written
        only if the plan has `overwrites`.
        """
        procedure.progress.outcome_entry(Step.APPROVE_RESTORE)
        plan, rows = planned_restore(procedure)
        approval = procedure.approvals.require(Step.APPROVE_RESTORE, plan.digest) if plan.changes else None
        groups = changed_groups(rows)
        refuse_living(procedure, groups)
        before = held_positions(procedure, groups)
        remaining = RemainingRestore.of(rows, before, plan.overwrites)
        removed = sum(map(len, remaining.removals.values()))
        intent = PositionsToRestore(
            restores_positions=len(remaining.todo), deletes_groups=len(remaining.doomed), deletes_positions=removed
        )
        record_fact(procedure.authority, self.task_id, intent)
        procedure.authority.hold()
        errors = commit_positions(procedure, remaining.todo)
        procedure.authority.hold()
        refused = {
            group: answer
            for group, answer in procedure.systems.target.delete_groups(remaining.doomed).items()
            if answer != OK
        }
        procedure.authority.hold()
        refused |= {
            group: error.seen for group, error in procedure.systems.target.delete_positions(remaining.removals).items()
        }
        after = held_positions(procedure, groups)
        ledger = ledger_frame(remaining.wanted, before, after, errors)
        receipt = procedure.artifacts.save("restored", ledger)
        refuse_unlike(ledger, remaining, after, refused)
        return PositionsRestored(
            approval=approval,
            undone=plan.undone,
            written=len(remaining.todo),
            already=len(remaining.wanted) - len(remaining.todo),
            deleted=len(remaining.doomed),
            deleted_positions=removed,
            changed_since=sum(plan.since.values()) * (not plan.overwrites) + sum(remaining.since.values()),
            changed_since_planned=remaining.since,
            ledger=receipt,
        )
