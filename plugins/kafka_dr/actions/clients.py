"""Open the target to clients: revert its fences, write a canary record, call the application's drain hook."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kafka_dr.actions.fencing.old_flow import flow_denials
from kafka_dr.actions.fencing.rules import apply_change, standing_change, target_rules
from kafka_dr.domain.fencing.fence import FenceScope, opening_entries, refused_to_clients
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import HookUnavailable, KafkaUnavailable, ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused
from kafka_dr.hooks.site.drain import ApplicationDrain, DrainState
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import DrainHookAnswer
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.standing_fence import OPENING, own_denials
from kafka_dr.procedure.undo import opening_change
from kafka_dr.vocabulary import Entry


def rules_listing_clients(procedure: Run, on_source: AclRules, on_target: AclRules) -> tuple[AclRules, frozenset[str]]:
    """Return the ACL rules whose ALLOW entries list the clients' principals, and the exempt principals there.

    These are the source's rules; if no ACL entry decides on the source, the target's.
    """
    request = procedure.request
    if on_source.authorizer:
        return on_source, procedure.exempt(request.source)
    return on_target, procedure.exempt(request.target)


def begun_opening(procedure: Run) -> AclChange:
    """Return what this procedure changed, or intended to change, in the target's ACL entries, by journal intents."""
    return opening_change(procedure.progress.entries(Entry.INTENT))


@dataclass(frozen=True)
class Opening(AclChange):
    """The change by which clients can act on the target.

    Attributes:
        denials: those of `adds` that keep the old flow from writing to the target.
    """

    denials: tuple[AclEntry, ...] = ()

    @property
    def grants(self) -> tuple[AclEntry, ...]:
        """Those of `adds` that an earlier fence had replaced: ALLOW entries for User:*."""
        return tuple(entry for entry in self.adds if entry not in self.denials)

    def with_planned_denials(self, planned: Collection[str]) -> Opening:
        """Return the change with those denials only whose topic has all of its entries in the plan."""
        unplanned = {entry.name for entry in self.denials if str(entry) not in planned}
        denials = tuple(entry for entry in self.denials if entry.name not in unplanned)
        return Opening((*self.grants, *denials), self.removes, denials)


def plan_opening(procedure: Run, scopes: Sequence[tuple[FenceScope, frozenset[str]]]) -> Opening:
    """Return the change of the target's ACL entries by which clients can act on the target.

    Entries against the old flow that the plan does not list are left out.

    Args:
        scopes: pairs of a scope (operation and resources) and the principals of clients that act in that scope.

    Raises:
        Refusal: the approved plan does not list a part of the change.
    """
    change, planned = opening_of(procedure, target_rules(procedure), scopes), procedure.progress.move().planned
    unplanned = sorted({str(e) for e in change.removes} - set(planned.opening))
    if unplanned:
        raise Refusal(
            "The target has DENY entries for clients that the plan does not list",
            f"on {procedure.request.target}: {first_few(unplanned)}",
            "The procedure returns to the source by itself. Find out which user or program added these ACL entries. If"
            " open_target may remove them, start a new run, whose plan lists them. If an entry must stay, start no new"
            " run.",
        )
    lost = sorted({str(e) for e in change.grants} - set(planned.opening_adds))
    if lost:
        raise Refusal(
            "ALLOW entries that the plan expects are missing on the target",
            f"on {procedure.request.target}: {first_few(lost)}",
            "The procedure returns to the source by itself. An earlier fence replaced these entries for User:*, and"
            " they were there again when the plan was made. Find out which user or program removed them since; then"
            " start a new run, whose plan adds them.",
        )
    return change.with_planned_denials(planned.denials)


def opening_of(procedure: Run, rules: AclRules, scopes: Sequence[tuple[FenceScope, frozenset[str]]]) -> Opening:
    """Return the change that reverts all fences of the target, and removes other DENY entries against its clients.

    The change also keeps the old flow from writing to the target's topics.

    Args:
        rules: the target's ACL entries.
        scopes: pairs of a scope (operation and resources) and the principals of clients that act in that scope; the
            first scope is that of writes.
    """
    target = procedure.request.target
    fence, own = standing_change(procedure, target), own_denials(procedure.journal.entries_of_steps(OPENING), target)
    refusals = [e for scope, principals in scopes for e in opening_entries(rules, scope, principals)]
    # A fence may have replaced an entry of an earlier opening: that entry ended with the opening, so it stays away.
    grants = tuple(e for e in fence.removes if e not in rules.entries and e not in own)
    removes = tuple(dict.fromkeys([*refusals, *(e for e in fence.adds if e in rules.entries)]))
    opened = rules.with_entries(grants).without_entries(removes)
    denials = flow_denials(procedure, opened, scopes[0][0].names)
    return Opening((*grants, *denials), removes, denials)


