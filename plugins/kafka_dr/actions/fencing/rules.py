"""Read the current ACL rules of source and target."""

from __future__ import annotations

from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.procedure.run import Run


def source_rules(procedure: Run) -> AclRules:
    """Return the source's ACL entries, read now; none, and `authorizer` False, if the source has no authorizer."""
    return _rules(procedure, procedure.systems.source_acls, procedure.request.source)


def target_rules(procedure: Run) -> AclRules:
    """Return the target's ACL entries, read now; none, and `authorizer` False, if the target has no authorizer."""
    return _rules(procedure, procedure.systems.target_acls, procedure.request.target)


def _rules(procedure: Run, acls: ClusterAcls, alias: str) -> AclRules:
    if not acls.authorizer_enabled():
        return AclRules(frozenset(), authorizer=False)
    return AclRules(acls.entries(), allow_everyone=procedure.topology.cluster(alias).allow_everyone_if_no_acl_found)
