"""ACL fence: deny clients' actions on the source, and prove the denial by ACL rules and a probe's write."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from kafka_dr.actions.fencing.hook_fence import asked_fence_hook
from kafka_dr.actions.fencing.probe_topic import probe_partitions
from kafka_dr.actions.fencing.rules import (
    READ_AGAIN_SECONDS,
    rules_with,
    source_rules,
    standing_change,
    wait_for_every_broker,
    wait_until_applied,
)
from kafka_dr.domain.fencing.fence import FenceScope, fence_changes, grants_to_everyone, still_allowed
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, Authorizer
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import FenceNotProven, KafkaUnavailable, NotReady
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused, WriteResult
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import AclEntriesToAdd, GrantsToReplace
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import fence_change
from kafka_dr.vocabulary import Entry

#: How many brokers the probe writes to at once.
_MOST_PROBES = 32


def add_fence(procedure: Run, step: str, scope: FenceScope) -> list[AclEntry]:
    """Change the source's ACL entries so that they refuse the scope to clients, and read the entries back.

    ALLOW entries for User:* are removed last, when the entries that replace them are read back: a process that is
    killed in between leaves the source open to clients, and never refuses MirrorMaker 2.

    Returns:
        All ACL entries that this procedure has added on the source; [] if the source has no authorizer.

    Raises:
        FenceNotProven: by the ACLs read back, a client still has a right of the scope after `fence_seconds`.
    """
    rules, exempt = source_rules(procedure), procedure.exempt(procedure.request.source)
    if not rules.authorizer:
        return []
    existing = _names_on_source(procedure, scope) if grants_to_everyone(rules, scope) else ()
    changes = fence_changes(rules, scope, exempt, existing)
    # The probe's ACL entries last, because brokers apply metadata in order: one that refuses the probe refuses clients.
    probe = procedure.systems.own_names.probe
    added = sorted(changes.added, key=lambda entry: entry.name == probe)
    if changes.replaced:
        of_clients = [entry for entry in added if entry.name != probe]
        _add_entries(procedure, step, of_clients)
        _replace_grants(procedure, step, AclChange(tuple(of_clients), changes.replaced))
        added = added[len(of_clients) :]
    _add_entries(procedure, step, added)
    _require_fenced(procedure, scope, exempt)
    return added_entries(procedure)


def _names_on_source(procedure: Run, scope: FenceScope) -> Collection[str]:
    """Return the names of all topics, or of all groups, on the source."""
    source = procedure.systems.source
    return source.topics() if scope.resource_type == "topic" else source.groups()


def _add_entries(procedure: Run, step: str, entries: list[AclEntry]) -> None:
    if not entries:
        return
    record_fact(procedure.authority, step, AclEntriesToAdd(cluster=procedure.request.source, adds_acl_entries=entries))
    with acting_under(procedure.authority, lambda: procedure.systems.source_acls.remove(entries)):
        procedure.systems.source_acls.add(entries)


def _replace_grants(procedure: Run, step: str, change: AclChange) -> None:
    """Remove ALLOW entries for User:* when the entries that replace them, which were just added, are read back."""
    source, acls, grants = procedure.request.source, procedure.systems.source_acls, change.removes
    unapplied = wait_until_applied(procedure, acls, AclChange(change.adds))
    if unapplied:
        raise FenceNotProven(
            "The entries that replace ALLOW entries for User:* cannot be read back",
            f"on {source}: {first_few(unapplied)}",
            f"No ALLOW entry was removed: clients may still write on {source}. Find out in the brokers' logs why these"
            " brokers lag behind the cluster's metadata, or which user or program removes the entries; then start a"
            " new run.",
        )
    record_fact(procedure.authority, step, GrantsToReplace(cluster=source, replaces_acl_entries=grants))
    with acting_under(procedure.authority, lambda: acls.add(grants)):
        acls.remove(grants)


def _require_fenced(procedure: Run, scope: FenceScope, exempt: frozenset[str]) -> None:
    """Wait until the ACLs of every broker give no client the scope; raise FenceNotProven after `fence_seconds`."""
    source = procedure.request.source
    still_open = wait_for_every_broker(
        procedure,
        procedure.systems.source_acls,
        lambda entries: still_allowed(rules_with(procedure, source, entries), scope, exempt),
    )
    if still_open:
        raise FenceNotProven(
            "Clients may still act on the source",
            f"on {source}: {first_few(still_open)}",
            "Switchback added the DENY entries of the fence, and these principals still have rights. List the ACL"
            f" entries of these principals on {source}. Find out which user or program adds rights or removes DENY"
            " entries, or why these brokers lag behind the cluster's metadata; then start a new run.",
        )


@dataclass(frozen=True)
class WriteFence:
    """A fence against clients' writes on the source.

    Attributes:
        added: number of all ACL entries that the procedure has added on the source.
        refusing: ids of the source's brokers that refused the probe's write; None without a probe or an authorizer.
        authorizer: whether ACL entries decide on the source; if not, no ACL entry was added.
        who_may_write: what lists all principals that may write, so that the fence covers them: `acl entries`, or `fence
            hook`; None if nothing does. A fence without entries refuses no client, whatever a broker answers the probe.
    """

    added: int
    refusing: list[int] | None
    authorizer: bool
    who_may_write: str | None

    @property
    def proven(self) -> bool:
        """Whether the fence covers all writers, and every broker of the source refused the probe's write."""
        return self.refusing is not None and self.who_may_write is not None


