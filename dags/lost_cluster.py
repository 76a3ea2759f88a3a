"""# lost_cluster

A cluster is lost from which flows lead to several others: move its clients to one or more of these, under one plan and
one approval. Each pair of the lost cluster and a cluster where clients go gets its own run of `unplanned_failover`,
which this run starts and follows.

**When to run.** The lost cluster was the centre of several flows, and its clients go to more than one cluster; or you
want one page on all its flows. If all clients go to one cluster, `unplanned_failover` is enough.

**Before you start.** Know which groups go where: no group may go to two clusters for the same topics. `target` is
where the routing record will lead; `other_targets` are the further clusters. Know who will approve: it cannot be you.

**If it stops.** Before the approval nothing is changed, and the pairs' runs end by themselves. After it each pair's run
ends or continues by itself; this run names those that did not complete. The page `runbooks/lost_cluster.md` has one
heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, procedure_form
from kafka_dr.steps.lost_cluster.approve_lost_cluster import ApproveLostCluster
from kafka_dr.steps.lost_cluster.follow_pairs import FollowPairs
from kafka_dr.steps.lost_cluster.plan_lost_cluster import PlanLostCluster
from kafka_dr.steps.lost_cluster.start_pairs import StartPairs
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure

with DAG(
    "lost_cluster",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("lost_cluster"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    open_procedure = OpenProcedure(task_id="open_procedure")
    start_pairs = StartPairs(task_id="start_pairs")
    plan_lost_cluster = PlanLostCluster(task_id="plan_lost_cluster")
    approve_lost_cluster = ApproveLostCluster(task_id="approve_lost_cluster")
    follow_pairs = FollowPairs(task_id="follow_pairs")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    chain(open_procedure, start_pairs, plan_lost_cluster, approve_lost_cluster, follow_pairs, close_procedure)
