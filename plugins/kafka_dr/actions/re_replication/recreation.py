"""Delete the chosen topics on the target, and create them again with the same partitions, replicas and settings.

Invariants
1. Topics are deleted only under the approval, with the export written and MirrorMaker 2 stopped.
2. The journal has a topic's id before its deletion: a topic with another id was created again, and is not deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from kafka_dr.actions.re_replication.export import TopicSettings, load_settings, refuse_more, settings_now
from kafka_dr.actions.re_replication.groups import refuse_active_groups, target_positions
from kafka_dr.actions.re_replication.older_copies import OlderCopiesReader
from kafka_dr.actions.re_replication.scope import ChosenTopics, planned_topics
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.actions.topic_creation import create_topics
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, NotReady
from kafka_dr.hooks.brokers.client import in_batches
from kafka_dr.hooks.brokers.descriptions import TopicToCreate
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TargetTopicsExported, TopicsToRecreate
from kafka_dr.procedure.run import Run

_DELETE_SECONDS, _DELETED_AT_ONCE = 120.0, 500
_STOP_CONSUMERS = (
    "Nothing was deleted, and the run rolls back by itself: MirrorMaker 2 is resumed. Stop the consumers of these"
    " groups on the target, then start a new run."
)


def recreate_topics(procedure: Run, step: str) -> int:
    """Delete and create again the chosen topics that the target has; return their number. Safe to repeat.

    Raises:
        NotReady: since the export, records that only the target holds were added, or a group became active; nothing is
            deleted.
        Contradiction: a topic has another id than exported, and this run did not delete it.
    """
    noted = topics_noted(procedure)
    chosen = planned_topics(procedure)
    if noted is None:
        noted = _note(procedure, step, chosen)
    old = [
        name for name, info in chosen.target_topics.items() if name in noted and info.topic_id == noted[name].topic_id
    ]
    for batch in in_batches(sorted(old), _DELETED_AT_ONCE):
        procedure.authority.hold()
        ids = {name: noted[name].topic_id for name in batch}
        procedure.systems.target.delete_topics(batch, _DELETE_SECONDS, ids)
    create_topics(procedure, {name: _to_create(topic) for name, topic in noted.items()})
    return len(noted)


def topics_noted(procedure: Run) -> dict[str, TopicSettings] | None:
    """Return the topics that this run began to delete, as they were; None if it has not begun."""
    intents = procedure.progress.facts(TopicsToRecreate)
    return load_settings(procedure, intents[0].recreates_topics) if intents else None


def _note(procedure: Run, step: str, chosen: ChosenTopics) -> dict[str, TopicSettings]:
    """Prove again what the export has proven, then write the intent with the topics' ids."""
    exported = procedure.progress.require(TargetTopicsExported)
    refuse_active_groups(chosen, target_positions(chosen), _STOP_CONSUMERS)
    before = load_settings(procedure, exported.settings)
    now = {name: TopicSettings(**topic) for name, topic in settings_now(chosen).items()}
    if now != before:
        changed = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
        raise Contradiction(
            "Target topics were changed after they were exported",
            f"on {procedure.request.target}: {first_few(changed)}",
            "Nothing was deleted, and the run rolls back by itself. Find out who created, deleted or changed these"
            " topics; then start a new run.",
        )
    ends = frame_partitions(procedure.artifacts.load(exported.ends), "offset")
    newer = dict(OlderCopiesReader(chosen).read(since=ends))
    refuse_more(procedure, newer, 0)
    receipt = procedure.artifacts.save_json("topics_before", {name: asdict(topic) for name, topic in now.items()})
    procedure.authority.hold()
    record_fact(procedure.authority, step, TopicsToRecreate(recreates_topics=receipt))
    return now


def _to_create(topic: TopicSettings) -> TopicToCreate:
    return TopicToCreate(topic.partitions, topic.replicas or -1, topic.settings)


def ends_to_begin_at(chosen: ChosenTopics) -> dict[TopicPartition, int]:
    """Return the target's log ends, at which the new copies begin; a partition that does not exist yet has none."""
    return chosen.procedure.systems.target.ends(sorted(chosen.existing.values()))


def refuse_filled(procedure: Run, begins: Mapping[TopicPartition, int]) -> None:
    """Refuse if a topic that was created again already holds records, although MirrorMaker 2 is stopped."""
    filled = [str(tp) for tp, end in sorted(begins.items()) if end]
    if filled:
        raise NotReady(
            "Topics that were created again already hold records, although MirrorMaker 2 is stopped",
            f"on {procedure.request.target}: {first_few(filled)}",
            f"Find out which client writes to these topics on {procedure.request.target}, and stop it. Delete its"
            " records with kafka-delete-records.sh, then clear recreate_target_topics with its downstream tasks.",
        )
