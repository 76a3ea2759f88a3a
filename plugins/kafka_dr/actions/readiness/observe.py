"""Read the state of both clusters and the flow (an observation); domain/readiness judges it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import pandas as pd

from kafka_dr.actions.fencing.old_flow import writers_on_target
from kafka_dr.actions.fencing.rules import source_rules, standing_change, target_rules
from kafka_dr.actions.groups.selected import group_views, held_in_scope, immovable_in_scope
from kafka_dr.actions.readiness.clients import see_clients
from kafka_dr.actions.readiness.dns import see_dns
from kafka_dr.actions.readiness.logins import cluster_logins, other_logins
from kafka_dr.actions.readiness.owners import owner_view
from kafka_dr.actions.scope.flow_scope import copies_of_target, existing_originals, remote_partitions, scope_of
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.settings import Flow
from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.readiness.observation import (
    ClusterView,
    ConnectorView,
    FlowView,
    Observation,
    Sample,
    TopicView,
    WorkerView,
)
from kafka_dr.domain.readiness.owners import OwnerView
from kafka_dr.domain.readiness.readiness import is_settling, standing_still
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.run import Run

_MOST_SAMPLES = 15
#: A position is near the log's end if the log has grown from it to its end in so many seconds.
_NEAR_SECONDS = 60.0


def observe_pair(
    procedure: Run, known_topic_ids: Mapping[str, str], apart: float = 1.0, held: pd.DataFrame | None = None
) -> Observation:
    """Read the state of both clusters and of both flows, with two samples of the log ends.

    Args:
        known_topic_ids: source topic -> its id at the last readiness check.
        apart: seconds between the two samples; 0: take only one sample, which then counts as first and second.
        held: groups' positions on the source that were read a moment ago, one row each; None: read positions now.
    """
    with run_concurrently() as start:
        reverse_view = start(flow_view, procedure, procedure.reverse_flow) if procedure.reverse_flow else None
        topics, rules = (
            start(procedure.systems.source.topics),
            {alias: start(read, procedure) for alias, read in (("source", source_rules), ("target", target_rules))},
        )
        flow = flow_view(procedure, procedure.flow)
        scope = scope_of(procedure, topics.result(), flow.mirrors)
        copies = copies_of_target(procedure, topics.result())
        target_view = start(cluster_view, procedure.systems.target, rules["target"].result(), [*scope.values(), *scope])
        source = cluster_view(procedure.systems.source, rules["source"].result(), scope)
        target, reverse = target_view.result(), reverse_view.result() if reverse_view else None
    # A topic may have been deleted since the scope was read.
    scope = {topic: name for topic, name in scope.items() if topic in source.topics}
    partitions = _led_in_scope(source, scope)
    checkpoint = flow.checkpoint_connector.config if flow.checkpoint_connector else {}
    selected = (source.groups, [*scope, *copies], checkpoint)
    with run_concurrently() as start:
        reading = start(lambda: held_in_scope(procedure, *selected) if held is None else held)
        immovable = start(immovable_in_scope, procedure, *selected)
        # Session timeouts of static members take up to 15 s to find.
        dns = start(see_dns, procedure)
        clients = start(lambda: see_clients(procedure, source, flow, scope, _groups_of(reading.result())))
        first, last = two_samples(procedure, partitions, target, apart)
        positions: pd.DataFrame = reading.result()
    return Observation(
        source=source,
        target=target,
        flow=flow,
        reverse=reverse,
        scope=scope,
        copies=existing_originals(copies, target.topics),
        groups=_groups_of(positions),
        positions=positions,
        immovable=immovable.result(),
        source_starts=procedure.systems.source.starts(partitions),
        first=first,
        last=last,
        known_topic_ids=known_topic_ids,
        exempt={alias: procedure.exempt(alias) for alias in (procedure.request.source, procedure.request.target)},
        naming_policy=procedure.topology.naming.policy,
        naming_separator=procedure.topology.naming.separator,
        policy_class=procedure.topology.naming.policy_class,
        has_drain_hook=procedure.systems.drain is not None,
        has_fence_hook=procedure.systems.planned_fence_hook is not None,
        target_fence=standing_change(procedure, procedure.request.target),
        owners=_owners(procedure, (source, target), (flow, reverse)),
        cluster_logins=cluster_logins(procedure),
        other_logins=other_logins(procedure, _configs((flow, reverse))),
        writers=writers_on_target(procedure),
        unsigned_journal=not procedure.topology.journal.public_keys,
        unsigned_samples=procedure.topology.recorder is not None and not procedure.topology.recorder.public_keys,
        has_probe=procedure.topology.cluster(procedure.request.source).probe_connection is not None,
        clients=clients.result(),
        dns=dns.result(),
    )


def _groups_of(positions: pd.DataFrame) -> frozenset[str]:
    return frozenset(positions["group"].tolist())


def _owners(procedure: Run, clusters: Iterable[ClusterView], flows: Iterable[FlowView | None]) -> OwnerView:
    """Return what is known of the programs that put back connectors of both flows, or ACL entries of both clusters."""
    rules, configs = {cluster.alias: cluster.rules for cluster in clusters}, _configs(flows)
    return owner_view(procedure, rules, configs, [f for f in (procedure.flow, procedure.reverse_flow) if f is not None])


def _configs(flows: Iterable[FlowView | None]) -> dict[str, Mapping[str, str]]:
    """Return the configurations of the connectors that run in Connect, by name."""
    running = [flow for flow in flows if flow is not None and not flow.dedicated]
    return {connector.name: connector.config for flow in running for connector in flow.connectors}


def two_samples(
    procedure: Run, partitions: list[TopicPartition], target: ClusterView, apart: float
) -> tuple[Sample, Sample]:
    """Take two samples of the log ends on source and target, and return both.

    The second sample is taken again, up to 15 times, while a partition grows on the source and not on the target.
    Right after a restart this is no fault, because MirrorMaker 2 may need some seconds before it writes records.

    Args:
        target: state of the target, which lists the partitions that the target has.
        apart: seconds between the two samples; 0: take only one sample, and return it twice.
    """
    first = last = sample_ends(procedure, partitions, target)
    for _ in range(_MOST_SAMPLES if apart else 0):
        time.sleep(apart)
        last = sample_ends(procedure, partitions, target)
        if not standing_still(first, last):
            break
    return first, last


def cluster_view(cluster: KafkaCluster, rules: AclRules, configured: Iterable[str]) -> ClusterView:
    """Read a cluster's state: brokers, topics, groups, users, quotas; settings only of the topics in `configured`.

    Args:
        rules: the cluster's ACL rules, which become part of the result.
    """
    topics = cluster.topics()
    configs = cluster.configs([topic for topic in dict.fromkeys(configured) if topic in topics])
    views = {
        name: TopicView(
            info.topic_id,
            len(info.partitions),
            min(map(len, info.replicas.values()), default=0),
            configs.get(name, {}),
            configs[name].overrides if name in configs else frozenset(),
        )
        for name, info in topics.items()
    }
    brokers = tuple(sorted(broker.id for broker in cluster.brokers()))
    scram = cluster.scram_users()
    return ClusterView(
        cluster.alias,
        cluster.cluster_id(),
        brokers,
        views,
        rules,
        group_views(cluster),
        users=None if scram is None else frozenset(scram),
        leaderless=tuple(tp for _, info in sorted(topics.items()) for tp in info.leaderless),
        scram=scram,
        quotas=cluster.client_quotas(),
    )


def _led_in_scope(source: ClusterView, scope: Iterable[str]) -> list[TopicPartition]:
    return _led(source, [TopicPartition(topic, p) for topic in scope for p in range(source.topics[topic].partitions)])


def _led(cluster: ClusterView, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return those of the cluster's partitions that have a leader, and can be read."""
    leaderless = {*cluster.leaderless}
    return [tp for tp in partitions if tp not in leaderless]


