"""The topics on the target that clients will use."""

from __future__ import annotations

from kafka_dr.actions.scope.topic_settings import portable_configs
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.descriptions import Settings
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    MirrorMakerStopped,
    TopicsToCreate,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def starts_of_clients_topics(procedure: Run) -> dict[str, dict[TopicPartition, int]]:
    """Topic -> log starts of the topic clients will write to; 0 where that is still to be made.

    Empty where clients go on with the mirrored topics themselves, and all of these are there.
    """
    topics = not_mirrored(procedure)
    if not topics:
        return {}
    starts = dict(procedure.systems.target.starts(local_partitions(procedure)))
    for topic, partitions in missing_topics(procedure).items():
        starts |= {TopicPartition(topic, p): 0 for p in range(partitions)}
    return {topic: {tp: start for tp, start in starts.items() if tp.topic == topic} for topic in topics}


def missing_topics(procedure: Run) -> dict[str, int]:
    """Topics that clients will write to and that are not on the target yet, with their number of partitions."""
    topics = not_mirrored(procedure)
    there = procedure.systems.target.topics(topics) if topics else {}
    planned = procedure.progress.move().planned.topics
    return {t: count for t, _, count, _ in planned if t in topics and t not in there}


def create_missing_topics(procedure: Run) -> None:
    """Make the topics that clients will write to and that are not on the target, like the source's."""
    missing = missing_topics(procedure)
    if not missing:
        return
    configs = configs_of_clients_topics(procedure, sorted(missing))
    record_fact(procedure.authority, Step.COMMIT_GROUPS, TopicsToCreate(creates_topics=list(missing)))
    for topic, partitions in missing.items():
        procedure.authority.hold()
        procedure.systems.target.create_topic(topic, partitions=partitions, configs=portable_configs(configs[topic]))


def not_mirrored(procedure: Run) -> list[str]:
    """Clients' topics whose mirrored one has another name, or had not come when MirrorMaker 2 was stopped."""
    plan, stopped = procedure.progress.move().planned, procedure.progress.done(MirrorMakerStopped)
    boundary = None if stopped is None else procedure.artifacts.load(stopped.boundary)
    came = {one.remote for one in plan.topics} if boundary is None else set(boundary["topic"])
    return [one.topic for one in plan.topics if one.topic != one.remote or one.remote not in came]


def configs_of_clients_topics(procedure: Run, topics: list[str]) -> dict[str, Settings]:
    """Settings of the source's topics; without the source those of their copies, which MirrorMaker 2 gave the same."""
    if not procedure.progress.without_source:
        return procedure.systems.source.configs(topics)
    remote = {topic: procedure.naming.remote(procedure.flow.source, topic) for topic in topics}
    found = procedure.systems.target.configs(list(remote.values()))
    # What never reached the target has no copy there: its topic is made with the settings of the cluster.
    return {topic: found.get(name, Settings({})) for topic, name in remote.items()}


def local_partitions(procedure: Run) -> list[TopicPartition]:
    """Partitions of clients' topics that are `not_mirrored`, as far as they exist on the target."""
    topics = not_mirrored(procedure)
    infos = procedure.systems.target.topics(topics) if topics else {}
    return [TopicPartition(t, p) for t, info in sorted(infos.items()) for p in info.partitions]