def open_to_clients(
    procedure: Run, change: AclChange, scopes: Sequence[tuple[FenceScope, frozenset[str]]]
) -> list[str]:
    """Change the target's ACL entries so that clients can act, and read the entries back.

    Returns:
        Operations and resources that the target still refuses to principals in `scopes`, as text; [] if none.

    Args:
        change: ALLOW entries to add first, and entries to remove then.
        scopes: pairs of a scope (operation and resources) and the principals of clients that act in that scope.

    Raises:
        ReadBackFailed: after `fence_seconds` the target has not applied the change.
    """
    acls = procedure.systems.target_acls

    def close() -> None:
        acls.add(change.removes)
        acls.remove(change.adds)

    with acting_under(procedure.authority, close):
        unapplied = apply_change(procedure, acls, change)
    rules = target_rules(procedure)
    refused = [
        f"{scope.operation} {r}" for scope, principals in scopes for r in refused_to_clients(rules, scope, principals)
    ]
    if unapplied:
        raise ReadBackFailed(
            "The target has not applied the change of its ACL entries",
            f"on {procedure.request.target}: {first_few(unapplied)}",
            f"Clients may be able to act on part of {procedure.request.target}. Find out which user or program changes"
            " these ACL entries. Wait for return_to_source, which fences the target again; then start a new run. If"
            " return_to_source fails because clients already wrote on the target, clear open_target instead.",
        )
    return refused


def write_canary(procedure: Run) -> dict[str, Any]:
    """Write one record to the canary topic on the target and read the record back; return its topic and offset.

    Raises:
        KafkaUnavailable: the target neither accepted the record nor refused it for good, as when a leader moves.
        ReadBackFailed: the target refused the record, or the record was not read back.
    """
    topic = procedure.systems.own_names.canary
    procedure.systems.target.create_topic(topic, partitions=1, configs={"retention.ms": "604800000"})
    answer = procedure.systems.writer(procedure.request.target).write(
        topic, 0, procedure.now().encode(), key=procedure.id.encode()
    )
    if not isinstance(answer, WriteAccepted):
        refused = isinstance(answer, WriteRefused) and not answer.may_pass
        failure = ReadBackFailed if refused else partial(KafkaUnavailable, may_pass=True)
        raise failure(
            "The target did not accept the canary record",
            str(answer),
            f"The DENY entries are removed: clients may write on {procedure.request.target}. Correct what this answer"
            " names (the brokers' logs have the details). Wait for return_to_source, which fences the target again;"
            " then start a new run. If return_to_source fails because clients already wrote on the target, clear"
            " open_target instead.",
        )
    tp = TopicPartition(topic, 0)
    read_back = procedure.systems.reader(procedure.request.target).range(tp, answer.offset, answer.offset + 1)
    if [record.key for record in read_back] != [procedure.id.encode()]:
        raise ReadBackFailed(
            "The canary record could not be read back",
            f"offset {answer.offset} of {topic}",
            f"The DENY entries are removed: clients may write on {procedure.request.target}. Find out in the logs of"
            f" the brokers of {procedure.request.target} whether the partition's log lost this record. Wait for"
            " return_to_source, which fences the target again; then start a new run. If return_to_source fails because"
            " clients already wrote on the target, clear open_target instead.",
        )
    return {"topic": topic, "offset": answer.offset}


def tell_to_resume(procedure: Run) -> DrainHookAnswer:
    """Send the drain hook the request to start the application's clients again, and return the hook's answer.

    The clients start on the cluster that the routing record names. If the hook does not answer, no error is raised:
    `answered` is then False, and `error` has the reason. `told` is True if the topology names a drain hook.
    """
    answer = drain_hook_answer(procedure, lambda hook: hook.tell_to_resume(procedure.id))
    return replace(answer, told=answer.answered is not None)


_STOP_GRACE_SECONDS = 5.0


def ask_to_stop(procedure: Run) -> DrainHookAnswer:
    """Ask the drain hook to stop the application's clients, and wait up to 5 s until no producer runs.

    Returns:
        The hook's last answer; `answered` is None without a drain hook, and False if the hook did not answer. Producers
        that still run are no error, because the fence refuses their writes.
    """

    def stopping(hook: ApplicationDrain) -> DrainState:
        hook.ask_to_stop(procedure.id)
        deadline = time.monotonic() + _STOP_GRACE_SECONDS
        state = hook.state()
        while state.producers_running and time.monotonic() < deadline:
            time.sleep(0.1)
            state = hook.state()
        return state

    answer = drain_hook_answer(procedure, stopping)
    return replace(answer, asked=answer.answered is not None)


def drain_hook_answer(procedure: Run, send: Callable[[ApplicationDrain], DrainState]) -> DrainHookAnswer:
    """Send a request to the drain hook and return the hook's answer.

    `answered` is None without a drain hook. It is False if the hook did not answer; `error` then has the reason.

    Args:
        send: function that sends the request, and returns which of the application's clients run.
    """
    if procedure.systems.drain is None:
        return DrainHookAnswer()
    try:
        state = send(procedure.systems.drain)
    except HookUnavailable as error:
        return DrainHookAnswer(answered=False, error=str(error))
    return DrainHookAnswer(
        answered=True, producers_running=state.producers_running, consumers_running=state.consumers_running
    )
