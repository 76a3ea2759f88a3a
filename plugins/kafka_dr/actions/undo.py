"""Parts of a rollback: fence the target, lift the source's fence, resume replication, count records afterwards."""

from __future__ import annotations

import time
from typing import Any

from kafka_dr.actions.fencing.acl_fence import probe_answers
from kafka_dr.actions.fencing.hook_fence import keep_clients_out
from kafka_dr.actions.fencing.rules import apply_change, source_rules
from kafka_dr.actions.history.moves import target_opened_before
from kafka_dr.actions.replication.enabled_flow import enable_sources
from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.actions.replication.stop import parts_of
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_moved, partitions_of_plan, topics_of
from kafka_dr.domain.kafka_model.acl import AclChange
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, DeadlinePassed, ReadBackFailed, Refusal, SystemUnavailable
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrainHookAnswer, FailoverForecast, SourceAclEntriesToRemove, TargetOpened
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import Undo, left_to_undo
from kafka_dr.vocabulary import Entry, Step

#: Longest wait, in seconds, for a first record of a client and a first mirrored record; then 0 is reported.
_FIRST_RECORD_SECONDS = 10.0
_POLL_SECONDS = 0.2
#: How long, in seconds, to wait until a connector runs again if its source may not answer.
_LOST_SOURCE_SECONDS = 20.0
_ON_RETURNED_CLUSTER = (
    Step.FENCE_RETURNED_CLUSTER,
    Step.PREPARE_TOPICS,
    Step.RECONCILE_STRANDED_RECORDS,
    Step.SEED_FLOW_BACK,
    Step.START_FLOW_BACK,
)


def left_on_returned_cluster(procedure: Run) -> list[str] | None:
    """Return the steps of a failback that have begun to change the returned cluster; None if no such step has begun.

    A rollback does not undo these changes. The fence on the returned cluster remains, too: while clients work on the
    new primary, no client may write on the returned cluster.
    """
    return [step.value for step in _ON_RETURNED_CLUSTER if procedure.progress.began(step) is not None] or None


def probe_refused_by(procedure: Run) -> dict[str, str]:
    """Wait up to 10 s until no broker of the source refuses the probe's write after the fence was lifted.

    Returns:
        Broker id -> answer, of the brokers that still refuse; {} if none refuses, or without a probe or an authorizer.
    """
    ends_at = time.monotonic() + min(_FIRST_RECORD_SECONDS, procedure.request.deadlines.fence_seconds)
    while True:
        answers = probe_answers(procedure) or {}
        refusing = {
            str(broker): str(answer) for broker, answer in answers.items() if not isinstance(answer, WriteAccepted)
        }
        if not refusing or time.monotonic() > ends_at:
            return refusing
        time.sleep(_POLL_SECONDS)


def count_mirrored_records(procedure: Run, drain_answer: DrainHookAnswer) -> dict[str, Any]:
    """Count the records that clients write on the source after the rollback, and the records that are mirrored.

    Args:
        drain_answer: the drain hook's answer; if producers run, wait up to 10 s for first records.

    Returns:
        Fields of SourceReturned: both counts (numbers of offsets), or why records could not be counted. {} without a
        forecast, because the topics are then unknown.
    """
    if procedure.progress.done(FailoverForecast) is None:
        return {}
    try:
        return _count_new_records(procedure, drain_answer)
    except SystemUnavailable as error:
        return {"records_not_seen": str(error)}


def _count_new_records(procedure: Run, drain_answer: DrainHookAnswer) -> dict[str, int]:
    partitions = partitions_of_plan(procedure)
    remote = remote_partitions(procedure, partitions)
    before = _sum_log_ends(procedure, remote)
    ends_at = time.monotonic() + (
        _FIRST_RECORD_SECONDS if drain_answer.producers_running else procedure.request.deadlines.stable_seconds
    )
    while True:
        time.sleep(min(_POLL_SECONDS, procedure.request.deadlines.stable_seconds))
        written, mirrored = (
            now - earlier for now, earlier in zip(_sum_log_ends(procedure, remote), before, strict=True)
        )
        if (written and mirrored) or time.monotonic() > ends_at:
            return {"records_written_since": written, "records_mirrored_since": mirrored}


def _sum_log_ends(procedure: Run, remote: dict[TopicPartition, TopicPartition]) -> tuple[int, int]:
    """Return the sum of all log ends on the source, and the sum of all log ends on the target.

    Args:
        remote: source partition -> target partition.
    """
    return sum(procedure.systems.source.ends(list(remote)).values()), sum(
        procedure.systems.target.ends(list(remote.values())).values()
    )


def list_undos(procedure: Run) -> list[Undo]:
    """Return what a rollback has to undo, in order, by the intents of this run and of the watcher for this run.

    A repeated rollback undoes everything again, also what an earlier try of return_to_source has undone.
    """
    progress = procedure.progress
    intents, parts = progress.entries(Entry.INTENT), parts_of(procedure.flow)
    return left_to_undo(intents, procedure.request.source, parts, only_asked=progress.without_source)


