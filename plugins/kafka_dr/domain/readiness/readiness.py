"""Readiness checks: each takes an observation and returns blockers.

A blocker is a failed check: the procedure is refused. A note (see `notes`) states to the approver what no check can
prove.

Invariants
1. All checks run in every case: the operator sees all blockers at once.
2. Replicas and min.insync.replicas on the target are compared with those on the source, never with an ideal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kafka_dr.domain.access.verdict import applications_work_on_target
from kafka_dr.domain.fencing.fence import ANONYMOUS, FenceScope, client_principals
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.naming import POLICY_CLASSES
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.alike_connectors import (
    connectors_agree,
    connectors_named,
    stated_topics_agree,
    topics_mirrored_once,
)
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker, missing_connector, one_cluster, worker_elsewhere
from kafka_dr.domain.readiness.client_rights import clients_may_work_on_target, users_exist_on_target
from kafka_dr.domain.readiness.connect_checks import reverse_flow_usable, stated_settings_agree, versions_suffice
from kafka_dr.domain.readiness.group_checks import groups_can_move, groups_idle_on_target, members_leave
from kafka_dr.domain.readiness.observation import ConnectorView, FlowView, Observation, Sample
from kafka_dr.domain.readiness.owners import owner_blockers
from kafka_dr.domain.readiness.topic_checks import durability_kept, partitions_led, target_keeps_as_much
from kafka_dr.domain.routing.dns_readiness import dns_can_redirect

BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONVERTERS = ("key.converter", "value.converter", "header.converter")

#: Reason of the blocker of topics that the target lacks.
NOT_YET_THERE = "Topics are not on the target yet"
Check = Callable[[Observation], Iterator[Blocker]]


def find_blockers(observation: Observation) -> list[Blocker]:
    """Return the blockers of all checks; [] if no check refuses to move clients."""
    return [blocker for gate in CHECKS for blocker in gate(observation)]


def connectors_run(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if a connector of the flow is missing, or is not RUNNING with all of its tasks."""
    for name in o.flow.missing:
        yield missing_connector(name)
    needing_tasks = o.flow.mirrors.connectors_with(o.scope)
    for connector in o.flow.connectors:
        if connector.settling:
            yield Blocker(
                "connectors_run",
                f"Connect does not finish assigning {connector.name} to its workers",
                _state_of(connector),
                "Find out from the workers' logs why the workers rebalance. Start a new run when the connector runs.",
            )
        elif not connector.runs or (connector.name in needing_tasks and not connector.tasks):
            yield Blocker(
                "connectors_run",
                f"Connector {connector.name} does not run",
                _state_of(connector),
                "Resume a paused or stopped connector. If a task has failed, read `trace` in the connector's status,"
                " mend the cause, then restart the task. A connector with enabled=false has no task: an earlier"
                " procedure has disabled it, because the opposite flow was to run; remove this setting only while the"
                " opposite flow is STOPPED.",
            )


def is_settling(o: Observation) -> bool:
    """Whether observed states will change soon: Connect assigns the flow's connectors, or partitions lack a leader."""
    return any(connector.settling for connector in o.flow.connectors) or any(partitions_led(o))


def _state_of(connector: ConnectorView) -> str:
    tasks = ", ".join(f"task {task}: {state}" for task, state in sorted(connector.tasks.items())) or "no tasks"
    return "; ".join([f"{connector.state}, {tasks}", *connector.traces[:2]])


