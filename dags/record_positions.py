"""# record_positions

The flight recorder: samples of both clusters, stored on the target's side, so that the loss can be stated when the
source is lost.

**When to run.** Always: unpause the DAG once. Each run is one recorder; when a run ends, Airflow starts the next run.

**Before you start.** `recorder` in the topology names an archive that outlives the source's site.

**What happens.** Every few seconds the recorder stores ends and starts of all logs, groups and their positions, states
and offsets of the connectors, new offset syncs and checkpoints, and content pairs. The recorder changes nothing on
either cluster.

**If it stops.** Airflow starts the recorder again. What could not be read meanwhile stays unknown, and never counts as
zero. The page `runbooks/record_positions.md` explains the recorder's messages.
"""

from __future__ import annotations

from airflow.sdk import DAG
from kafka_dr.dag_policy import RECORDER_ARGS, TAGS
from kafka_dr.steps.always_on.record_positions import RecordPositions

with DAG(
    "record_positions",
    schedule="@continuous",
    catchup=False,
    max_active_runs=1,
    default_args=RECORDER_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    record_positions = RecordPositions(task_id="record_positions")
