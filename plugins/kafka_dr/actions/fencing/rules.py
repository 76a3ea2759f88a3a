"""Read the current ACL rules of source and target, and wait until changed ACL entries are read back."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules, Authorizer
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.standing_fence import FENCING, standing_fence

#: How often ACL entries are read back, in seconds: brokers apply a change one after the other.
READ_AGAIN_SECONDS = 0.2


def source_rules(procedure: Run) -> AclRules:
    """Return the source's ACL entries, read now; none, and `authorizer` False, if no ACL entry decides there."""
    return _rules(procedure, procedure.systems.source_acls, procedure.request.source)


def target_rules(procedure: Run) -> AclRules:
    """Return the target's ACL entries, read now; none, and `authorizer` False, if no ACL entry decides there."""
    return _rules(procedure, procedure.systems.target_acls, procedure.request.target)


def standing_change(procedure: Run, cluster: str) -> AclChange:
    """Return what fences have changed in a cluster's ACL entries, and no procedure has reverted, by the journal."""
    return standing_fence(procedure.journal.entries_of_steps(FENCING), cluster)


def _rules(procedure: Run, acls: ClusterAcls, alias: str) -> AclRules:
    authorizer = acls.authorizer()
    if authorizer is not Authorizer.BY_ACL:
        return AclRules(frozenset(), authorizer=False, rights_elsewhere=authorizer is Authorizer.OTHER)
    return rules_with(procedure, alias, acls.entries())


def rules_with(procedure: Run, alias: str, entries: frozenset[AclEntry]) -> AclRules:
    """Return the ACL rules of a cluster with an authorizer, if these were its ACL entries."""
    cluster = procedure.topology.cluster(alias)
    return AclRules(entries, frozenset(cluster.super_users), cluster.allow_everyone_if_no_acl_found)


def apply_change(procedure: Run, acls: ClusterAcls, change: AclChange) -> list[str]:
    """Add the entries of a change, read them back, then remove the others, and read these back, too.

    Returns:
        What the cluster has not applied after `fence_seconds`, as text; nothing is removed while an entry is missing.
    """
    acls.add(change.adds)
    unapplied = wait_until_applied(procedure, acls, AclChange(change.adds)) if change.adds else []
    if unapplied:
        return unapplied
    acls.remove(change.removes)
    return wait_until_applied(procedure, acls, change)


def wait_until_applied(procedure: Run, acls: ClusterAcls, change: AclChange) -> list[str]:
    """Wait up to `fence_seconds` until all live brokers have applied a change; return what they have not, as text."""
    return wait_for_every_broker(procedure, acls, change.list_unapplied)


def wait_for_every_broker(
    procedure: Run,
    acls: ClusterAcls,
    problems_with: Callable[[frozenset[AclEntry]], list[str]],
    until_right: bool = True,
    topic: str | None = None,
) -> list[str]:
    """Wait up to `fence_seconds` until the ACL entries of each live broker are right; return what is wrong, as text.

    A broker that does not answer is wrong, too: which entries it applies is unknown.

    Args:
        problems_with: returns what is wrong with a broker's ACL entries; [] if nothing is.
        until_right: False if wrong entries are returned at once; then only brokers that do not answer are waited for.
        topic: only literal entries on this topic are read; None: all entries.
    """
    ends_at = time.monotonic() + procedure.request.deadlines.fence_seconds
    while True:
        problems, silent = _problems_by_broker(acls, problems_with, topic)
        is_final = bool(problems) and not until_right
        if is_final or not (problems or silent) or time.monotonic() >= ends_at:
            return problems + silent
        time.sleep(READ_AGAIN_SECONDS)


def _problems_by_broker(
    acls: ClusterAcls, problems_with: Callable[[frozenset[AclEntry]], list[str]], topic: str | None
) -> tuple[list[str], list[str]]:
    """Return what is wrong with the entries of brokers that answer, and which brokers do not answer, as text."""
    applied = acls.entries_by_broker(topic)
    # Nearly always all brokers have the same entries, whose evaluation then takes one pass.
    by_entries = {entries: problems_with(entries) for entries in applied.values() if isinstance(entries, frozenset)}
    return (
        [f"broker {b}: {p}" for b, known in applied.items() if isinstance(known, frozenset) for p in by_entries[known]],
        [f"broker {b}: {known.seen}" for b, known in applied.items() if isinstance(known, KafkaUnavailable)],
    )