def close_target(procedure: Run, opening: AclChange) -> None:
    """Fence the target again: revert what open_target changed in the target's ACL entries.

    Raises:
        ReadBackFailed: the entries read back differ.
        Refusal: open_target is done, or clients have written on the target; then no rollback is possible.
    """
    if procedure.progress.done(TargetOpened) is not None:
        raise Refusal(
            "The target is open",
            f"open_target is done: clients may write on {procedure.request.target}. This try of return_to_source"
            " changed nothing",
            "Do not clear return_to_source: clear the failed step after open_target with its downstream tasks. To move"
            " clients back later, run failback.",
        )
    procedure.authority.hold()
    keep_clients_out(procedure)
    unapplied = apply_change(procedure, procedure.systems.target_acls, opening.undo)
    if unapplied:
        raise ReadBackFailed(
            "The target could not be fenced again",
            f"on {procedure.request.target}: {first_few(unapplied)}",
            f"Clients may be able to write on {procedure.request.target}. Find out which user or program changes these"
            " ACL entries; then clear return_to_source.",
        )
    # Brokers apply an ACL within moments; records that a broker accepted before that are in the log after this wait.
    time.sleep(procedure.request.deadlines.stable_seconds)
    moved = boundary_moved(procedure)
    if moved:
        raise Refusal(
            "Clients already wrote on the target",
            f"on {procedure.request.target}, recorded log end -> log end now: {first_few(moved)}",
            f"{procedure.request.target} is fenced again. Clear open_target with its downstream tasks: the procedure"
            f" then moves clients to {procedure.request.target}. A return to {procedure.request.source} would strand"
            " these records.",
        )


def resume_replication(procedure: Run, names: list[str]) -> dict[str, Any]:
    """Resume the connectors that this run stopped; return the fields of SourceReturned about the connectors.

    If the source is declared lost, in a failback, or in dedicated mode, a connector that cannot be resumed raises no
    error: the field `replication_left_stopped` then has the reason.

    Nothing is resumed if the source is declared lost and an earlier procedure has moved clients to the target, because
    the flow would add records of the source to topics in which clients work.

    Args:
        names: the connectors that this run stopped.
    """
    # In a failback the returned cluster, which has no clients, may fail again: the rollback must not depend on it.
    flows_back = procedure.progress.began(Step.FENCE_RETURNED_CLUSTER) is not None
    may_fail, seconds = procedure.progress.without_source or flows_back, procedure.request.deadlines.stop_seconds
    if not may_fail and procedure.flow.connect:
        return {"connectors_resumed": _resume_connectors(procedure, names, seconds)}
    moved = target_opened_before(procedure) if names and procedure.progress.without_source else None
    if moved is not None:
        source, target = procedure.request.source, procedure.request.target
        return {
            "connectors_resumed": [],
            "replication_left_stopped": f"by the journal, clients work on {target} since {moved.id}: the flow from"
            f" {source} would add records to their topics. If clients work on {source}, resume this flow manually",
        }
    try:
        seconds = _LOST_SOURCE_SECONDS if may_fail else seconds
        return {"connectors_resumed": _resume_connectors(procedure, names, seconds)}
    except (SystemUnavailable, DeadlinePassed, BadInput) as error:
        return {"connectors_resumed": [], "replication_left_stopped": str(error)}


def _resume_connectors(procedure: Run, names: list[str], seconds: float) -> list[str]:
    if not names:
        return []
    refuse_loop(procedure)
    # It ran before this run; somebody, or the end of another run, may have disabled it meanwhile.
    enable_sources(procedure, Step.RETURN_TO_SOURCE, procedure.flow)
    worker = procedure.systems.flow_connectors(procedure.flow)
    # No task has a checkpoint connector without groups, and a source connector without topics, or whose source is away.
    needing_tasks = () if procedure.progress.without_source else worker.connectors_with(topics_of(procedure))
    for name in names:
        procedure.authority.hold()
        worker.resume(name, deadline=seconds, needs_tasks=name in needing_tasks)
    return names


def lift_source_fence(procedure: Run, step: str, fence: AclChange) -> int:
    """Revert the fence on the source and read the ACLs back; return how many ACL entries the fence had changed.

    ALLOW entries for User:* that the fence replaced are added again first, so that clients lose no right in between.

    Args:
        fence: the entries that the fence added, and the entries that the fence removed.

    Raises:
        ReadBackFailed: the entries read back differ.
    """
    if not fence:
        return 0
    source, changed = procedure.request.source, len(fence.adds + fence.removes)
    if not fence.undo.list_unapplied(source_rules(procedure).entries):
        return changed
    record_fact(procedure.authority, step, SourceAclEntriesToRemove(removes_acl_entries=len(fence.adds)))
    procedure.authority.hold()
    unapplied = apply_change(procedure, procedure.systems.source_acls, fence.undo)
    if unapplied:
        raise ReadBackFailed(
            "The fence on the source is not reverted",
            f"on {source}: {first_few(unapplied)}",
            "These ACL entries still refuse clients. Find out which user or program restores or removes these ACL"
            " entries; then clear return_to_source.",
        )
    return changed
