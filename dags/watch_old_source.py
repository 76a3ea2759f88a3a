"""# watch_old_source

The watcher of armed fences: a source that was lost and could not be fenced is fenced as soon as it answers again.

**When to run.** Always: unpause it once. Each run is one watcher; when it ends, the next one starts.

**Before you start.** Nothing. While no fence is armed it reads the journal once a second, looks which flows run, and
touches nothing.

**What happens.** When an armed source answers, MirrorMaker 2 around it is stopped, clients' writes are refused there as
a planned failover refuses them, and that is proven on every broker. What the source accepted until then is listed in
the journal. Of two flows that would copy the same topics in a circle it stops the one that the journal says must stand.

**If it stops.** It is started again by itself; while it is away, an old source that comes back accepts writes. The page
`runbooks/watch_old_source.md` says what its messages mean.
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
