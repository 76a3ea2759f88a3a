"""# readiness_check

Could we fail over now, with what loss and how long: checked for every flow every five minutes, without changing
anything.

**When to run.** Always: unpause the DAG once. For an answer at once, trigger it with `source` and `target`; without
both, every flow of the topology is checked.

**Before you start.** Nothing. The check takes no lease, writes no record and no journal entry, and leaves flows alone
whose clusters a procedure holds.

**What happens.** All checks of check_readiness, the lag by comparing the logs of both clusters, signs of life of
MirrorMaker 2, recorder and watcher, certificates, and the last drill. The result is
`<evidence>/readiness/<source>-to-<target>.json`; when the state of a flow changes, its asset
`switchback://readiness/<source>-to-<target>` gets an event. Then the task `send_notices` sends the notices that are due
(readiness fell, a drill is due, a silent recorder or watcher); whatever becomes of them, the check has ended before.

**If it stops.** Documents grow old: whoever reads one must not take it for the present after `stale_after`. The page
`runbooks/readiness_check.md` explains each finding.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from kafka_dr.dag_policy import CHECK_ARGS, NOTICES_ARGS, TAGS, flow_form
from kafka_dr.steps.always_on.check_flows import CheckFlows
from kafka_dr.steps.always_on.send_notices import SendNotices

with DAG(
    "readiness_check",
    schedule=timedelta(minutes=5),
    catchup=False,
    max_active_runs=1,
    default_args=CHECK_ARGS,
    params=flow_form(),
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    check_flows = CheckFlows(task_id="check_flows")
    send_notices = SendNotices(task_id="send_notices", **NOTICES_ARGS).as_teardown()
    check_flows >> send_notices