def flow_view(procedure: Run, flow: Flow) -> FlowView:
    """Read a flow's state: its Connect workers, connectors, and the last replicated offsets that Connect stores."""
    connectors = procedure.mirror_maker(flow)
    existing = connectors.existing()
    worker, *others = (
        WorkerView(info.version, info.kafka_cluster_id, host.sets_offsets(names[0]))
        for host, names in connectors.workers
        for info in [host.worker()]
    )
    sources = tuple(connector_view(connectors, name) for name in connectors.sources if name in existing)
    # A worker that cannot set offsets may not show them either: the check `versions_suffice` refuses this worker.
    shows_offsets = worker.sets_offsets or flow.connect is None
    return FlowView(
        flow.source,
        flow.target,
        worker,
        sources,
        connector_view(connectors, connectors.checkpoint) if connectors.checkpoint in existing else None,
        # Without a source connector: as if it had the default settings.
        FlowFilter(
            {view.name: view.config for view in sources} or {"": {}}, procedure.naming, flow.target, worker.version
        ),
        tuple(name for name in connectors.names if name not in existing),
        others[0] if others else None,
        connectors.offsets().of(flow.source) if shows_offsets and len(sources) == len(connectors.sources) else {},
        dedicated=flow.connect is None,
        offsets_problem=connectors.offsets_problem(),
        stated=flow.mirror_maker,
        unnamed=tuple(ConnectorView(one.name, one.state, one.tasks, config) for one, config in connectors.unnamed()),
    )


