"""Roll re_replicate_topics back: resume the flow as it was, as long as nothing was deleted or copied again."""

from __future__ import annotations

from kafka_dr.actions.flow_change.connector_changes import change_settings
from kafka_dr.actions.re_replication.first_record import held_offsets
from kafka_dr.actions.re_replication.proven_offsets import stored_offsets
from kafka_dr.actions.re_replication.scope import planned_copies
from kafka_dr.actions.re_replication.seeding import NO_OFFSET
from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.re_replication.starts import offset_before
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import (
    ConnectorsToStop,
    OffsetsToReset,
    SettingsToChange,
    SourceReturned,
    TopicsToRecreate,
)
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
    """Set offsets and settings back that the run changed, and resume the connectors that it stopped; all read back.

    Offsets are set back only where they are still as the run set them: of a flow that was resumed none is.
    """
    if not procedure.progress.facts(ConnectorsToStop):
        return SourceReturned(touched=False)
    worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
    plan, _ = planned_copies(procedure)
    changed = _changed_settings(procedure)
    begins_at_end = bool(plan.resets) and any(worker.status(name).stopped for name in worker.sources)
    if changed or begins_at_end or _offsets_to_set_back(procedure):
        for name in worker.sources:
            procedure.authority.hold()
            worker.stop(name, deadline=seconds)
        if offsets := _offsets_to_set_back(procedure):
            worker.change_offsets(offsets, procedure.authority.hold)
        change_settings(procedure, Step.RETURN_TO_SOURCE, changed, changed)
    refuse_loop(procedure)
    for name in plan.connectors:
        procedure.authority.hold()
        worker.resume(name, deadline=seconds, needs_tasks=False)
    return SourceReturned(
        touched=True,
        connectors_resumed=list(plan.connectors),
        returned_at=procedure.now(),
        settings_restored=sorted(plan.resets) if procedure.progress.facts(SettingsToChange) else None,
    )


def _offsets_to_set_back(procedure: Run) -> dict[TopicPartition, int | None]:
    """Return the offsets before the run of the topics to copy again, and of partitions that begin at their end.

    The latter got no record yet. Without an offset, what clients wrote since the stop would be passed over.
    """
    plan, firsts = planned_copies(procedure)
    resets, now = procedure.progress.facts(OffsetsToReset), stored_offsets(procedure)
    before = frame_partitions(procedure.artifacts.load(resets[0].resets_offsets), "offset") if resets else {}
    former = {
        tp: None if last == NO_OFFSET else last
        for tp, last in before.items()
        if tp in firsts and now.get(tp) == offset_before(firsts[tp])
    }
    stored = [tp for tp, last in {**now, **former}.items() if last is not None]
    wanted = {**former, **held_offsets(plan, stored)}
    return {tp: last for tp, last in wanted.items() if now.get(tp) != last}


def _changed_settings(procedure: Run) -> dict[str, dict[str, str | None]]:
    """Return the settings before the run of connectors that have others now."""
    worker = procedure.mirror_maker(procedure.flow)
    former = {
        name: dict(settings)
        for intent in procedure.progress.facts(SettingsToChange, Step.SEED_REPLICATION)
        for name, settings in intent.former_settings.items()
    }
    return {
        name: settings
        for name, settings in former.items()
        if any(worker.config(name).get(key) != value for key, value in settings.items())
    }
