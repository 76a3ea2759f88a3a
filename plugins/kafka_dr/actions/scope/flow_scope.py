"""Find the topics that a flow replicates, and the target partition that has a source partition's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_dr.domain.flow_graph.move import GraphMove
from kafka_dr.domain.flow_graph.section import flows_section
from kafka_dr.domain.flow_graph.views import local_views, views_section
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.errors import BadInput, ConnectUnavailable
from kafka_dr.procedure.run import Run


def scope_now(procedure: Run, topics: Iterable[str], **timeout: float) -> dict[str, str]:
    """Return source topic that the flow replicates -> its name on the target, by the connectors' configurations now.

    Args:
        topics: topics of the source to choose from.
        timeout: `timeout=SECONDS` for each request to the Connect worker; without it, the client's default.
    """
    return scope_of(procedure, topics, procedure.mirror_maker(procedure.flow).topic_filter(**timeout))


def scope_of(procedure: Run, topics: Iterable[str], mirrors: FlowFilter) -> dict[str, str]:
    """Return source topic that the flow replicates -> its name on the target; without topics of heartbeats.

    Args:
        topics: topics of the source to choose from.
        mirrors: selects the topics that the flow mirrors.
    """
    naming, flow = procedure.naming, procedure.flow
    return {
        topic: naming.remote(flow.source, topic)
        for topic in sorted(topics)
        if mirrors.selects(topic) and not naming.is_heartbeats(topic)
    }


def copies_of_target(procedure: Run, topics: Iterable[str]) -> dict[str, str]:
    """Return source topic that is a prefixed copy of a target topic -> that target topic (the original).

    Groups that an earlier failover moved from the target to the source read older records in the copies; on the target
    the same records are in the originals.
    """
    naming, alias = procedure.naming, procedure.flow.target
    return {
        topic: upstream
        for topic in sorted(topics)
        if naming.source_alias(topic) == alias and not naming.is_internal(topic) and not naming.is_heartbeats(topic)
        if (upstream := naming.upstream(topic)) is not None
    }


def existing_originals(copies: Mapping[str, str], there: Iterable[str]) -> dict[str, str]:
    """Return the given copies whose original exists on the target: copy on the source -> original.

    Args:
        copies: source topic that is a prefixed copy -> original, the target topic whose records it has.
        there: all topics of the target.
    """
    existing = set(there)
    return {copy: topic for copy, topic in copies.items() if topic in existing}


def remote_partitions(procedure: Run, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
    """Return source partition -> target partition with the same records; the target may lack that partition.

    The target partition is the copy of the source partition or, if the source partition itself is a prefixed copy of a
    target topic, the original.
    """
    alias, partitions = procedure.flow.source, list(partitions)
    topics = {tp.topic for tp in partitions}
    names = {topic: procedure.naming.remote(alias, topic) for topic in topics} | copies_of_target(procedure, topics)
    return {tp: TopicPartition(names[tp.topic], tp.partition) for tp in partitions}


def flows_of_move(procedure: Run, lost: bool, reads: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return the plan's section on all flows of the topology, as of `flows_section`, and of groups' views.

    Args:
        lost: whether the source is lost.
        reads: group and source topic, for each topic where a group has a position.
    """
    move = GraphMove(procedure.flow.source, procedure.flow.target, lost, stay=procedure.flow_runs_on)
    section = flows_section(procedure.topology.graph, procedure.naming, move)
    if not procedure.takes_writes_on_both:
        return section
    read = set(reads)
    copies = copies_of_target(procedure, {topic for _, topic in read}) if lost else {}
    by_policy = [group for group, topic in read if topic in copies]
    return section | views_section(local_views_of(procedure, read), by_policy, procedure.topology.policy_of)


def notes_on_stay(procedure: Run) -> tuple[str, ...]:
    """Return what an approver must know if other clients stay on the source; () if all clients move."""
    if not procedure.source_stays_open:
        return ()
    source, target = procedure.request.source, procedure.request.target
    late = (
        f"a group that reads only {target}'s own topics does not get it"
        if procedure.flow_runs_on
        else f"it stays on {source} alone, as {source}->{target} is stopped"
    )
    who = (
        f"Only the groups of this plan return to {target}. Clients that did not come from there stay on {source}, and"
        " may write to topics of the same names, so no write is fenced there. Confirm that the producers that return"
        f" are stopped on {source}: no group that returns is placed behind what one of them writes there later, but"
        f" {late}."
    )
    new = (
        f"A group that an application which returns has created on {source} since the failover counts as one that"
        " stays."
    )
    return who, new


def local_views_of(procedure: Run, reads: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return (group, topic) for each group with a local view of a topic that the target has, too.

    Empty unless both flows of the pair always run.
    """
    if not procedure.takes_writes_on_both:
        return frozenset()
    read = set(reads)
    shared = procedure.systems.target.topics(sorted({topic for _, topic in read}))
    return local_views(read, shared, procedure.naming, procedure.flow.target)


def names_separate_directions(procedure: Run) -> bool:
    """Whether the two flows of the pair write to topics of different names, as under any naming but identity."""
    return procedure.topology.naming.policy != "identity"


_CONFIG_SECONDS = 2.0


def mirrored_now(procedure: Run) -> set[str]:
    """Return the topics that the source has now and that the flow mirrors."""
    return mirrored_of(procedure, procedure.systems.source.topics())


def mirrored_of(procedure: Run, topics: Iterable[str]) -> set[str]:
    """Return the given source topics that the flow mirrors.

    The topic filter is that of the flow's Connect worker; if the worker does not answer, that of the topology file.
    """
    topics, flow = list(topics), procedure.flow
    try:
        return set(scope_now(procedure, topics, timeout=_CONFIG_SECONDS))
    except (BadInput, ConnectUnavailable):
        stated = FlowFilter({"": flow.mirror_maker}, procedure.naming, flow.target)
        return set(scope_of(procedure, topics, stated))
