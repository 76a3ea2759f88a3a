"""# re_replicate_topics

Copy chosen topics of the flow `source`->`target` again: from the first record, from an offset, or from a time.

**When to run.** A topic on `target` lacks records, or has wrong ones. Deleting the topic there, or MirrorMaker 2's
offsets alone, does not copy its records again. The run moves no client, and changes nothing on `source`'s topics.

**Before you start.** Name the topics in `topics`. Choose `delete_target_topics`, or every record will stand on `target`
twice. Stop consumers on `target` that read these topics. Know who will approve: it cannot be you.

**If it stops.** Before `recreate_target_topics` has begun to delete, the run rolls back by itself: the flow is resumed
as it was. After that clear the red step, which continues where it stopped. The page `runbooks/re_replicate_topics.md`
has one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, group_phase, procedure_form
from kafka_dr.steps.re_replication.approve_re_replication import ApproveReReplication
from kafka_dr.steps.re_replication.export_target_topics import ExportTargetTopics
from kafka_dr.steps.re_replication.place_target_groups import PlaceTargetGroups
from kafka_dr.steps.re_replication.plan_re_replication import PlanReReplication
from kafka_dr.steps.re_replication.recreate_target_topics import RecreateTargetTopics
from kafka_dr.steps.re_replication.seed_replication import SeedReplication
from kafka_dr.steps.re_replication.start_replication import StartReplication
from kafka_dr.steps.re_replication.stop_mirror_maker import StopFlow
from kafka_dr.steps.re_replication.verify_copies import VerifyCopies
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource

with DAG(
    "re_replicate_topics",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("re_replicate_topics"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    with group_phase("prepare"):
        open_procedure = OpenProcedure(task_id="open_procedure")
        plan_re_replication = PlanReReplication(task_id="plan_re_replication")
        approve_re_replication = ApproveReReplication(task_id="approve_re_replication")
        export_target_topics = ExportTargetTopics(task_id="export_target_topics")
    with group_phase("stop and reset"):
        stop_mirror_maker = StopFlow(task_id="stop_mirror_maker")
        recreate_target_topics = RecreateTargetTopics(task_id="recreate_target_topics")
        seed_replication = SeedReplication(task_id="seed_replication")
    with group_phase("copy again"):
        start_replication = StartReplication(task_id="start_replication")
        verify_copies = VerifyCopies(task_id="verify_copies")
        place_target_groups = PlaceTargetGroups(task_id="place_target_groups")
    return_to_source = ReturnToSource(task_id="return_to_source", trigger_rule="one_failed")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    before_copying = [
        open_procedure,
        plan_re_replication,
        approve_re_replication,
        export_target_topics,
        stop_mirror_maker,
        recreate_target_topics,
        seed_replication,
    ]
    chain(*before_copying, start_replication, verify_copies, place_target_groups, close_procedure)
    chain(before_copying, return_to_source, close_procedure)