def connector_view(worker: FlowConnectors, name: str) -> ConnectorView:
    """Read one connector's state, tasks and configuration; state `UNKNOWN` if Connect does not give its status."""
    try:
        status = worker.status(name)
    except ConnectUnavailable as error:
        return ConnectorView(name, "UNKNOWN", config=worker.config(name), traces=(error.reason,))
    return ConnectorView(name, status.state, status.tasks, worker.config(name), tuple(status.traces.values()))


def sample_ends(procedure: Run, partitions: list[TopicPartition], target: ClusterView) -> Sample:
    """Read the log ends of these source partitions, and of their target partitions as far as the target has them.

    Target partitions without leader are left out.
    """
    remote = remote_partitions(procedure, partitions)
    existing = [
        tp
        for tp in _led(target, remote.values())
        if tp.topic in target.topics and tp.partition < target.topics[tp.topic].partitions
    ]
    with run_concurrently() as start:
        source_ends = start(procedure.systems.source.ends, partitions)
        target_ends = procedure.systems.target.ends(existing)
    return Sample(
        source_ends.result(),
        {tp: target_ends[remote[tp]] for tp in partitions if remote[tp] in target_ends},
        time.monotonic(),
    )


def caught_up_positions(positions: pd.DataFrame, first: Sample, last: Sample) -> dict[str, int]:
    """Return the positions at the log ends or near them, whose moves MirrorMaker 2 has to follow with checkpoints.

    It translates positions that are further behind by older offset syncs, of which it keeps few: such a position may
    move for long before its checkpoint does.

    Args:
        positions: positions on the source, one row each: group, topic, partition, position.
        first, last: two samples of the log ends.

    Returns:
        Group and number of its positions that count -> sum of these positions.
    """
    ends = pd.DataFrame(
        [(tp.topic, tp.partition, end, end - first.source_ends.get(tp, end)) for tp, end in last.source_ends.items()],
        columns=["topic", "partition", "end", "grown"],
    )
    held = positions.merge(ends, on=["topic", "partition"])
    near = held["grown"] * (_NEAR_SECONDS / max(last.at - first.at, 1.0))
    caught_up = held[held["end"] - held["position"] <= near]
    sums = caught_up.groupby("group")["position"].agg(["sum", "count"])
    return {f"{group} {count}": int(total) for group, total, count in sums.itertuples()}


#: How long Connect may take for a rebalance, and a cluster to elect leaders, and how often both are read during that
#: time; in seconds.
_SETTLED_SECONDS, _LOOK_AGAIN_SECONDS = 20.0, 0.5


def observed_at_rest(procedure: Run, known_topic_ids: dict[str, str]) -> Observation:
    """Return an observation of both clusters and both flows.

    While Connect rebalances, or partitions have no leader, observe again for up to 20 s.

    Args:
        known_topic_ids: source topic -> its id at the last readiness check.
    """
    ends_at = time.monotonic() + _SETTLED_SECONDS
    while is_settling(observation := observe_pair(procedure, known_topic_ids)) and time.monotonic() < ends_at:
        time.sleep(_LOOK_AGAIN_SECONDS)
    return observation