def clusters_differ(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if both connections lead to one cluster."""
    if o.source.cluster_id == o.target.cluster_id:
        yield one_cluster(o.source.alias, o.target.alias, o.target.cluster_id)


def worker_writes_to_target(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker unless the flow's Connect workers use the target as their own cluster.

    A source connector writes records to its worker's cluster, and a checkpoint connector its checkpoints. The
    connector's `target.cluster.bootstrap.servers` does not decide where records go; a producer override does.
    """
    hosted = (o.flow.source_connectors, o.flow.connectors[len(o.flow.source_connectors) :])
    for worker, connectors in zip(o.flow.workers, hosted, strict=False):
        overridden = [c for c in connectors if "producer.override.bootstrap.servers" in c.config]
        if worker.cluster_id != o.target.cluster_id and not o.flow.dedicated and not overridden:
            yield worker_elsewhere(worker.cluster_id, o.target.cluster_id)


def naming_agrees(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each connector whose alias, replication policy or separator differs from the topology."""
    for flow in [f for f in (o.flow, o.reverse) if f is not None and not f.dedicated]:
        for connector in flow.connectors:
            yield from _naming_of(o, flow, connector)


def _naming_of(o: Observation, flow: FlowView, connector: ConnectorView) -> Iterator[Blocker]:
    expected = {
        "source.cluster.alias": flow.source,
        "target.cluster.alias": flow.target,
        "replication.policy.class": o.policy_class or POLICY_CLASSES.get(o.naming_policy),
        "replication.policy.separator": o.naming_separator if o.naming_policy == "default" else None,
    }
    defaults = {"replication.policy.class": POLICY_CLASSES["default"], "replication.policy.separator": "."}
    for key, value in expected.items():
        actual = connector.config.get(key, defaults.get(key, ""))
        if value is not None and actual != value:
            yield Blocker(
                "naming_agrees",
                f"{connector.name} and the topology state different values of {key}",
                f"connector {actual!r}, topology {value!r}",
                "Correct the connector or the topology. A cluster must have the same alias in every flow.",
            )
    actual = connector.config.get("replication.policy.class", POLICY_CLASSES["default"])
    if o.naming_policy == "template" and actual in POLICY_CLASSES.values():
        yield Blocker(
            "naming_agrees",
            f"{connector.name} names topics by MirrorMaker 2's own class, and the topology by a template",
            f"connector {actual!r}",
            "Set replication.policy.class of the connector to the custom class, or state MirrorMaker 2's own policy"
            " under `naming` in the topology.",
        )


def records_unchanged(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each setting of a source connector by which records could change, or be skipped."""
    for connector in o.flow.source_connectors:
        yield from _records_unchanged_by(o.flow, connector.name, connector.config)


def _records_unchanged_by(flow: FlowView, name: str, config: Mapping[str, str]) -> Iterator[Blocker]:
    no_converter = "the connector sets no converter, and the worker's converter is unknown"
    for key in CONVERTERS if config else ():
        # A connector without this setting uses its worker's converter, which Connect's REST API does not show.
        converter = config.get(key, flow.stated.get(key))
        if converter != BYTE_ARRAY_CONVERTER:
            yield Blocker(
                "records_unchanged",
                f"{key} may rewrite records",
                f"{name}: {converter or no_converter}",
                f"Set {key}={BYTE_ARRAY_CONVERTER} on the connector. If the worker's properties already set this"
                f" converter, state {key} under `mirror_maker` of the flow in the topology instead.",
            )
    if config.get("transforms"):
        yield Blocker(
            "records_unchanged",
            "The source connector transforms records",
            f"{name}: transforms={config['transforms']}",
            "Remove `transforms` from the source connector, because Switchback cannot compare records that a transform"
            " has changed.",
        )
    if config.get("errors.tolerance", "none") != "none":
        yield Blocker(
            "records_unchanged",
            "The source connector skips records that it cannot write",
            f"{name}: errors.tolerance={config['errors.tolerance']}",
            "Set errors.tolerance=none on the source connector.",
        )


def fence_stays_local(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker unless MirrorMaker 2's ACL sync is off, which would copy the fence to the target for good."""
    for connector in o.flow.source_connectors:
        if connector.config and connector.config.get("sync.topic.acls.enabled", "true") != "false":
            yield Blocker(
                "fence_stays_local",
                "MirrorMaker 2 would copy the fence to the target",
                f"{connector.name}: sync.topic.acls.enabled is not false",
                "Set sync.topic.acls.enabled=false on the source connector.",
            )


def no_loop(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each source connector of the reverse flow that is not STOPPED, unless naming is default."""
    for connector in o.reverse.source_connectors if o.reverse else ():
        if not connector.stopped and o.naming_policy != "default":
            yield Blocker(
                "no_loop",
                f"{connector.name} could copy records in a circle",
                _state_of(connector),
                f"Stop {connector.name} in Connect (state STOPPED).",
            )


def replication_moves(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if partitions grew on the source only, because a RUNNING connector may replicate nothing."""
    stuck = standing_still(o.first, o.last)
    if stuck:
        yield Blocker(
            "replication_moves",
            "The flow replicates nothing from some partitions",
            f"partitions that grew on the source only: {first_few(stuck, MOST_LISTED)}",
            "Search the worker's log for `Failure during poll`, then restart the source connector.",
        )


def standing_still(first: Sample, last: Sample) -> list[TopicPartition]:
    """Return the partitions that grew on the source between two samples, but not at all on the target, sorted."""
    grew = [tp for tp, end in last.source_ends.items() if end > first.source_ends.get(tp, end)]
    return sorted(tp for tp in grew if tp in first.target_ends and last.target_ends.get(tp) == first.target_ends[tp])


def topics_match(o: Observation) -> Iterator[Blocker]:
    """Yield blockers for mirrored topics that the target lacks, or has with another number of partitions.

    If a mirrored topic has another name on the target, clients will write to a topic with the source topic's own name:
    if the target already has this topic, it must have the same number of partitions, too.
    """
    missing = sorted(t for t, remote in o.scope.items() if remote not in o.target.topics)
    if missing:
        yield Blocker(
            "topics_match",
            NOT_YET_THERE,
            first_few(missing, MOST_LISTED),
            "Wait until MirrorMaker 2 has created these topics. If MirrorMaker 2 does not create a topic, correct"
            " `topics` of the source connector, or give MirrorMaker 2's principal the right to create topics on the"
            " target.",
        )
    for topic, name in sorted({*o.scope.items(), *zip(o.scope, o.scope, strict=True)}):
        source_partitions, on_target = o.source.topics[topic].partitions, o.target.topics.get(name)
        if on_target is not None and on_target.partitions != source_partitions:
            yield Blocker(
                "topics_match",
                f"{topic} on the source and {name} on the target differ in partitions",
                f"{source_partitions} on the source, {on_target.partitions} on the target",
                "Add partitions to the topic that has fewer, because otherwise new records of a key go to another"
                " partition after the move.",
            )


def topics_not_recreated(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each source topic whose id differs from the id that the pair's last procedure recorded.

    Such a topic was recreated, and offset syncs of the deleted log are wrong for the new log.
    """
    for topic, known in sorted(o.known_topic_ids.items()):
        on_source = o.source.topics.get(topic)
        if on_source is not None and on_source.topic_id != known:
            yield Blocker(
                "topics_not_recreated",
                f"{topic} was recreated on the source",
                f"topic id now {on_source.topic_id}, in the last procedure {known}",
                "Stop the flow, delete its offset-syncs and checkpoints topics, and replicate the topic again from"
                " its start. Then start a new run with acknowledge_recreated_topics.",
            )


def retention_not_overtaken(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each partition whose next record to replicate is no longer in the source's log."""
    for tp, start in sorted(o.source_starts.items()):
        replicated = o.flow.replicated.get(tp)
        # An empty log proves nothing: the deleted offsets may have held only a transaction's marker, no record.
        if replicated is not None and replicated + 1 < start < o.last.source_ends.get(tp, start + 1):
            yield Blocker(
                "retention_not_overtaken",
                f"The source's retention deleted records of {tp} before MirrorMaker 2 replicated them",
                f"next offset to replicate {replicated + 1}, first offset in the source's log {start}",
                "The target cannot get these records any more. Raise the retention on the source. If clients are to be"
                " moved without these records, start a new run when MirrorMaker 2 has replicated newer records of the"
                " partition.",
            )


def fence_possible(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if writes could not be stopped, or if ACL entries do not say who may write.

    A fence hook that spares MirrorMaker 2 stops writes on every cluster. Without an authorizer and such a hook only a
    drain hook stops writes. If no ACL entry lets a client write, clients' rights come from elsewhere, such as role
    bindings or a cloud's identities, and DENY entries against named clients stop nobody.
    """
    scope, exempt = FenceScope.writes(o.scope), o.exempt[o.source.alias]
    if ANONYMOUS in exempt:
        yield Blocker(
            "fence_possible",
            "Clients without a login are exempt from the fence",
            f"{ANONYMOUS} is an exempt principal of {o.source.alias} in the topology",
            "Give MirrorMaker 2, Switchback and administrators logins of their own, and remove this principal from"
            " `principals` of the cluster: on a cluster without logins no ACL entry parts clients from MirrorMaker 2.",
        )
    if o.has_fence_hook:
        return
    rules = o.source.rules
    granted = rules.authorizer and client_principals(rules, scope, exempt)
    if (rules.authorizer or rules.rights_elsewhere) and o.scope and not granted:
        yield Blocker(
            "fence_possible",
            "No ACL entry of the source lets a client write to the flow's topics",
            f"{len(o.source.rules.entries)} ACL entries on {o.source.alias}, none of them for a principal that is not"
            " exempt",
            "If clients get their rights elsewhere, such as by role bindings, no ACL entry of Switchback stops them:"
            " name a fence hook that spares MirrorMaker 2 as `fence_hook` in the topology, with"
            " `spares_mirror_maker: true`. If clients write as an exempt principal, give clients"
            " principals of their own, and correct `principals` of the cluster in the topology.",
        )
    if not (rules.authorizer or rules.rights_elsewhere or o.has_drain_hook):
        yield Blocker(
            "fence_possible",
            "Nothing can stop clients on the source",
            "the source has no authorizer, and the topology no drain hook",
            "Enable an authorizer on the source, or name a drain hook of the application as `drain` in the topology.",
        )


def something_to_move(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if the flow replicates no topic."""
    if not o.scope:
        yield Blocker(
            "something_to_move",
            "The flow replicates no topic",
            "no topic of the source passes the flow's topic filter",
            "Correct `topics` or `topics.exclude` of the source connector.",
        )


def nobody_puts_back(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each owner: a program that would resume connectors or delete the fence's ACL entries."""
    yield from owner_blockers(o.owners)


CHECKS: tuple[Check, ...] = (
    something_to_move,
    connectors_run,
    clusters_differ,
    worker_writes_to_target,
    versions_suffice,
    reverse_flow_usable,
    naming_agrees,
    stated_settings_agree,
    stated_topics_agree,
    topics_mirrored_once,
    connectors_named,
    connectors_agree,
    records_unchanged,
    fence_stays_local,
    no_loop,
    partitions_led,
    replication_moves,
    topics_match,
    topics_not_recreated,
    retention_not_overtaken,
    durability_kept,
    target_keeps_as_much,
    clients_may_work_on_target,
    users_exist_on_target,
    applications_work_on_target,
    groups_idle_on_target,
    groups_can_move,
    members_leave,
    fence_possible,
    nobody_puts_back,
    dns_can_redirect,
)
