"""# unplanned_failover

The source is gone, or must be treated as gone: move all clients from `source` to `target` with what the target has,
knowing what is lost.

**When to run.** The source does not answer, or cannot be trusted any more. If the source still works, run
`planned_failover`, which loses no record.

If a planned failover, or `re_replicate_topics`, was running when the source was lost, give its procedure id as
`continue_procedure`: this run takes its lease, and uses what the planned failover had proven.

**Before you start.** Know who will approve: it cannot be you. Records that the target never got are lost for now;
`failback` finds these records when the source is back.

**If it stops.** Before `open_target` the run undoes what it did (`return_to_source`); the run is red, and the evidence
states why. Once `open_target` is done, the run cannot return: clear the failed step. The page
`runbooks/unplanned_failover.md` has one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, group_phase, procedure_form
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.shared.verify_clients import VerifyClients
from kafka_dr.steps.unplanned.approve_data_loss import ApproveDataLoss
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.steps.unplanned.commit_groups import CommitWithoutSource
from kafka_dr.steps.unplanned.confirm_source_lost import ConfirmSourceLost
from kafka_dr.steps.unplanned.fence_source import FenceSource
from kafka_dr.steps.unplanned.open_target import OpenWithoutSource
from kafka_dr.steps.unplanned.stop_mirror_maker import StopLeftMirrorMaker
from kafka_dr.steps.unplanned.translate_offsets import TranslateWithoutSource

with DAG(
    "unplanned_failover",
    schedule=None,
    catchup=False,
    max_active_runs=16,
    params=procedure_form("unplanned_failover"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    with group_phase("assess the loss"):
        open_procedure = OpenProcedure(task_id="open_procedure")
        confirm_source_lost = ConfirmSourceLost(task_id="confirm_source_lost")
        assess_data_loss = AssessDataLoss(task_id="assess_data_loss")
        approve_data_loss = ApproveDataLoss(task_id="approve_data_loss")
    with group_phase("fence and stop"):
        fence_source = FenceSource(task_id="fence_source")
        stop_mirror_maker = StopLeftMirrorMaker(task_id="stop_mirror_maker")
    with group_phase("translate and commit"):
        translate_offsets = TranslateWithoutSource(task_id="translate_offsets")
        review_translation = ReviewTranslation(task_id="review_translation")
        commit_groups = CommitWithoutSource(task_id="commit_groups")
    with group_phase("open and redirect"):
        open_target = OpenWithoutSource(task_id="open_target")
        redirect_clients = RedirectClients(task_id="redirect_clients")
    with group_phase("afterwards"):
        verify_clients = VerifyClients(task_id="verify_clients")
    return_to_source = ReturnToSource(task_id="return_to_source", trigger_rule="one_failed")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    before_opening = [
        open_procedure,
        confirm_source_lost,
        assess_data_loss,
        approve_data_loss,
        fence_source,
        stop_mirror_maker,
        translate_offsets,
        review_translation,
        commit_groups,
        open_target,
    ]
    chain(*before_opening, redirect_clients, verify_clients, close_procedure)
    # redirect_clients finds out when open_target was only marked successful; then clients must come back, too.
    chain([*before_opening, redirect_clients], return_to_source, close_procedure)
