"""Let clients in on the target: remove DENY entries, write a canary record, tell the application's drain hook."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kafka_dr.actions.fencing.rules import target_rules
from kafka_dr.domain.fencing.fence import FenceScope, opening_entries, refused_to_clients
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import HookUnavailable, ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.hooks.site.drain import ApplicationDrain, DrainState
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import DrainHookAnswer
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import removed_acl_entries
from kafka_dr.vocabulary import CANARY_TOPIC, Entry


def removed_entries(procedure: Run) -> list[AclEntry]:
    """DENY entries on the target that this procedure removed or meant to remove, by its intents in the journal."""
    return list(removed_acl_entries(procedure.progress.entries(Entry.INTENT)))


def plan_opening(procedure: Run, scopes: Sequence[tuple[FenceScope, frozenset[str]]]) -> list[AclEntry]:
    """DENY entries to remove on the target, so that clients may act there.

    Args:
        scopes: per scope (operation and resources), the principals that may act in it.

    Raises:
        Refusal: the approved plan does not list one of these entries.
    """
    denials = [e for scope, principals in scopes for e in opening_entries(target_rules(procedure), scope, principals)]
    unplanned = sorted({str(e) for e in denials} - set(procedure.progress.move().planned.opening))
    if unplanned:
        raise Refusal(
            "The target has DENY entries for clients that the plan does not list",
            first_few(unplanned),
            "The procedure returns to the source by itself. Find out whether the target still needs these ACL entries;"
            " then start a new run, whose plan lists all DENY entries that the run removes.",
        )
    return denials


def remove_denials(
    procedure: Run, denials: list[AclEntry], scopes: Sequence[tuple[FenceScope, frozenset[str]]]
) -> list[str]:
    """Remove DENY entries from the target and read the ACLs back.

    Returns:
        What is still refused to the principals of `scopes` (as of `plan_opening`), as text.

    Raises:
        ReadBackFailed: one of the entries is still on the target.
    """
    with acting_under(procedure.authority, lambda: procedure.systems.target_acls.add(denials)):
        procedure.systems.target_acls.remove(denials)
    rules = target_rules(procedure)
    refused = [
        f"{scope.operation} {r}" for scope, principals in scopes for r in refused_to_clients(rules, scope, principals)
    ]
    if any(e in rules.entries for e in denials):
        raise ReadBackFailed(
            "DENY entries are still on the target",
            first_few(denials),
            "Find out which user or program restores these ACL entries. Wait for return_to_source; if return_to_source"
            " fails because clients already wrote on the target, clear open_target.",
        )
    return refused


def write_canary(procedure: Run) -> dict[str, Any]:
    """Write one record to the canary topic on the target and read it back; return its topic and offset.

    Raises:
        ReadBackFailed: the record was not accepted, or not read back.
    """
    procedure.systems.target.create_topic(CANARY_TOPIC, partitions=1, configs={"retention.ms": "604800000"})
    answer = procedure.systems.writer(procedure.request.target).write(
        CANARY_TOPIC, 0, procedure.now().encode(), key=procedure.id.encode()
    )
    if not isinstance(answer, WriteAccepted):
        raise ReadBackFailed(
            "The target did not accept the canary record",
            str(answer),
            "Check the target's brokers. Wait for return_to_source; if return_to_source fails because clients already"
            " wrote on the target, clear open_target.",
        )
    tp = TopicPartition(CANARY_TOPIC, 0)
    read_back = procedure.systems.reader(procedure.request.target).range(tp, answer.offset, answer.offset + 1)
    if [record.key for record in read_back] != [procedure.id.encode()]:
        raise ReadBackFailed(
            "The canary record could not be read back",
            f"offset {answer.offset} of {CANARY_TOPIC}",
            "Check the target's brokers. Wait for return_to_source; if return_to_source fails because clients already"
            " wrote on the target, clear open_target.",
        )
    return {"topic": CANARY_TOPIC, "offset": answer.offset}


def tell_to_resume(procedure: Run) -> DrainHookAnswer:
    """Tell the application's drain hook that clients may start again where the routing record sends them.

    A silent hook raises no error; the answer says so.
    """
    answer = drain_hook_answer(procedure, lambda hook: hook.tell_to_resume(procedure.id))
    return replace(answer, told=answer.answered is not None)


_STOP_GRACE_SECONDS = 5.0


def ask_to_stop(procedure: Run) -> DrainHookAnswer:
    """Ask the application's drain hook to stop clients, wait up to 5 s until no producer runs; return its answer.

    Writes of producers that still run are refused by the fence.
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
    """Send a request to the drain hook and return its answer.

    `answered` is None without a drain hook, and False if it failed.
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
