"""Whether the connections lead to the right clusters, and Switchback has the rights that it needs there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from kafka_dr.actions.doctor.site import Site
from kafka_dr.actions.doctor.units import Unit
from kafka_dr.actions.readiness.signs import certificate_ends_of
from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.doctor.identity import identity_findings
from kafka_dr.domain.doctor.rights import (
    CLUSTER_NAME,
    NEEDED,
    OPTIONAL,
    OWN_PREFIX,
    Allowed,
    Grantee,
    exempt_findings,
    lacking_rights,
    spared_probe_findings,
    unnamed_mirror_maker_finding,
)
from kafka_dr.domain.kafka_model.acl import AclRules, Authorizer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.readiness.signs import certificate_findings
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.application_client import principal_of
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.doctor.cluster_rights import ClusterRights
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import ProcedureOpened, facts_in
from kafka_dr.vocabulary import COMMITS_TOPIC, STATE_TOPICS, Entry, Step

#: Name of a group or transactional id that stands for all, where there is none.
_ANY = "switchback-doctor"
_MOST_TOPICS, _MOST_GROUPS = 2_000, 200
_SETTINGS_FILE = "admin.properties"
_TOO_OLD = "does not know the request"


def cluster_units(site: Site) -> Iterator[Unit]:
    """Yield units about identity, certificates, rights and versions of the clusters."""
    reached = [f"reach {one.name}" for one in site.of_kind("kafka", "cluster")]
    logins = [f"reach {one.name}" for one in site.of_kind("kafka")]
    workers = [f"reach {one.name}" for one in site.of_kind("http", "connect")]
    yield Unit("cluster_identity", "", lambda: _identity(site), after=(*logins, *workers, "journal"))
    yield Unit("certificates", "", lambda: _certificates(site), tuple(reached))
    for one in site.of_kind("kafka", "cluster"):
        needs = (f"reach {one.name}",)
        yield Unit("kafka_rights", one.alias, partial(_rights, site, one.alias), needs)
        yield Unit("versions", one.alias, partial(_versions, site, one.alias), needs)


def _identity(site: Site) -> Iterator[InstallationFinding]:
    return identity_findings(site.ids, list(site.workers.values()), site.earlier_ids, site.other_logins)


def earlier_ids(journal: Journal) -> dict[str, str]:
    """Return alias -> id of the cluster, as the newest run that names the alias has recorded it."""
    opened = facts_in(journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED), ProcedureOpened)
    bindings = [fact.binding for fact in opened if fact.binding is not None]
    return {alias: bound.id for binding in bindings for alias, bound in binding.clusters.items() if bound.id}


def _certificates(site: Site) -> Iterator[InstallationFinding]:
    ends: dict[str, float] = {}
    for flow in site.topology.flows:
        ends |= certificate_ends_of(site.systems, flow)
    days = max(flow.readiness.certificate_days for flow in site.topology.flows)
    for finding in certificate_findings(ends, time.time(), days):
        yield InstallationFinding(
            "certificates",
            finding.about,
            f"The certificate of {finding.about} ends soon, or has ended",
            finding.text,
            "Renew it before it ends (runbooks/certificates.md).",
        )


class _Access:
    """One cluster as Switchback's principal sees it."""

    def __init__(self, site: Site, alias: str) -> None:
        config = site.connections.kafka(site.topology.cluster(alias).connection)
        self.settings = site.topology.cluster(alias)
        self.principal = principal_of(config) or next(iter(self.settings.principals.orchestrator), "Switchback")
        self.cluster = KafkaCluster(alias, config)
        self.place = ToolAccess(alias, str(config["bootstrap.servers"]), _SETTINGS_FILE)
        self.rights = ClusterRights(self.cluster)

    def allowed(self, rules: AclRules | None) -> Allowed:
        """Return what the brokers say that the principal may do, and by the ACL entries about transactional ids.

        The entries are judged, too, where there is no topic or no group to ask about.
        """
        topics = self.cluster.metadata().leaders
        brokers = [broker.id for broker in self.cluster.brokers()]
        listed = self.cluster.every_broker.groups(brokers)
        # Only groups of consumers can be asked for their rights; those of Connect's workers are none.
        groups = sorted(name for name, group in listed.items() if group.protocol_type == "consumer")[:_MOST_GROUPS]
        # Switchback's own topics may have rights of their own, and are judged by them.
        clients = sorted(n for n in topics if n not in STATE_TOPICS and not n.startswith(OWN_PREFIX))[:_MOST_TOPICS]
        # Of a topic that does not exist, brokers say only whether it may be described.
        on_topics = self.rights.on_topics(clients or [_ANY]) or self._by_entries(rules, "topic")
        sees_topics = bool(topics) or _ANY not in self.rights.on_topics([_ANY])
        # Without this topic the question for a group would create it.
        known = groups or ([_ANY] if COMMITS_TOPIC in topics or not sees_topics else [])
        on_cluster = self.rights.on_cluster()
        # CREATE on the cluster lets every topic be created.
        more = {"create"} & on_cluster
        return {
            "cluster": {CLUSTER_NAME: on_cluster},
            "topic": {name: operations | more for name, operations in on_topics.items()},
            "group": self._on_groups(known, brokers[0]) if known else self._by_entries(rules, "group"),
            "transactional_id": self._by_entries(rules, "transactional_id"),
        }

    def _on_groups(self, names: list[str], broker: int) -> dict[str, frozenset[str]]:
        answered = self.rights.on_groups(names)
        try:
            shown = self.cluster.every_broker.session_seconds(broker, [_ANY])
        except KafkaUnavailable:
            # Brokers before Kafka 3.8 have no settings of groups.
            shown = {_ANY: 0.0}
        configs = {"describe_configs"} if shown else set[str]()
        return {name: (operations - {"describe_configs"}) | configs for name, operations in answered.items()}

    def _by_entries(self, rules: AclRules | None, kind: str) -> dict[str, frozenset[str]]:
        """Return what ACL entries allow on resources of a type whatever their name; {} if they do not decide."""
        if rules is None:
            return {}
        asked = {right.operation for right in (*NEEDED, *OPTIONAL) if right.resource_type == kind}
        return {_ANY: frozenset(o for o in asked if rules.may(self.principal, o, kind, _ANY))}

    def rules(self) -> AclRules | None:
        """Return the ACL entries; None if they do not decide, cannot be read, or are not what gives the rights.

        A super user that the topology does not name has rights that no entry gives.
        """
        if "describe" not in self.rights.on_cluster():
            return None
        acls = ClusterAcls(self.cluster)
        if acls.authorizer() is not Authorizer.BY_ACL:
            return None
        rules = AclRules(
            acls.entries(), frozenset(self.settings.super_users), self.settings.allow_everyone_if_no_acl_found
        )
        return rules if rules.may(self.principal, "describe", "cluster", CLUSTER_NAME) else None

    def close(self) -> None:
        """Disconnect."""
        self.cluster.close()


