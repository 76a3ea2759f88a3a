"""Check proven facts again: people took time, a process was killed, or a machine stood still meanwhile."""

from __future__ import annotations

import time

from kafka_dr.actions.concurrently import run_concurrently
from kafka_dr.actions.fencing.acl_fence import probe_answers, refused_by_rights
from kafka_dr.actions.fencing.rules import source_rules
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.groups.at_rest import active_groups, still_held
from kafka_dr.actions.replication.stop import STOPPED, parts_of, stopping_since
from kafka_dr.actions.scope.plan_scope import (
    boundary_moved,
    cut_off_of,
    fenced_groups,
    groups_of,
    partitions_of_plan,
    topics_of,
)
from kafka_dr.domain.fencing.fence import FenceScope, still_allowed
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import (
    ConnectUnavailable,
    Contradiction,
    DeadlinePassed,
    FenceNotProven,
    HookUnavailable,
    Refusal,
)
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.connect.mirror_maker import ConnectorStatus
from kafka_dr.hooks.site.stop import StopHook
from kafka_dr.procedure.entries import (
    ConsumersDrained,
    MirrorMakerStopped,
    SourceToReopen,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: A worker beside a dead source may be silent; what is then not known of it shows in the target's ends.
_STATUS_SECONDS = 5.0


def recheck_preconditions(procedure: Run) -> None:
    """Refuse if a readable source's fence or cut-off changed or, after the stop, MirrorMaker 2 or the target did."""
    if not procedure.progress.without_source:
        source_still_fenced(procedure)
        source_ends_are_cut_off(procedure)
    if procedure.progress.done(MirrorMakerStopped) is not None:
        mirror_maker_still_stopped(procedure)
        target_ends_are_boundary(procedure)


def source_reopened(procedure: Run) -> bool:
    """Whether return_to_source began to give the source back."""
    return bool(procedure.progress.facts(SourceToReopen))


def source_still_fenced(procedure: Run) -> None:
    """By the ACL entries and by the probe's write; a refusal names who may act."""
    rules, exempt = source_rules(procedure), procedure.exempt(procedure.request.source)
    if not rules.authorizer:
        return
    scopes = [FenceScope.writes(topics_of(procedure))]
    if procedure.progress.done(ConsumersDrained) is not None:
        scopes.append(FenceScope.group_reads(fenced_groups(procedure)))
    open_ = [who for scope in scopes for who in still_allowed(rules, scope, exempt)]
    if open_:
        raise FenceNotProven(
            "The source's fence is not what it was", first_few(open_), "The procedure returns to the source."
        )
    let_in = {
        broker: answer for broker, answer in (probe_answers(procedure) or {}).items() if not refused_by_rights(answer)
    }
    if let_in:
        raise FenceNotProven(
            "The source may accept writes again",
            f"the probe's write was not refused for want of rights: {let_in}",
            "The procedure returns to the source.",
        )


def source_ends_are_cut_off(procedure: Run) -> None:
    """A super user passes every ACL: only the log ends show that nobody wrote since the cut-off.

    The end of a transaction that was begun without a record moves an end, too, and is no write.
    """
    cut_off = cut_off_of(procedure)
    ends = procedure.systems.source.ends(partitions_of_plan(procedure))
    shrunk = [f"{tp}: {cut_off[tp]} -> {ends[tp]}" for tp in cut_off if ends[tp] < cut_off[tp]]
    if shrunk:
        raise Contradiction(
            "Log ends of the source lie before the cut-off",
            first_few(shrunk),
            "A topic was recreated or cut; the procedure returns to the source.",
        )
    written = newest_records(procedure, {tp: cut_off[tp] for tp in cut_off if ends[tp] > cut_off[tp]})
    if written:
        raise FenceNotProven(
            "Somebody wrote on the source after the cut-off",
            first_few(written, separator="; "),
            "Find the writer (a super user passes every ACL); the procedure returns to the source.",
        )


def groups_still_at_rest(procedure: Run, clusters: list[KafkaCluster]) -> str:
    """Refuse members on these clusters and commits since the freeze on the source; return the proof of both."""
    groups = groups_of(procedure)
    for cluster in clusters:
        active = active_groups(cluster, groups)
        if active:
            raise FenceNotProven(
                f"Groups came alive on {cluster.alias}",
                first_few(sorted(active)),
                "Stop those consumers; the procedure returns to the source.",
            )
    drained = procedure.progress.require(ConsumersDrained)
    frozen = procedure.artifacts.load(drained.positions)
    unchanged = still_held(procedure, groups, frozen, drained.commits_end)
    if unchanged is None:
        raise FenceNotProven(
            "Committed positions on the source are not the frozen ones",
            f"{len(frozen)} were frozen",
            "The procedure returns to the source.",
        )
    return unchanged


def mirror_maker_still_stopped(procedure: Run) -> None:
    """Refuse a flow with tasks or processes; without the source, one still stopping passes: it can do no harm."""
    for name, status in connector_states(procedure):
        as_asked = procedure.progress.without_source and (status.state == STOPPED or still_stopping(procedure, name))
        if not (status.stopped or as_asked):
            raise running_again(status)


def running_again(status: ConnectorStatus) -> Refusal:
    """The refusal of a connector that stood, or that nobody asked to stop, and runs."""
    return Refusal(
        f"{status.name} runs again",
        f"{status.state} with {len(status.tasks)} tasks",
        "Find who resumed it; the procedure returns to the source.",
    )


def still_stopping(procedure: Run, part: str) -> bool:
    """Tell whether a part was asked to stop and has time left: Connect takes a minute to close a dead source."""
    since = stopping_since(procedure, part)
    return since is not None and time.time() < since + procedure.request.deadlines.stop_seconds


def connector_states(procedure: Run) -> list[tuple[str, ConnectorStatus]]:
    """States of the flow's connectors; with a source given up, without those of a silent worker."""
    names = parts_of(procedure.flow)
    if not procedure.progress.without_source:
        return [(name, procedure.mirror_maker(procedure.flow).status(name)) for name in names]
    with run_concurrently() as start:
        asked = {name: start(connector_state, procedure, name) for name in names}
    return [(name, status) for name, one in asked.items() if (status := one.result()) is not None]


def connector_state(procedure: Run, name: str) -> ConnectorStatus | None:
    """State of a part of the flow without its source; None if unknown: what it mirrors would move target ends."""
    hook = procedure.systems.stop_hook(procedure.flow)
    if hook is not None:
        return _processes_state(procedure, hook)
    try:
        return procedure.mirror_maker(procedure.flow).status(name, timeout=_STATUS_SECONDS)
    except ConnectUnavailable:
        return None


def _processes_state(procedure: Run, hook: StopHook) -> ConnectorStatus | None:
    """State of the flow's processes by the stop hook, as of a connector with a task each; None if it is silent."""
    (name,) = parts_of(procedure.flow)
    try:
        running = hook.running(name, timeout=_STATUS_SECONDS)
    except HookUnavailable:
        return None
    return ConnectorStatus(name, "RUNNING" if running else STOPPED, dict.fromkeys(range(running), "RUNNING"))


def target_ends_are_boundary(procedure: Run) -> None:
    """Nobody wrote on the target since MirrorMaker 2 was stopped."""
    moved = boundary_moved(procedure)
    if moved:
        raise Refusal(
            "Somebody wrote on the target before it was opened",
            first_few(moved),
            "Find the writer; the procedure returns to the source.",
        )


def group_sync_stopped(procedure: Run, step: str) -> None:
    """Wait until the checkpoint connector (dedicated: process) stops: its group sync could set back groups in use.

    A worker or a stop hook that is silent died with the source, as far as anybody can know, and is not waited for.

    Raises:
        Refusal: it runs, and nobody has asked it to stop since it stood.
        DeadlinePassed: it does not stand `stop_seconds` after it was asked.
    """
    name, limit = parts_of(procedure.flow)[-1], procedure.request.deadlines.stop_seconds

    def stopped() -> None:
        status, since = connector_state(procedure, name), stopping_since(procedure, name)
        if status is None or status.stopped:
            return
        if since is None:
            raise running_again(status)
        if time.time() >= since + limit:
            raise DeadlinePassed(
                f"{name} does not stand still {limit:.0f} s after it was asked to stop",
                str(status),
                "It could move groups: look at the worker's log, or end the worker; the procedure returns to the"
                " source.",
            )
        raise NotYet(f"{name} was asked to stop and still has to: {status}")

    procedure.progress.wait(step, "The checkpoint connector standing still", stopped, limit)
