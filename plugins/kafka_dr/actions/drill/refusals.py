"""What refuses a drill before anything is made, such as production's connectors that would take up its topics."""

from __future__ import annotations

from kafka_dr.actions.drill.untouched import production_workers
from kafka_dr.actions.fencing.rules import source_rules, target_rules
from kafka_dr.config.drill import DrillSettings
from kafka_dr.config.drill_topology import drill_settings
from kafka_dr.domain.drill.names import DRILL
from kafka_dr.domain.drill.records import RECORD_BYTES
from kafka_dr.domain.drill.separation import EXCLUSION, taken_up
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.procedure.drill_run import GROUPS, PrivateInstallation
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import MARKER_CONNECTOR

MARKER = "__switchback_environment."
#: Type of resource -> the operations of a drill's clients, by any of which an entry denies them their work.
_NEEDED = {"topic": ("read", "write", "describe", "all"), "group": ("read", "describe", "all")}
#: Of Connect; before, every source connector mirrors heartbeats, whatever its settings say.
_FIRST_VERSION = (4, 0)
#: How often a drill's records are in one log, at most: its passes repeat none, but a failback may copy them back.
_COPIES = 4


def refuse_other_environment(procedure: Run, settings: DrillSettings) -> None:
    """Refuse unless both clusters have the marker of the environment that the topology names, and no other."""
    for cluster in (procedure.systems.source, procedure.systems.target):
        named = sorted(name.removeprefix(MARKER) for name in cluster.topics() if name.startswith(MARKER))
        if named != [settings.environment]:
            raise NotReady(
                f"{cluster.alias} is not marked as a cluster of the environment {settings.environment}",
                f"its markers name: {', '.join(named) or 'none'}",
                f"Find out whether the topology names the right clusters. If it does, create the topic"
                f" {MARKER}{settings.environment} with one partition on {cluster.alias}; nothing was changed.",
            )


def refuse_shared_names(procedure: Run, private: PrivateInstallation) -> None:
    """Refuse if a connector of production would mirror, read or checkpoint anything that the drill makes."""
    systems, scope = procedure.systems, private.scope
    configs = {
        (worker, name): found.config
        for worker in production_workers(procedure)
        for name, found in systems.drill_connectors(worker).read_all().items()
        if name != MARKER_CONNECTOR
    }
    version = systems.connect_worker(procedure.flow.worker).worker().version
    found = taken_up(configs, procedure.naming, version, scope.topics, scope.groups)
    if found:
        raise NotReady(
            "Production's replication would take up what the drill makes",
            first_few(list(map(str, found)), 10, "; "),
            f"Add {EXCLUSION} to `topics.exclude` of these connectors once; nothing was changed.",
        )


def refuse_unfit_workers(procedure: Run, settings: DrillSettings) -> None:
    """Refuse workers that are too old, not beside their cluster, or not of a Connect cluster of drills alone.

    A Connect cluster is known by what it answers, whatever its address: the Kafka cluster that keeps its topics, and
    the connectors that each of its workers lists.
    """
    for cluster in (procedure.systems.source, procedure.systems.target):
        if seen := _why_unfit(procedure, settings.connect[cluster.alias], cluster):
            raise NotReady(
                "A drill needs a Connect worker group of its own beside each cluster",
                seen,
                "Start one as runbooks/failover_drill.md says, and name it under `drill.connect`; nothing was changed.",
            )


def _why_unfit(procedure: Run, connection: str, cluster: KafkaCluster) -> str:
    """Return why drills cannot use a Connect worker beside a cluster; empty if they can."""
    host, cluster_id = procedure.systems.connect_worker(connection), cluster.cluster_id()
    worker = host.worker()
    if (kafka_version(worker.version) or (0,)) < _FIRST_VERSION:
        return f"{connection} runs Connect {worker.version}; a drill needs 4.0 or later"
    if worker.kafka_cluster_id != cluster_id:
        kept = worker.kafka_cluster_id or "unknown"
        return f"{connection} keeps its topics in the Kafka cluster {kept}; {cluster.alias} is {cluster_id}"
    foreign = [name for name in host.connectors() if not name.startswith(f"{DRILL}.")]
    if not foreign:
        return ""
    for name in production_workers(procedure):
        other = procedure.systems.connect_worker(name)
        is_beside = other.worker().kafka_cluster_id == cluster_id
        if is_beside and (shared := set(foreign) & set(other.connectors())):
            return f"{connection} and {name} are workers of one Connect cluster: both list {min(shared)}"
    return f"{connection} has connectors that no drill has made: {first_few(foreign, 5)}"


def refuse_denied_clients(procedure: Run, private: PrivateInstallation) -> None:
    """Refuse if an ACL entry denies the drill's clients what they do: a drill cannot remove entries of others.

    On the target this may be a standing fence: a failover opens it for its own topics, and no drill may.
    """
    read = ((procedure.systems.source, source_rules), (procedure.systems.target, target_rules))
    denied = [
        f"on {cluster.alias}: {entry}"
        for cluster, rules_of in read
        for entry in _denials(rules_of(procedure), private, cluster.alias)
    ]
    if denied:
        raise NotReady(
            "ACL entries deny the drill's clients what they do",
            first_few(denied, 5, "; "),
            "Narrow these entries so that they cover no name that begins with switchback-drill or"
            " __switchback-drill, or let them name no principal of `drill.principals`; nothing was changed.",
        )


def _denials(rules: AclRules, private: PrivateInstallation, alias: str) -> list[AclEntry]:
    principals = set(drill_settings(private.production, private.source, private.target).principals)
    names = {"topic": private.topics_on(alias), "group": list(map(private.names.group, GROUPS))}
    return sorted(
        entry
        for entry in rules.entries
        if entry.permission == "deny"
        and entry.operation in _NEEDED.get(entry.resource_type, ())
        and any(entry.concerns(principal) for principal in principals - rules.super_users)
        and any(map(entry.covers, names[entry.resource_type]))
    )


def refuse_too_many_bytes(settings: DrillSettings) -> None:
    """Refuse a drill whose records would take more bytes than the topology allows."""
    takes = settings.records * RECORD_BYTES * _COPIES
    if takes > settings.most_bytes:
        raise NotReady(
            "This drill would write more bytes than the topology allows",
            f"{settings.records} records take about {takes} bytes; `drill.most_bytes` is {settings.most_bytes}",
            "Lower `drill.records`, or raise `drill.most_bytes`; nothing was changed.",
        )
