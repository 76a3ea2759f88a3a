"""The rights that Switchback's principal needs on each cluster, and which of them it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_NAME, AclEntry, AclRules
from kafka_dr.domain.manual.acl_commands import acl_commands
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.vocabulary import CANARY_TOPIC, JOURNAL_TOPIC, PROBE_TOPIC, PROGRESS_TOPIC

CLUSTER_NAME = "kafka-cluster"
OWN_PREFIX = "__switchback"
OWN_TOPICS = (PROBE_TOPIC, CANARY_TOPIC, PROGRESS_TOPIC, JOURNAL_TOPIC)
OWN_OPERATIONS = ("alter", "alter_configs", "create", "delete", "describe", "describe_configs", "read", "write")
PROBE_OPERATIONS = ("write", "describe")
_MOST_COMMANDS = 2


@dataclass(frozen=True)
class NeededRight:
    """One operation on all resources of a type, and what cannot be done without it."""

    resource_type: str
    operation: str
    purpose: str


_NEVER = "no procedure works"
#: Without one of these no failover works.
NEEDED = (
    NeededRight("cluster", "describe", f"{_NEVER}: cluster ids and ACL entries cannot be read"),
    NeededRight("cluster", "alter", f"{_NEVER}: the fence cannot be made"),
    NeededRight("cluster", "describe_configs", "readiness_check cannot tell which version the brokers have"),
    NeededRight("topic", "describe", f"{_NEVER}: log ends cannot be read"),
    NeededRight("topic", "read", f"{_NEVER}: records cannot be compared"),
    NeededRight("topic", "create", "topics that clients lack on the target cannot be created"),
    NeededRight("topic", "describe_configs", f"{_NEVER}: settings of topics cannot be compared"),
    NeededRight("group", "describe", f"{_NEVER}: groups are not seen"),
    NeededRight("group", "read", f"{_NEVER}: positions cannot be committed"),
    NeededRight("transactional_id", "describe", "open transactions cannot be named"),
)
#: Without one of these a single choice or procedure does not work.
OPTIONAL = (
    NeededRight("topic", "alter", "a failback cannot add partitions to topics that grew"),
    NeededRight("topic", "delete", "neither a failback in mode recreate nor delete_target_topics can run"),
    NeededRight("topic", "write", "neither the replay of stranded records nor re_replicate_topics can run"),
    NeededRight("topic", "alter_configs", "re_replicate_topics cannot restore settings of topics"),
    NeededRight("group", "describe_configs", "session timeouts of groups of the newer protocol are unknown"),
    NeededRight("group", "delete", "restore_group_offsets cannot remove groups and positions"),
    NeededRight("transactional_id", "write", "abort_open_transactions cannot end transactions"),
)


@dataclass(frozen=True)
class LackingRight:
    """A right that the principal lacks.

    Attributes:
        names: the resources for which it is lacking.
        everywhere: whether it is lacking for all resources that were looked at.
    """

    right: NeededRight
    names: tuple[str, ...]
    everywhere: bool


#: Type of resource -> name -> operations that the principal may do.
Allowed = Mapping[str, Mapping[str, frozenset[str]]]


def lacking_rights(needed: Iterable[NeededRight], allowed: Allowed) -> Iterator[LackingRight]:
    """Yield each right that is lacking for a resource; types of which nothing was read are left out."""
    for right in needed:
        resources = allowed.get(right.resource_type, {})
        names = tuple(sorted(name for name, operations in resources.items() if right.operation not in operations))
        if names:
            yield LackingRight(right, names, len(names) == len(resources))


@dataclass(frozen=True)
class Grantee:
    """Who lacks a right, and where.

    Attributes:
        rules: the cluster's ACL entries; None if they could not be read, or do not decide.
    """

    principal: str
    place: ToolAccess
    rules: AclRules | None = None

    def finding(self, check: str, lacking: LackingRight) -> InstallationFinding:
        """Return the finding of one lacking right, with the command that gives it."""
        right, names = lacking.right, lacking.names
        kind, operation = right.resource_type.replace("_", " "), right.operation.upper()
        on = "the cluster" if kind == "cluster" else f"{kind}s"
        which = f"any {kind}" if lacking.everywhere else first_few(names)
        where = "" if kind == "cluster" else f" on {which}"
        return InstallationFinding(
            check,
            f"{self.place.alias} {kind} {operation}",
            f"{self.principal} lacks the right {operation} on {on} of {self.place.alias}",
            f"{operation} is not allowed{where}; without it {right.purpose}",
            self._remedy(right, names, lacking.everywhere),
            may_pass=True,
        )

    def _remedy(self, right: NeededRight, names: tuple[str, ...], everywhere: bool) -> str:
        grants = (ANY_NAME,) if everywhere and right.resource_type != "cluster" else names
        denials = self._denials(right, names)
        commands = [
            *acl_commands(self.place, "remove", denials),
            *acl_commands(self.place, "add", [self._entry(right.resource_type, n, right.operation) for n in grants]),
        ]
        shown, left = commands[:_MOST_COMMANDS], len(commands[_MOST_COMMANDS:])
        more = [f"{count_of(left, 'more command')}: run these, then doctor again, which shows the rest"] if left else []
        return f"Run: {'; '.join(shown + more)}"

    def _entry(self, resource_type: str, name: str, operation: str, pattern: str = "literal") -> AclEntry:
        return AclEntry(resource_type, name, pattern, self.principal, ANY_HOST, operation, "allow")

    def _denials(self, right: NeededRight, names: Iterable[str]) -> list[AclEntry]:
        if self.rules is None:
            return []
        return sorted(
            entry
            for entry in self.rules.entries
            if entry.permission == "deny"
            and entry.resource_type == right.resource_type
            and entry.operation in (right.operation, "all")
            and entry.concerns(self.principal)
            and any(entry.covers(name) for name in names)
        )

    def own_topics_finding(self) -> Iterator[InstallationFinding]:
        """Yield a finding if the principal lacks a right on Switchback's own topics, by the ACL entries."""
        if self.rules is None:
            return
        lacking = [
            operation
            for operation in OWN_OPERATIONS
            if self.rules.rights(operation, "topic", OWN_TOPICS).names_refused(self.principal)
        ]
        if lacking:
            entry = self._entry("topic", OWN_PREFIX, "all", "prefixed")
            yield InstallationFinding(
                "kafka_rights",
                f"{self.place.alias} own topics",
                f"{self.principal} lacks rights on Switchback's own topics of {self.place.alias}",
                f"{first_few([operation.upper() for operation in lacking])} on topics beginning with {OWN_PREFIX}",
                f"Run: {'; '.join(acl_commands(self.place, 'add', [entry]))}",
                may_pass=True,
            )

    def probe_findings(self) -> Iterator[InstallationFinding]:
        """Yield a finding if the probe's principal lacks a right; DENY entries are left out, as a fence adds them."""
        if self.rules is None or not self.rules.authorizer:
            return
        allows = frozenset(entry for entry in self.rules.entries if entry.permission == "allow")
        rules = AclRules(allows, self.rules.super_users, self.rules.allow_everyone)
        lacking = [o for o in PROBE_OPERATIONS if not rules.may(self.principal, o, "topic", PROBE_TOPIC)]
        if lacking:
            entries = [self._entry("topic", PROBE_TOPIC, operation) for operation in lacking]
            yield InstallationFinding(
                "kafka_rights",
                f"{self.place.alias} probe",
                f"The probe {self.principal} lacks rights on {PROBE_TOPIC} of {self.place.alias}",
                f"no entry allows {' and '.join(operation.upper() for operation in lacking)}: no fence can be proven",
                f"Run: {'; '.join(acl_commands(self.place, 'add', entries))}",
                may_pass=True,
            )