def _rights(site: Site, alias: str) -> Iterator[InstallationFinding]:
    access = _Access(site, alias)
    try:
        principals, settings = access.settings.principals, access.settings
        exempt = {*principals.orchestrator, *principals.exempt, *settings.super_users}
        yield from exempt_findings(alias, principal_of(site.connections.kafka(settings.connection)), exempt)
        rules = access.rules()
        in_flow = any(alias in (flow.source, flow.target) for flow in site.topology.flows)
        if rules is not None and in_flow and not principals.mirror_maker:
            yield unnamed_mirror_maker_finding(alias)
        grantee, allowed = Grantee(access.principal, access.place, rules), access.allowed(rules)
        for check, rights in (("kafka_rights", NEEDED), ("optional_rights", OPTIONAL)):
            for lacking in lacking_rights(rights, allowed):
                yield grantee.finding(check, lacking)
        yield from grantee.own_topics_finding()
        probe = _probe_principal(site, settings.probe_connection)
        if probe:
            yield from spared_probe_findings(alias, probe, {access.principal, *principals.mirror_maker, *exempt})
            yield from Grantee(probe, access.place, rules).probe_findings()
    finally:
        access.close()


def _probe_principal(site: Site, connection: str | None) -> str:
    """Return the probe's principal; "" without a probe, and if its connection cannot be read, which has a finding."""
    try:
        return principal_of(site.connections.kafka(connection)) if connection else ""
    except BadInput:
        return ""


def _versions(site: Site, alias: str) -> Iterator[InstallationFinding]:
    """Ask each broker something that brokers know since Kafka 2.8: the protocol does not tell their versions."""
    access = _Access(site, alias)
    try:
        leaders = {
            leader: TopicPartition(name, partition)
            for name, partitions in access.cluster.metadata().leaders.items()
            for partition, leader in partitions.items()
            if leader is not None and name not in STATE_TOPICS
        }
        access.cluster.every_broker.producers({partition: leader for leader, partition in leaders.items()})
    except KafkaUnavailable as error:
        if _TOO_OLD in error.seen:
            yield InstallationFinding(
                "versions",
                f"{alias} brokers",
                "A broker has a version that Switchback does not support",
                f"{alias}: {error.seen}",
                "Upgrade the brokers to Kafka 2.8 or newer: README.md, Supported.",
            )
    finally:
        access.close()
