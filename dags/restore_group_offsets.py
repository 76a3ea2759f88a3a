"""# restore_group_offsets

Undo a commit: give the groups on `target` back the positions that they held there before a procedure committed its own.

**When to run.** After a procedure from `source` to `target` that committed positions and returned, when those shall not
stay; or to take back positions that turned out to be wrong, while nobody reads there. It moves no client, and changes
nothing on `source`.

**Before you start.** Stop the groups' consumers on `target`: a group with members is never touched. Know who will
approve: it cannot be you. What somebody committed since is left as it is and named, unless `overwrite_later_commits`
says otherwise.

**If it stops.** Before `restore_positions` nothing was changed, and the run ends as refused. After that clear the red
step: it goes on from where it stopped. The page `runbooks/restore_group_offsets.md` has one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, procedure_form
from kafka_dr.steps.restore.approve_restore import ApproveRestore
from kafka_dr.steps.restore.plan_restore import PlanRestore
from kafka_dr.steps.restore.restore_positions import RestorePositions
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure

with DAG(
    "restore_group_offsets",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("restore_group_offsets"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    open_procedure = OpenProcedure(task_id="open_procedure")
    plan_restore = PlanRestore(task_id="plan_restore")
    approve_restore = ApproveRestore(task_id="approve_restore")
    restore_positions = RestorePositions(task_id="restore_positions")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    chain(open_procedure, plan_restore, approve_restore, restore_positions, close_procedure)