def exempt_findings(alias: str, principal: str, exempt: Iterable[str]) -> Iterator[InstallationFinding]:
    """Yield a finding if the principal of Switchback's own login is none that a fence spares.

    Args:
        principal: "" if only brokers know it.
        exempt: principals that the topology names for the cluster.
    """
    if principal and principal not in exempt:
        yield InstallationFinding(
            "kafka_rights",
            f"{alias} principal",
            f"Switchback's own principal on {alias} is not among those that a fence spares",
            f"the connection logs in as {principal}, the topology names {first_few(sorted(exempt)) or 'none'}",
            f"Name {principal} under `principals: orchestrator` of {alias} in the topology.",
        )


def spared_probe_findings(alias: str, probe: str, spared: Iterable[str]) -> Iterator[InstallationFinding]:
    """Yield a finding if the probe logs in as a principal that a fence does not refuse."""
    if probe in spared:
        yield InstallationFinding(
            "kafka_rights",
            f"{alias} probe's principal",
            f"The probe of {alias} logs in as a principal that a fence spares",
            f"`probe_connection` logs in as {probe}: no fence refuses it, so no fence can be proven by it",
            "Give the probe's connection the login of an ordinary client, which the topology names under no"
            " `principals` and no `super_users`.",
        )


def unnamed_mirror_maker_finding(alias: str) -> InstallationFinding:
    """Return the finding of a cluster with ACL entries for which the topology names no principal of MirrorMaker 2."""
    return InstallationFinding(
        "kafka_rights",
        f"{alias} MirrorMaker 2",
        f"The topology names no principal of MirrorMaker 2 on {alias}",
        f"`principals: mirror_maker` of {alias} is empty; a fence refuses all principals but those in the topology",
        f"Name the principal as which MirrorMaker 2 logs in to {alias} under `principals: mirror_maker` of {alias} in"
        " the topology; its connectors' settings, or those of its Connect workers, have the login.",
    )