def fence_writes(procedure: Run, step: str, topics: Iterable[str], by_hook: bool = False) -> WriteFence:
    """Deny clients' writes to these topics of the source by ACL, and prove the denial on every broker of the source.

    Args:
        by_hook: whether the fence hook fences the source already, whatever ACL entries say.

    Raises:
        FenceNotProven: by the ACLs a client still has the right to write.
        DeadlinePassed: a broker did not refuse the probe's write within `fence_seconds`.
    """
    added = add_fence(procedure, step, FenceScope.writes([*topics, procedure.systems.own_names.probe]))
    refusing = refused_on_every_broker(procedure, step)
    source = procedure.request.source
    listed = "acl entries" if standing_change(procedure, source) else "fence hook" if by_hook else None
    return WriteFence(len(added), refusing, procedure.systems.source_acls.authorizer() is Authorizer.BY_ACL, listed)


def refused_on_every_broker(procedure: Run, step: str) -> list[int] | None:
    """Wait until all brokers of the source refuse the probe's write with an authorization error.

    Returns:
        The brokers' ids, sorted; None, without waiting, if the source has no probe, or everyone may write there.

    Raises:
        DeadlinePassed: a broker did not refuse the write within `fence_seconds`.
    """

    def refused() -> list[int] | None:
        answers = probe_answers(procedure)
        let_in = {broker: answer for broker, answer in (answers or {}).items() if not refused_by_rights(answer)}
        if let_in:
            raise NotYet(f"brokers did not refuse the probe's write with an authorization error: {let_in}")
        return None if answers is None else sorted(answers)

    return procedure.progress.wait(
        step, "The fence on every broker", refused, procedure.request.deadlines.fence_seconds
    )


def refuse_probe_without_rights(procedure: Run) -> list[int] | None:
    """Refuse unless every broker of the source lets the probe write: only then does a later refusal prove a fence.

    Returns:
        Ids of the brokers that accepted the probe's write, sorted. None, without a check, if there is no probe, if
        everyone may write, or if this procedure has begun to fence the source.

    Raises:
        NotReady: a broker refuses the probe's write for lack of rights.
        KafkaUnavailable: a broker neither accepted the probe's write nor refused it for lack of rights.
    """
    if added_entries(procedure) or asked_fence_hook(procedure):
        return None
    source, topic = procedure.request.source, procedure.systems.own_names.probe
    ends_at = time.monotonic() + procedure.request.deadlines.fence_seconds
    while True:
        answers = probe_answers(procedure)
        failing = [
            (broker, answer) for broker, answer in (answers or {}).items() if not isinstance(answer, WriteAccepted)
        ]
        if not failing:
            return None if answers is None else sorted(answers)
        seen = f"on {source}: {first_few([f'broker {broker}: {answer}' for broker, answer in failing])}"
        if any(refused_by_rights(answer) for _, answer in failing):
            raise NotReady(
                "The probe cannot write on the source, although the source is not fenced",
                seen,
                "Clients are not fenced. If this probe's write is refused behind the fence, that proves no fence. Give"
                f" the probe's principal WRITE and DESCRIBE on the topic {topic} of {source}; then start a new run.",
            )
        # A topic that was just made, or a broker that just started, accepts writes after a moment.
        if time.monotonic() >= ends_at:
            raise KafkaUnavailable(
                "Brokers of the source do not accept the probe's write, although the source is not fenced",
                seen,
                "Clients are not fenced. Start the brokers that the answers name, or correct their errors. The step"
                " tries again by itself; if all tries fail, start a new run.",
                may_pass=True,
            )
        time.sleep(READ_AGAIN_SECONDS)


def added_entries(procedure: Run) -> list[AclEntry]:
    """Return the ACL entries that this procedure, or the watcher on its behalf, intended to add on the source."""
    return list(fence_change(procedure.progress.entries(Entry.INTENT), procedure.request.source).adds)


def probe_answers(procedure: Run) -> dict[int, WriteResult] | None:
    """Let the probe write to every broker of the source, to all at once; return broker id -> answer.

    None if the topology names no probe for the source, or if the source has no authorizer.
    """
    probe = procedure.systems.probe(procedure.request.source)
    if probe is None or procedure.systems.source_acls.authorizer() is Authorizer.NONE:
        return None
    topic = procedure.systems.own_names.probe
    partitions = probe_partitions(procedure.systems.source, topic)
    with ThreadPoolExecutor(_MOST_PROBES) as pool:
        return dict(zip(partitions, pool.map(partial(probe.probe, topic), partitions.values()), strict=True))


def dead_brokers(cluster: KafkaCluster, topics: Iterable[str]) -> list[int]:
    """Return the ids of brokers that have replicas of these topics and are not live: no request can reach them."""
    replicas = {broker for info in cluster.topics(topics).values() for ids in info.replicas.values() for broker in ids}
    return sorted(replicas - {broker.id for broker in cluster.brokers()})


def refused_by_rights(answer: WriteResult) -> bool:
    """Whether a broker refused a write with an authorization error: only such a refusal proves a fence."""
    return isinstance(answer, WriteRefused) and answer.by_authorization


def sorted_answers(answers: Mapping[int, WriteResult]) -> tuple[dict[int, WriteAccepted], dict[int, WriteResult]]:
    """Return the answers of brokers that accepted the probe's write, and those that neither accept nor refuse it."""
    accepted = {broker: answer for broker, answer in answers.items() if isinstance(answer, WriteAccepted)}
    unclear = {
        broker: answer for broker, answer in answers.items() if broker not in accepted and not refused_by_rights(answer)
    }
    return accepted, unclear
