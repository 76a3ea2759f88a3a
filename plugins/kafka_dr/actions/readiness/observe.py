"""Building an observation from the hooks: everything is read, nothing is decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pandas as pd

from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.readiness.observation import (
    ClusterView,
    ConnectorView,
    FlowView,
    GroupView,
    Observation,
    Sample,
    TopicView,
)
from kafka_dr.domain.mirror_maker.patterns import group_filter_of, topic_filter_of
from kafka_dr.domain.readiness.readiness import standing_still
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.actions.scope.position_frames import positions_of
from kafka_dr.procedure.run import Run
from kafka_dr.config.settings import Flow

_SAMPLES = 15
_MOVED_TYPES = ("classic", "consumer")


def observe(
    procedure: Run, known_topic_ids: Mapping[str, str], apart: float = 1.0, held: pd.DataFrame | None = None
) -> Observation:
    """Look at both clusters and the flow; sample log ends twice, `apart` seconds apart (0: only once).

    Args:
        held: committed positions in scope that were read a moment ago; they are read where there are none.
    """
    with side_by_side() as start:
        reverse_view = start(flow_view, procedure, procedure.reverse_flow) if procedure.reverse_flow else None
        topics, rules = (
            start(procedure.systems.source.topics),
            {alias: start(read, procedure) for alias, read in (("source", source_rules), ("target", target_rules))},
        )
        flow = flow_view(procedure, procedure.flow)
        scope = scope_of(procedure, topics.result(), flow.source_config, flow.worker_version)
        copies = copies_of_target(procedure, topics.result())
        target_view = start(cluster_view, procedure.systems.target, rules["target"].result(), [*scope.values(), *scope])
        source = cluster_view(procedure.systems.source, rules["source"].result(), scope)
        target, reverse = target_view.result(), reverse_view.result() if reverse_view else None
    partitions = [TopicPartition(t, p) for t in scope for p in range(source.topics[t].partitions)]
    checkpoint = flow.checkpoint_connector.config if flow.checkpoint_connector else {}
    with side_by_side() as start:
        reading = start(
            lambda: held_in_scope(procedure, source.groups, [*scope, *copies], checkpoint) if held is None else held
        )
        first, last = two_samples(procedure, partitions, target, apart)
        positions: pd.DataFrame = reading.result()
    return Observation(
        source=source,
        target=target,
        flow=flow,
        reverse=reverse,
        scope=scope,
        copies=existing_originals(copies, target.topics),
        groups=frozenset(positions["group"].tolist()),
        positions=positions,
        source_starts=procedure.systems.source.starts(partitions),
        first=first,
        last=last,
        known_topic_ids=known_topic_ids,
        exempt={alias: procedure.exempt(alias) for alias in (procedure.request.source, procedure.request.target)},
        naming_policy=procedure.topology.naming.policy,
        naming_separator=procedure.topology.naming.separator,
        has_drain_hook=procedure.systems.drain is not None,
        has_probe=procedure.topology.cluster(procedure.request.source).probe_connection is not None,
    )


@contextmanager
def side_by_side() -> Iterator[Callable[..., Future[Any]]]:
    """Start calls that wait for different systems at once; what one of them raises, its result raises."""
    with ThreadPoolExecutor(8, thread_name_prefix="observe") as pool:
        yield pool.submit


def two_samples(
    procedure: Run, partitions: list[TopicPartition], target: ClusterView, apart: float
) -> tuple[Sample, Sample]:
    """Two samples of the log ends; the second waits for partitions that grew on the source only.

    While MirrorMaker 2 catches up after a restart, a partition may rest for some seconds though nothing is wrong with
    it.
    """
    first = last = sample(procedure, partitions, target)
    for _ in range(_SAMPLES if apart else 0):
        time.sleep(apart)
        last = sample(procedure, partitions, target)
        if not standing_still(first, last):
            break
    return first, last


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


def cluster_view(cluster: KafkaCluster, rules: AclRules, configured: Iterable[str]) -> ClusterView:
    """One cluster as it is now; configs only of the named topics."""
    topics = cluster.topics()
    configs = cluster.configs([t for t in dict.fromkeys(configured) if t in topics])
    views = {
        name: TopicView(
            info.topic_id, len(info.partitions), min(map(len, info.replicas.values()), default=0), configs.get(name, {})
        )
        for name, info in topics.items()
    }
    brokers = tuple(sorted(b.id for b in cluster.brokers()))
    return ClusterView(
        cluster.alias, cluster.cluster_id(), brokers, views, rules, group_views(cluster), cluster.users()
    )


def group_views(cluster: KafkaCluster) -> dict[str, GroupView]:
    """All groups of a cluster by name."""
    return {
        g.name: GroupView(g.state, g.type, g.empty, tuple(f"{m.client_id} at {m.host}" for m in g.members))
        for g in cluster.groups().values()
    }


def source_rules(procedure: Run) -> AclRules:
    """Who may do what on the source, by its ACL entries now."""
    return _rules(procedure, procedure.systems.source_acls, procedure.request.source)


def target_rules(procedure: Run) -> AclRules:
    """Who may do what on the target, by its ACL entries now."""
    return _rules(procedure, procedure.systems.target_acls, procedure.request.target)


def _rules(procedure: Run, acls: ClusterAcls, alias: str) -> AclRules:
    if not acls.authorizer_enabled():
        return AclRules(frozenset(), authorizer=False)
    return AclRules(acls.entries(), allow_everyone=procedure.topology.cluster(alias).allow_everyone_if_no_acl_found)


def flow_view(procedure: Run, flow: Flow) -> FlowView:
    """The flow's worker and connectors, and how far its source connector says it replicated."""
    worker = procedure.mirror_maker(flow)
    about, known = worker.worker(), set(worker.connectors())
    views = {
        kind: connector_view(worker, name) if name in known else None
        for kind, name in (("source", flow.connectors.source), ("checkpoint", flow.connectors.checkpoint))
    }
    replicated = worker.offsets(flow.connectors.source).of(flow.source) if flow.connectors.source in known else {}
    return FlowView(
        flow.source,
        flow.target,
        about.version,
        about.kafka_cluster_id,
        views["source"],
        views["checkpoint"],
        replicated,
        dedicated=flow.connect is None,
        stated=flow.mirror_maker,
    )


