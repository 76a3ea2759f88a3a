"""Keep the old flow from writing to the target, and let a flow write again that is to be started."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.fencing.rules import apply_change
from kafka_dr.domain.fencing.old_flow import why_not_harmless, writer_denials
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules, Authorizer
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.errors import ReadBackFailed
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import WriterDenialsToRemove
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.standing_fence import OPENING, own_denials


def writers_on_target(procedure: Run) -> frozenset[str]:
    """Return the principals of MirrorMaker 2 on the target, by the topology."""
    return frozenset(procedure.topology.cluster(procedure.request.target).principals.mirror_maker)


def flow_denials(procedure: Run, rules: AclRules, topics: Iterable[str]) -> tuple[AclEntry, ...]:
    """Return the entries that keep the flow source->target from writing these topics of the source to the target.

    None if the flow runs on, because clients that belong on the source stay there.

    Args:
        rules: the target's ACL entries as they are once clients may work there.
    """
    if procedure.flow_runs_on:
        return ()
    data_topics = [procedure.naming.remote(procedure.request.source, topic) for topic in topics]
    return writer_denials(rules, data_topics, writers_on_target(procedure))


def old_flow_text(procedure: Run, rules: AclRules, denials: Iterable[AclEntry]) -> str:
    """Return a sentence for the evidence on what keeps the old flow from writing to the target."""
    if procedure.flow_runs_on:
        return f"the flow {procedure.request.source}->{procedure.request.target} always runs, and goes on"
    writers, topics = writers_on_target(procedure), {e.name for e in denials if e.permission == "deny"}
    problem = why_not_harmless(rules, procedure.request.target, writers)
    if problem and not topics:
        return problem
    refused = f"{', '.join(sorted(writers))} may not write to {count_of(len(topics), 'topic')} of"
    return " ".join([f"{refused} {procedure.request.target}.", *([problem] if problem else [])])


def let_flow_write(procedure: Run, step: str, alias: str) -> int:
    """Remove what earlier procedures added on a cluster to keep MirrorMaker 2 from writing; return how many entries.

    Called before a flow to this cluster runs: clients have left the cluster, so its flow is no old flow any more.

    Raises:
        ReadBackFailed: the entries are still there after `fence_seconds`.
    """
    own = own_denials(procedure.journal.entries_of_steps(OPENING), alias)
    if not own:
        return 0
    acls = procedure.systems.acls_of(alias)
    present = acls.entries() if acls.authorizer() is Authorizer.BY_ACL else frozenset()
    standing = tuple(entry for entry in own if entry in present)
    if not standing:
        return 0
    record_fact(procedure.authority, step, WriterDenialsToRemove(cluster=alias, lets_flow_write=standing))
    procedure.authority.hold()
    unapplied = apply_change(procedure, acls, AclChange(removes=standing))
    if unapplied:
        raise ReadBackFailed(
            "MirrorMaker 2 may not write to the cluster that the flow is to copy to",
            f"on {alias}: {first_few(unapplied)}",
            "These entries of an earlier procedure made its old flow harmless. Find out which user or program restores"
            f" these ACL entries of {alias}; then clear {step}.",
        )
    return len(standing)
