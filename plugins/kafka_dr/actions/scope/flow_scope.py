"""What a flow replicates, and where a source's records are on the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.patterns import topic_filter_of
from kafka_dr.errors import (
    BadInput,
    ConnectUnavailable,
)
from kafka_dr.procedure.run import Run


def scope_now(procedure: Run, topics: Iterable[str], **timeout: float) -> dict[str, str]:
    """As of `scope_of`, by what the flow's worker says now."""
    worker = procedure.mirror_maker(procedure.flow)
    config = worker.config(procedure.flow.connectors.source, **timeout)
    return scope_of(procedure, topics, config, worker.worker(**timeout).version)


def scope_of(procedure: Run, topics: Iterable[str], config: Mapping[str, str], version: str = "") -> dict[str, str]:
    """Source topics that the flow replicates -> their names on the target; heartbeats are not clients' topics.

    Args:
        config: the source connector's.
        version: the worker's; empty where nobody told it.
    """
    naming, flow = procedure.naming, procedure.flow
    selects = topic_filter_of(config, naming, flow.target, version)
    return {
        topic: naming.remote(flow.source, topic)
        for topic in sorted(topics)
        if selects(topic) and not naming.is_heartbeats(topic)
    }


def copies_of_target(procedure: Run, topics: Iterable[str]) -> dict[str, str]:
    """Source topics that are copies under names of their own -> the target's topics that they are copies of.

    Groups that an earlier failover had brought read the older records there; on the target these are in the topics that
    they come from.
    """
    naming, alias = procedure.naming, procedure.flow.target
    return {
        topic: upstream
        for topic in sorted(topics)
        if naming.source_alias(topic) == alias and not naming.is_internal(topic) and not naming.is_heartbeats(topic)
        if (upstream := naming.upstream(topic)) is not None
    }


def existing_originals(copies: Mapping[str, str], there: Iterable[str]) -> dict[str, str]:
    """Those of the copies whose topic the target still has."""
    known = set(there)
    return {copy: topic for copy, topic in copies.items() if topic in known}


def remote_partitions(procedure: Run, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
    """Source partition -> the target's partition with its records: its copy, or if it is a copy, its original."""
    alias, wanted = procedure.flow.source, list(partitions)
    topics = {tp.topic for tp in wanted}
    names = {topic: procedure.naming.remote(alias, topic) for topic in topics} | copies_of_target(procedure, topics)
    return {tp: TopicPartition(names[tp.topic], tp.partition) for tp in wanted}


def names_separate_directions(procedure: Run) -> bool:
    """Whether each direction has topics of its own, so that none has to be told where to begin."""
    return procedure.topology.naming.policy != "identity"


_CONFIG_SECONDS = 2.0


def mirrored_now(procedure: Run) -> set[str]:
    """Topics that the source has now and the flow mirrors."""
    return mirrored_of(procedure, procedure.systems.source.topics())


def mirrored_of(procedure: Run, topics: Iterable[str]) -> set[str]:
    """Those of the source's topics that the flow mirrors, by its worker's configuration, else by the stated one."""
    topics = list(topics)
    try:
        return set(scope_now(procedure, topics, timeout=_CONFIG_SECONDS))
    except (BadInput, ConnectUnavailable):
        return set(scope_of(procedure, topics, procedure.flow.mirror_maker))