def connector_view(worker: MirrorMaker | DedicatedMirrorMaker, name: str) -> ConnectorView:
    """One connector's state, tasks and configuration."""
    try:
        status = worker.status(name)
    except ConnectUnavailable as error:
        return ConnectorView(name, "UNKNOWN", config=worker.config(name), traces=(error.reason,))
    return ConnectorView(name, status.state, status.tasks, worker.config(name), tuple(status.traces.values()))


def held_in_scope(
    procedure: Run, groups: Mapping[str, GroupView], scope: Iterable[str], config: Mapping[str, str]
) -> pd.DataFrame:
    """Committed positions on the scope's topics of the groups that the flow's filter selects."""
    selects = group_filter_of(config)
    candidates = [g for g, view in groups.items() if selects(g) and view.group_type.lower() in _MOVED_TYPES]
    held = positions_of(procedure.systems.source, candidates, require_stable=False)
    return held[held["topic"].isin(set(scope))].reset_index(drop=True)


def sample(procedure: Run, partitions: list[TopicPartition], target: ClusterView) -> Sample:
    """Log ends of the scope on both sides, by source partition."""
    remote = remote_partitions(procedure, partitions)
    there = [
        tp for tp in remote.values() if tp.topic in target.topics and tp.partition < target.topics[tp.topic].partitions
    ]
    with side_by_side() as start:
        here = start(procedure.systems.source.ends, partitions)
        ends = procedure.systems.target.ends(there)
    return Sample(here.result(), {tp: ends[remote[tp]] for tp in partitions if remote[tp] in ends}, time.monotonic())


def remote_partitions(procedure: Run, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
    """Source partition -> the target's partition with its records: its copy, or if it is a copy, its original."""
    alias, wanted = procedure.flow.source, list(partitions)
    topics = {tp.topic for tp in wanted}
    names = {topic: procedure.naming.remote(alias, topic) for topic in topics} | copies_of_target(procedure, topics)
    return {tp: TopicPartition(names[tp.topic], tp.partition) for tp in wanted}
