"""# restore_group_offsets

Undo a commit: set the positions of groups on `target` back to the values from before a procedure committed positions.

**When to run.** After a procedure from `source` to `target` that committed positions and returned, if these positions
must not stay; or to undo wrong positions while no consumer reads on `target`. The run moves no client, and changes
nothing on `source`.

**Before you start.** Stop the groups' consumers on `target`: a group with members is never touched. Know who will
approve: it cannot be you. A position that was committed later by another client stays and is named, unless
`overwrite_later_commits` is set.

**If it stops.** Before `restore_positions` nothing was changed, and the run ends as refused. After that clear the red
step, which continues where it stopped. The page `runbooks/restore_group_offsets.md` has one heading for every step.
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
