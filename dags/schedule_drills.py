"""# schedule_drills

Start drills when they are due, and remove what a killed drill has left on the clusters.

**When to run.** Always: unpause the DAG once. It runs every hour.

**Before you start.** `drill` in the topology; with `scheduled: false` only people start drills, and this DAG cleans up
alone. Unpause `failover_drill` and the procedures whose passes a drill runs.

**What happens.** A flow's drill is due by `objectives.drill_days` of the flow, a day before a failed drill must have
been repeated, and an hour after something changed that voids the last drill. One drill is started an hour, never on a
flow that is stopped. A drill whose run was killed or deleted is closed as failed.

**If it stops.** The next run tries again. The page `runbooks/schedule_drills.md` explains its messages.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from kafka_dr.dag_policy import CHECK_ARGS, TAGS
from kafka_dr.steps.always_on.clean_left_drills import CleanLeftDrills
from kafka_dr.steps.always_on.start_due_drill import StartDueDrill

with DAG(
    "schedule_drills",
    schedule=timedelta(hours=1),
    catchup=False,
    max_active_runs=1,
    default_args=CHECK_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    clean_left_drills = CleanLeftDrills(task_id="clean_left_drills")
    start_due_drill = StartDueDrill(task_id="start_due_drill", trigger_rule="all_done")

    clean_left_drills.set_downstream(start_due_drill)
