"""Roll re_replicate_topics back: resume the flow as it was, as long as nothing was deleted or copied again."""

from __future__ import annotations

from kafka_dr.actions.re_replication.scope import planned_copies
from kafka_dr.actions.re_replication.seeding import NO_OFFSET
from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import ConnectorsToStop, OffsetsToReset, SourceReturned, TopicsToRecreate
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import RE_REPLICATE_TOPICS
from kafka_dr.vocabulary import Step


def copies_again(procedure: Run) -> bool:
    """Whether the run is one of re_replicate_topics."""
    return procedure.identity.dag_id == RE_REPLICATE_TOPICS.dag_id


def refuse_past_return(procedure: Run) -> None:
    """Refuse to roll back, or to abort, re_replicate_topics once topics are deleted, or copied again."""
    if not copies_again(procedure):
        return
    deleting = bool(procedure.progress.facts(TopicsToRecreate))
    started = procedure.progress.began(Step.START_REPLICATION) is not None
    if deleting or started:
        raise Refusal(
            f"{procedure.id} has passed the point of no return",
            "topics on the target were deleted, or are about to be"
            if deleting
            else "the topics are being copied again",
            f"Nothing was changed. In Airflow clear the failed step of {procedure.id} with its downstream tasks: the"
            " run then copies the topics again to the end. Until that is done the target topics may be incomplete.",
        )


def resume_flow(procedure: Run) -> SourceReturned:
    """Set offsets back that the run changed, and resume the connectors that it stopped; both are read back."""
    if not procedure.progress.facts(ConnectorsToStop):
        return SourceReturned(touched=False)
    worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
    plan, _ = planned_copies(procedure)
    resets = procedure.progress.facts(OffsetsToReset)
    if resets:
        before = frame_partitions(procedure.artifacts.load(resets[0].resets_offsets), "offset")
        changes = {tp: None if last == NO_OFFSET else last for tp, last in before.items()}
        for name in worker.sources:
            procedure.authority.hold()
            worker.stop(name, deadline=seconds)
        worker.change_offsets(changes, procedure.authority.hold)
    refuse_loop(procedure)
    for name in plan.connectors:
        procedure.authority.hold()
        worker.resume(name, deadline=seconds, needs_tasks=False)
    return SourceReturned(touched=True, connectors_resumed=list(plan.connectors), returned_at=procedure.now())
