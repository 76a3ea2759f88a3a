"""Find and create topics that clients will write to on the target and that MirrorMaker 2 did not mirror."""

from __future__ import annotations

from kafka_dr.actions.scope.topic_settings import portable_configs
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.descriptions import Settings
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import MirrorMakerStopped, TopicsToCreate
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def starts_of_clients_topics(procedure: Run) -> dict[str, dict[TopicPartition, int]]:
    """Return topic that clients will write to and that is not mirrored -> its partitions' log starts on the target.

    If the target does not have the topic, the log starts are 0. {} if every topic of the plan is mirrored to a target
    topic of the same name.
    """
    topics = not_mirrored(procedure)
    if not topics:
        return {}
    starts = dict(procedure.systems.target.starts(local_partitions(procedure)))
    for topic, partitions in missing_topics(procedure).items():
        starts |= {TopicPartition(topic, p): 0 for p in range(partitions)}
    return {topic: {tp: start for tp, start in starts.items() if tp.topic == topic} for topic in topics}


def missing_topics(procedure: Run) -> dict[str, int]:
    """Return topic that clients will write to and that the target lacks -> number of partitions, by the plan."""
    topics = not_mirrored(procedure)
    existing = procedure.systems.target.topics(topics) if topics else {}
    moved = procedure.progress.moved_topics()
    return {topic: count for topic, _, count, _ in moved if topic in topics and topic not in existing}


def create_missing_topics(procedure: Run) -> None:
    """Create the topics that clients will write to and that the target lacks, with the plan's partition counts.

    Settings are copied from the source's topic. If the source is declared lost, settings are copied from the topic's
    copy on the target. Settings that depend on the cluster are not copied.
    """
    missing = missing_topics(procedure)
    if not missing:
        return
    configs = configs_of_clients_topics(procedure, sorted(missing))
    record_fact(procedure.authority, Step.COMMIT_GROUPS, TopicsToCreate(creates_topics=list(missing)))
    for topic, partitions in missing.items():
        procedure.authority.hold()
        procedure.systems.target.create_topic(topic, partitions=partitions, configs=portable_configs(configs[topic]))


def not_mirrored(procedure: Run) -> list[str]:
    """Return clients' topics whose copy has another name, or did not exist when MirrorMaker 2 was stopped."""
    topics, stopped = procedure.progress.moved_topics(), procedure.progress.done(MirrorMakerStopped)
    boundary = None if stopped is None else procedure.artifacts.load(stopped.boundary)
    mirrored = {moved.remote for moved in topics} if boundary is None else set(boundary["topic"])
    return [moved.topic for moved in topics if moved.topic != moved.remote or moved.remote not in mirrored]


def configs_of_clients_topics(procedure: Run, topics: list[str]) -> dict[str, Settings]:
    """Return topic -> its settings on the source; if the source is declared lost, settings of the target's copy."""
    if not procedure.progress.without_source:
        return procedure.systems.source.configs(topics)
    remote = {topic: procedure.naming.remote(procedure.flow.source, topic) for topic in topics}
    copy_configs = procedure.systems.target.configs(list(remote.values()))
    # A topic that was never mirrored has no copy, and is created with the default settings of the target.
    return {topic: copy_configs.get(name, Settings({})) for topic, name in remote.items()}


def local_partitions(procedure: Run) -> list[TopicPartition]:
    """Return the target's partitions of topics that clients will write to and that MirrorMaker 2 did not mirror."""
    topics = not_mirrored(procedure)
    infos = procedure.systems.target.topics(topics) if topics else {}
    return [TopicPartition(topic, p) for topic, info in sorted(infos.items()) for p in info.partitions]
