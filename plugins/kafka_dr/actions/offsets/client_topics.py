"""Find and create topics that clients will write to on the target and that MirrorMaker 2 did not mirror."""

from __future__ import annotations

from kafka_dr.actions.scope.plan_scope import ends_left
from kafka_dr.actions.scope.topic_settings import portable_configs
from kafka_dr.actions.topic_creation import create_topics
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.descriptions import Settings, TopicToCreate
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FewerReplicasMade, MirrorMakerStopped, TopicsToCreate
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_MOST_NAMED = 100


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


def ends_of_clients_topics(procedure: Run) -> dict[TopicPartition, int]:
    """Return target partition of a topic that is not mirrored -> log end before clients write there.

    It is the one that commit_groups has saved; before, the log end now. A partition that the target lacks ends at 0.
    """
    partitions = {tp for starts in starts_of_clients_topics(procedure).values() for tp in starts}
    existing = [tp for tp in local_partitions(procedure) if tp in partitions]
    return dict.fromkeys(partitions, 0) | procedure.systems.target.ends(existing) | ends_left(procedure)


def missing_topics(procedure: Run) -> dict[str, int]:
    """Return topic that clients will write to and that the target lacks -> number of partitions, by the plan."""
    topics = not_mirrored(procedure)
    existing = procedure.systems.target.topics(topics) if topics else {}
    moved = procedure.progress.moved_topics()
    return {topic: count for topic, _, count, _ in moved if topic in topics and topic not in existing}


def create_missing_topics(procedure: Run) -> None:
    """Create the topics that clients will write to and that the target lacks, with the plan's partition counts.

    Settings and the number of replicas are those of the source's topic. If the source is declared lost, they are those
    of the topic's copy on the target. Settings that depend on the cluster are not copied, and a topic gets at most as
    many replicas as the target has brokers. Many topics are created in one request, and all leaders awaited together.
    """
    missing = missing_topics(procedure)
    if not missing:
        return
    configs = configs_of_clients_topics(procedure, sorted(missing))
    record_fact(procedure.authority, Step.COMMIT_GROUPS, TopicsToCreate(creates_topics=list(missing)))
    replicas = _replicas_to_make(procedure, sorted(missing))
    topics = {
        topic: TopicToCreate(partitions, replicas.get(topic, -1), portable_configs(configs[topic]))
        for topic, partitions in missing.items()
    }
    create_topics(procedure, topics)


def _replicas_to_make(procedure: Run, topics: list[str]) -> dict[str, int]:
    """Return topic -> number of replicas that it gets; topics of which neither cluster states one are left out.

    A note in the journal names the topics that get fewer replicas than they have.
    """
    wanted, brokers = _replicas_stated(procedure, topics), len(procedure.systems.target.brokers())
    fewer = {topic: count for topic, count in wanted.items() if count > brokers}
    if fewer:
        named = dict(list(fewer.items())[:_MOST_NAMED])
        note = FewerReplicasMade(fewer_replicas=named, brokers=brokers, topics=len(fewer))
        record_fact(procedure.authority, Step.COMMIT_GROUPS, note)
    return {topic: min(count, brokers) for topic, count in wanted.items()}


def _replicas_stated(procedure: Run, topics: list[str]) -> dict[str, int]:
    """Return topic -> number of replicas on the source; if the source is declared lost, those of the target's copy."""
    lost = procedure.progress.without_source
    names = {topic: procedure.naming.remote(procedure.flow.source, topic) if lost else topic for topic in topics}
    infos = (procedure.systems.target if lost else procedure.systems.source).topics(sorted(names.values()))
    return {
        topic: max(map(len, infos[name].replicas.values()))
        for topic, name in names.items()
        if name in infos and infos[name].replicas
    }


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
