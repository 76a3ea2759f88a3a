"""# watch_old_source

The watcher of armed fences: a source that was lost and could not be fenced is fenced as soon as it answers again.

**When to run.** Always: unpause the DAG once. Each run is one watcher; when a run ends, Airflow starts the next run.

**Before you start.** Nothing. While no fence is armed the watcher reads the journal once a second, reads which flows
run, and changes nothing.

**What happens.** When a source with an armed fence answers, the watcher stops MirrorMaker 2 from and to the source,
fences the source as a planned failover does, and proves the fence on every broker. The journal states how many records
the source accepted until then at most. Of two flows that would copy the same topics in a circle the watcher stops the
flow in whose direction clients were moved last.

**If it stops.** Airflow starts the watcher again; while no watcher runs, an old source that answers accepts writes.
The page `runbooks/watch_old_source.md` explains the watcher's messages.
"""

from __future__ import annotations

from airflow.sdk import DAG
from kafka_dr.dag_policy import TAGS, WATCHER_ARGS
from kafka_dr.steps.always_on.watch_old_source import WatchOldSource

with DAG(
    "watch_old_source",
    schedule="@continuous",
    catchup=False,
    max_active_runs=1,
    default_args=WATCHER_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    watch_old_source = WatchOldSource(task_id="watch_old_source")
