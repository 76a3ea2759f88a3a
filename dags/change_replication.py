"""# change_replication

Add topics or groups to the flow from `source` to `target`, take some out, or tune its connectors, while it is in use.

**When to run.** Instead of changing the configuration of a running connector: Connect would restart its tasks, and a
task that is cancelled copies up to a minute of records again, of all topics. This run stops the flow for some seconds,
and lets each partition go on behind its last copied record. No client is stopped or moved.

**Before you start.** Write patterns as MirrorMaker 2 takes them: Java regular expressions that match the whole name,
such as `orders.*`. The plan lists what each pattern matches on both clusters. Know who will approve: it cannot be you.

**If it stops.** Before `stop_changed_flow` nothing was changed, and the run ends as refused. After that
`return_to_source` sets the former configuration again and resumes the flow: the run ends as returned. The page
`runbooks/change_replication.md` has one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, procedure_form
from kafka_dr.steps.change.approve_change import ApproveChange
from kafka_dr.steps.change.change_connectors import ChangeConnectors
from kafka_dr.steps.change.plan_change import PlanChange
from kafka_dr.steps.change.resume_changed_flow import ResumeChangedFlow
from kafka_dr.steps.change.stop_changed_flow import StopChangedFlow
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource

with DAG(
    "change_replication",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("change_replication"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    open_procedure = OpenProcedure(task_id="open_procedure")
    plan_change = PlanChange(task_id="plan_change")
    approve_change = ApproveChange(task_id="approve_change")
    stop_changed_flow = StopChangedFlow(task_id="stop_changed_flow")
    change_connectors = ChangeConnectors(task_id="change_connectors")
    resume_changed_flow = ResumeChangedFlow(task_id="resume_changed_flow")
    return_to_source = ReturnToSource(task_id="return_to_source", trigger_rule="one_failed")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    forward = [
        open_procedure,
        plan_change,
        approve_change,
        stop_changed_flow,
        change_connectors,
        resume_changed_flow,
    ]
    chain(*forward, close_procedure)
    chain(forward, return_to_source, close_procedure)
