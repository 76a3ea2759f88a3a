"""Plan which topics re_replicate_topics copies again, from which offsets, and what the target loses by it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafka_dr.actions.re_replication.first_record import ends_without_offset, resets_for
from kafka_dr.actions.re_replication.groups import (
    refuse_active_groups,
    source_positions,
    target_positions,
    without_source,
)
from kafka_dr.actions.re_replication.older_copies import OlderCopies, OlderCopiesReader
from kafka_dr.actions.re_replication.scope import (
    ChosenTopics,
    chosen_topics,
    digest_of_starts,
    first_offsets_of,
    refuse_compacted,
    refuse_unable_flow,
)
from kafka_dr.actions.record_exports import refuse_deleting_unexported
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.re_replication.plan import PlannedCopy, ReReplicationPlan
from kafka_dr.errors import NotReady
from kafka_dr.procedure.binding import terms_of
from kafka_dr.procedure.entries import ReReplicationPlanned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

_STOP_CONSUMERS = (
    "Nothing was changed. Stop the consumers of these groups on the target, or leave the topics that they read out of"
    " `topics`; then start a new run. A group that is active on other topics alone may stay active."
)


class PlanReReplication(ProcedureStep):
    """Compare the older copies on the target with the source, by content; write the plan. Nothing is changed."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ReReplicationPlanned:
        """Refuse what cannot be copied again; return the plan, and the first source offset of each partition."""
        connectors = refuse_unable_flow(procedure)
        chosen = chosen_topics(procedure)
        refuse_compacted(chosen)
        positions = target_positions(chosen)
        refuse_active_groups(chosen, positions, _STOP_CONSUMERS)
        firsts = first_offsets_of(chosen)
        resets = resets_for(chosen, firsts)
        older = dict(OlderCopiesReader(chosen).read())
        refuse_foreign_records(chosen, older)
        refuse_deleting_unexported(procedure, sum(copies.aged + copies.target_only for copies in older.values()))
        lacking = without_source(chosen, positions, source_positions(chosen, sorted(set(positions["group"]))))
        source_starts = procedure.systems.source.starts(list(firsts))
        plan = ReReplicationPlan(
            procedure_id=procedure.id,
            source=procedure.request.source,
            target=procedure.request.target,
            reason=procedure.request.reason,
            deletes=bool(procedure.request.choices.get("delete_target_topics")),
            chosen=procedure.request.topics,
            copied_topics=tuple(_planned_copy(chosen, topic, older) for topic in sorted(chosen.names)),
            starts=digest_of_starts(firsts),
            later_starts=tuple(f"{tp} from {first}" for tp, first in firsts.items() if first > source_starts[tp]),
            group_positions=dict(sorted(Counter(positions["group"].tolist()).items())),
            without_source=tuple(sorted(set(lacking["group"]))),
            connectors=connectors,
            resets=resets,
            without_offset=ends_without_offset(procedure, resets),
            cool_down=procedure.progress.cool_down,
            terms=terms_of(procedure),
        )
        return ReReplicationPlanned(
            plan_file=procedure.artifacts.save_json("plan", plan.as_dict()),
            plan_digest=plan.digest,
            starts=procedure.artifacts.save("first_offsets", partitions_frame(firsts, "first")),
            connectors=connectors,
        )


def _planned_copy(chosen: ChosenTopics, topic: str, older: dict[TopicPartition, OlderCopies]) -> PlannedCopy:
    parts = [copies for tp, copies in older.items() if tp.topic == topic]
    exists = chosen.names[topic] in chosen.target_topics
    return PlannedCopy(
        topic=topic,
        remote=chosen.names[topic],
        partitions=len(parts),
        records=sum(copies.source_records for copies in parts),
        older_copies=sum(copies.copies for copies in parts) if exists else None,
        aged=sum(copies.aged for copies in parts),
        target_only=sum(copies.target_only for copies in parts),
        compacted=topic in chosen.compacted,
    )


def refuse_foreign_records(chosen: ChosenTopics, older: dict[TopicPartition, OlderCopies]) -> None:
    """Refuse topics under identity naming in which the target holds records that the source never had.

    Records at the beginning of the target's log, as many as the source has deleted by retention, are older copies.
    """
    if names_separate_directions(chosen.procedure):
        return
    foreign = [f"{tp}: {copies.target_only} records" for tp, copies in older.items() if copies.target_only]
    if foreign:
        request = chosen.procedure.request
        raise NotReady(
            f"{request.target} holds records of the chosen topics that {request.source} lacks",
            f"on {request.target}: {first_few(foreign)}",
            "Nothing was changed. Under identity naming such records were written by clients: find out which of the two"
            f" clusters has the truth. If clients work on {request.target}, copy in the other direction, by failback."
            " If these records can go, export and delete them, then start a new run.",
        )
