"""# planned_failover

Both clusters are healthy: move all clients from `source` to `target`, losing nothing and reading nothing again.

**When to run.** Maintenance of the source, a migration, a drill. If the source does not answer, run
`unplanned_failover` instead.

**Before you start.** Know who will approve: it cannot be you. Clients are stopped from `fence_producers` to
`redirect_clients`.

**If it stops.** Before `open_target` the run returns clients to the source by itself (`return_to_source`); the run is
red, and the evidence states why. Once `open_target` is done, the run cannot return: clear the failed step. The page
`runbooks/planned_failover.md` has one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, group_phase, procedure_form
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
    "planned_failover",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("planned_failover"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    with group_phase("prepare"):
        open_procedure = OpenProcedure(task_id="open_procedure")
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
