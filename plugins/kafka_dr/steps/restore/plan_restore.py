"""Plan which groups' positions restore_group_offsets writes on the target."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.replication.group_sync import group_sync_runs
from kafka_dr.actions.restore import (
    DELETE,
    LEFT,
    REMOVE,
    WRITE,
    by_group_of,
    changed_groups,
    changed_since,
    compare_positions,
    digest_of_rows,
    groups_with,
    refuse_living,
    undone_procedure,
)
from kafka_dr.domain.offsets.restore_plan import RestorePlan
from kafka_dr.procedure.binding import terms_of
from kafka_dr.procedure.entries import RestorePlanned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Step


class PlanRestore(ProcedureStep):
    """Compare the groups' positions on the target before the undone commit with the present ones; write the plan."""

    expires = True

    def act(self, procedure: Run, context: Any) -> RestorePlanned:
        """Return the plan, with a row for every position of the groups; nothing is changed on the target."""
        undone = undone_procedure(procedure)
        overwrites = bool(procedure.request.choices.get("overwrite_later_commits"))
        rows = compare_positions(procedure, undone, overwrites)
        refuse_living(procedure, changed_groups(rows))
        plan = RestorePlan(
            procedure_id=procedure.id,
            cluster=procedure.request.target,
            reason=procedure.request.reason,
            undone=undone.id,
            opened=undone.progress.began(Step.OPEN_TARGET) is not None,
            rows=digest_of_rows(rows),
            writes=int((rows["action"] == WRITE).sum()),
            raised=int(rows.loc[rows["action"] == WRITE, "before"].gt(rows["now"]).fillna(False).sum()),
            deletes=tuple(groups_with(rows, DELETE)),
            since=changed_since(rows),
            left=by_group_of(rows, LEFT),
            removes=by_group_of(rows, REMOVE),
            overwrites=overwrites,
            group_sync=group_sync_runs(procedure),
            cool_down=procedure.progress.cool_down,
            terms=terms_of(procedure),
        )
        receipt = procedure.artifacts.save("restore", rows)
        stored = procedure.artifacts.save_json("plan", plan.as_dict())
        return RestorePlanned(plan_file=stored, plan_digest=plan.digest, rows=receipt)
