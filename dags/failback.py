"""# failback

A failover has moved clients to `source`, and the old cluster, `target`, has returned: move them back, losing nothing
and mirroring nothing twice.

**When to run.** The old cluster is back and healthy, after `unplanned_failover` or `planned_failover`, and clients
shall work on the old cluster again.

**Before you start.** Decide on `mode`: `recreate` deletes and recreates topics on `target`. Decide what becomes of
stranded records (never replicated); all stranded records are exported first. Know who will approve: it cannot be you.
Clients work until `fence_producers`; from then until `redirect_clients` clients are stopped.

**If it stops.** Before `open_target` the run returns clients to the source by itself (`return_to_source`); topics and
records that the run prepared on the old cluster stay for the next run. Once `open_target` is done, the run cannot
return: clear the failed step. The page `runbooks/failback.md` has one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, group_phase, procedure_form
from kafka_dr.steps.failback.decide_stranded_records import DecideStrandedRecords
from kafka_dr.steps.failback.fence_returned_cluster import FenceReturnedCluster
from kafka_dr.steps.failback.find_stranded_records import FindStrandedRecords
from kafka_dr.steps.failback.prepare_topics import PrepareTopics
from kafka_dr.steps.failback.reconcile_stranded_records import ReconcileStrandedRecords
from kafka_dr.steps.failback.seed_flow_back import SeedFlowBack
from kafka_dr.steps.failback.start_flow_back import StartFlowBack
from kafka_dr.steps.failback.wait_for_catch_up import WaitForCatchUp
from kafka_dr.steps.planned.approve_failover import ApproveFailover
from kafka_dr.steps.planned.check_readiness import CheckReadiness
from kafka_dr.steps.planned.commit_groups import CommitGroups
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.steps.planned.forecast import Forecast
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.planned.seed_reverse_replication import SeedReverseReplication
from kafka_dr.steps.planned.start_reverse_replication import StartReverseReplication
from kafka_dr.steps.planned.stop_mirror_maker import StopMirrorMaker
from kafka_dr.steps.planned.translate_offsets import TranslateOffsets
from kafka_dr.steps.planned.wait_for_zero_lag import WaitForZeroLag
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.shared.verify_clients import VerifyClients

with DAG(
    "failback",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("failback"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    with group_phase("settle stranded records"):
        open_procedure = OpenProcedure(task_id="open_procedure")
        fence_returned_cluster = FenceReturnedCluster(task_id="fence_returned_cluster")
        find_stranded_records = FindStrandedRecords(task_id="find_stranded_records")
        decide_stranded_records = DecideStrandedRecords(task_id="decide_stranded_records")
        prepare_topics = PrepareTopics(task_id="prepare_topics")
        reconcile_stranded_records = ReconcileStrandedRecords(task_id="reconcile_stranded_records")
    with group_phase("flow back"):
        seed_flow_back = SeedFlowBack(task_id="seed_flow_back")
        start_flow_back = StartFlowBack(task_id="start_flow_back")
        wait_for_catch_up = WaitForCatchUp(task_id="wait_for_catch_up")
    with group_phase("prepare"):
        check_readiness = CheckReadiness(task_id="check_readiness")
        forecast = Forecast(task_id="forecast")
        approve_failover = ApproveFailover(task_id="approve_failover")
    with group_phase("fence and drain"):
        fence_producers = FenceProducers(task_id="fence_producers")
        drain_consumers = DrainConsumers(task_id="drain_consumers")
        wait_for_zero_lag = WaitForZeroLag(task_id="wait_for_zero_lag")
        stop_mirror_maker = StopMirrorMaker(task_id="stop_mirror_maker")
    with group_phase("translate and commit"):
        translate_offsets = TranslateOffsets(task_id="translate_offsets")
        review_translation = ReviewTranslation(task_id="review_translation")
        commit_groups = CommitGroups(task_id="commit_groups")
        seed_reverse_replication = SeedReverseReplication(task_id="seed_reverse_replication")
    with group_phase("open and redirect"):
        open_target = OpenTarget(task_id="open_target")
        redirect_clients = RedirectClients(task_id="redirect_clients")
    with group_phase("afterwards"):
        verify_clients = VerifyClients(task_id="verify_clients")
        start_reverse_replication = StartReverseReplication(task_id="start_reverse_replication")
    return_to_source = ReturnToSource(task_id="return_to_source", trigger_rule="one_failed")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    before_opening = [
        open_procedure,
        fence_returned_cluster,
        find_stranded_records,
        decide_stranded_records,
        prepare_topics,
        reconcile_stranded_records,
        seed_flow_back,
        start_flow_back,
        wait_for_catch_up,
        check_readiness,
        forecast,
        approve_failover,
        fence_producers,
        drain_consumers,
        wait_for_zero_lag,
        stop_mirror_maker,
        translate_offsets,
        review_translation,
        commit_groups,
        seed_reverse_replication,
        open_target,
    ]
    chain(*before_opening, redirect_clients, verify_clients, start_reverse_replication, close_procedure)
    # redirect_clients finds out when open_target was only marked successful; then clients must come back, too.
    chain([*before_opening, redirect_clients], return_to_source, close_procedure)
