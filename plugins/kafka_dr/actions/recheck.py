"""Check earlier proofs again before the next act, because people decide slowly and processes may be killed."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_dr.actions.fencing.acl_fence import probe_answers, sorted_answers
from kafka_dr.actions.fencing.hook_fence import refuse_lifted_hook
from kafka_dr.actions.fencing.rules import rules_with, wait_for_every_broker
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.groups.at_rest import still_held
from kafka_dr.actions.groups.selected import group_views, held_in_scope
from kafka_dr.actions.replication.stop import STOPPED, parts_of, stopping_since
from kafka_dr.actions.scope.flow_scope import mirrored_now
from kafka_dr.actions.scope.plan_scope import (
    boundary_moved,
    cut_off_of,
    fenced_groups,
    groups_of,
    partitions_of_plan,
    topics_of,
    topics_with_positions,
    written_by_others,
)
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.fencing.fence import FenceScope, still_allowed
from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.observation import GroupView
from kafka_dr.errors import (
    ConnectUnavailable,
    Contradiction,
    DeadlinePassed,
    FenceNotProven,
    HookUnavailable,
    KafkaUnavailable,
    Refusal,
)
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.connect.connector_state import ConnectorStatus
from kafka_dr.hooks.site.stop import StopHook
from kafka_dr.procedure.entries import ConsumersDrained, MirrorMakerStopped, SourceToReopen
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: Timeout, in seconds, of a request to a Connect worker that may run beside a lost source. If the worker does not
#: answer, the log ends of the target show whether its tasks still mirror.
_STATUS_SECONDS = 5.0


def recheck_preconditions(procedure: Run) -> None:
    """Refuse if a proof on which the procedure relies no longer holds on one of the two clusters.

    Checked are the fence and the log ends of the source, unless the source is declared lost. Once stop_mirror_maker is
    done, MirrorMaker 2 must still be stopped, and the log ends of the target must still be the boundary.
    """
    if not procedure.progress.without_source:
        source_still_fenced(procedure)
        source_ends_are_cut_off(procedure)
    if procedure.progress.done(MirrorMakerStopped) is not None:
        mirror_maker_still_stopped(procedure)
        target_ends_are_boundary(procedure)


def source_reopened(procedure: Run) -> bool:
    """Whether the journal has the intent of return_to_source to let clients write on the source again."""
    return bool(procedure.progress.facts(SourceToReopen))


def source_still_fenced(procedure: Run) -> None:
    """Refuse unless the source's fence still holds, by ACL entries, by the fence hook, and by the probe's write.

    Only the fence hook is asked if the source has no authorizer. If clients that belong on the source stay there, only
    the entries against reads of the groups that move are checked.

    Raises:
        FenceNotProven: a client has a right that the fence denies (the error names the client's principal), or a
            broker accepted the probe's write.
        KafkaUnavailable: a broker neither accepted nor refused the probe's write.
    """
    if not procedure.source_stays_open:
        refuse_lifted_hook(procedure)
    by_acl = procedure.systems.source_acls.authorizer() is Authorizer.BY_ACL
    if by_acl and (still_open := _rights_left(procedure)):
        raise FenceNotProven(
            "The fence on the source no longer covers all clients",
            f"rights on {procedure.request.source}: {first_few(still_open)}",
            "The procedure returns to the source by itself. Find out which user or program removed DENY entries from"
            f" {procedure.request.source}, or gave these principals new rights; then start a new run.",
        )
    if procedure.source_stays_open:
        return
    let_in, unclear = sorted_answers(probe_answers(procedure) or {})
    if let_in:
        raise FenceNotProven(
            "The source may accept writes again",
            f"brokers of {procedure.request.source} accepted the probe's write: {let_in}",
            "The procedure returns to the source by itself. Find out which user or program removed the DENY entry of"
            f" the topic {procedure.systems.own_names.probe} from {procedure.request.source}. Then start a new run.",
        )
    if unclear:
        raise KafkaUnavailable(
            "The probe's write got no clear answer, so that the fence on the source is not proven",
            f"answers of brokers of {procedure.request.source}: {unclear}",
            "Start or correct the brokers that the answers name. The step tries again by itself; if all tries fail, the"
            " procedure returns to the source by itself.",
            may_pass=True,
        )


def _rights_left(procedure: Run) -> list[str]:
    """Return rights that the fence denies and a client has, by the ACL entries of any live broker, as text."""
    source, exempt = procedure.request.source, procedure.exempt(procedure.request.source)
    scopes = [] if procedure.source_stays_open else [FenceScope.writes(topics_of(procedure))]
    if procedure.progress.done(ConsumersDrained) is not None:
        scopes.append(FenceScope.group_reads(fenced_groups(procedure)))

    def rights_left(entries: frozenset[AclEntry]) -> list[str]:
        rules = rules_with(procedure, source, entries)
        return [right for scope in scopes for right in still_allowed(rules, scope, exempt)]

    return wait_for_every_broker(procedure, procedure.systems.source_acls, rights_left, until_right=False)


def source_ends_are_cut_off(procedure: Run) -> None:
    """Refuse if the source has records from the cut-off on, log ends below the cut-off, or new topics with records.

    No entry of the fence covers a topic that is created behind the fence. Only log ends show the writes of a super
    user, because no ACL stops a super user. The end marker of a transaction moves a log end, too, but is no record. If
    clients that belong on the source stay there, log ends below the cut-off are refused, and nothing else.
    """
    cut_off = cut_off_of(procedure)
    ends = procedure.systems.source.ends(partitions_of_plan(procedure))
    if not procedure.source_stays_open:
        _refuse_new_topics(procedure)
    shrunk = [f"{tp}: {cut_off[tp]} -> {ends[tp]}" for tp in cut_off if ends[tp] < cut_off[tp]]
    if shrunk:
        raise Contradiction(
            "Log ends of the source lie before the cut-off",
            f"on {procedure.request.source}, cut-off -> log end now: {first_few(shrunk)}",
            "The procedure returns to the source by itself. Find out whether a topic was recreated or its log was"
            " truncated, for example by an unclean leader election, and correct the cause; then start a new run. If a"
            " topic was recreated, check_readiness of the new run says what to do.",
        )
    if procedure.source_stays_open:
        return
    written = newest_records(procedure, {tp: cut_off[tp] for tp in cut_off if ends[tp] > cut_off[tp]})
    if written:
        raise FenceNotProven(
            "The source has records after the cut-off",
            f"on {procedure.request.source}: {first_few(written, separator='; ')}",
            "The procedure returns to the source by itself. Find out which client wrote these records, and stop that"
            " client; then start a new run. No ACL entry stops a super user.",
        )


def _refuse_new_topics(procedure: Run) -> None:
    """Refuse if the flow replicates topics that the plan does not have, and that have records."""
    source = procedure.systems.source
    new = source.topics(mirrored_now(procedure) - set(topics_of(procedure)))
    ends = source.ends([TopicPartition(topic, p) for topic, info in new.items() for p in info.partitions])
    written = sorted({tp.topic for tp, end in ends.items() if end})
    if written:
        raise FenceNotProven(
            "Clients wrote to topics that were created behind the fence",
            f"on {source.alias}: {first_few(written)}",
            "The procedure returns to the source by itself. Find out which client created these topics, and stop that"
            " client; then start a new run, whose plan has these topics.",
        )


def groups_still_at_rest(procedure: Run, clusters: list[KafkaCluster]) -> str:
    """Refuse if a group has members on these clusters, or other positions on the source than drain_consumers saved.

    Returns:
        Text for the journal that says how the positions were proven to be unchanged.

    Raises:
        FenceNotProven: a group has members, or a position has changed.
    """
    groups = groups_of(procedure)
    views = {cluster.alias: group_views(cluster) for cluster in clusters}
    _refuse_new_groups(procedure, views[procedure.request.source])
    for alias, on_cluster in views.items():
        active = sorted(group for group in groups if group in on_cluster and not on_cluster[group].empty)
        if active:
            raise FenceNotProven(
                f"Groups have members on {alias}",
                first_few(active),
                "The procedure returns to the source by itself. Find out which consumers joined these groups on"
                f" {alias}, and stop these consumers; then start a new run.",
            )
    drained = procedure.progress.require(ConsumersDrained)
    frozen = procedure.artifacts.load(drained.positions)
    proof = still_held(procedure, groups, frozen, drained.commits_end)
    if proof is None:
        raise FenceNotProven(
            "Committed positions on the source changed after drain_consumers",
            f"positions on {procedure.request.source} now are not the {len(frozen)} that drain_consumers saved",
            "The procedure returns to the source by itself. Find out which client committed positions of these groups,"
            " and stop that client; then start a new run.",
        )
    return proof


def _refuse_new_groups(procedure: Run, on_source: Mapping[str, GroupView]) -> None:
    """Refuse if groups that drain_consumers has not drained have positions on the plan's topics of the source.

    Args:
        on_source: all groups of the source now, by name.
    """
    known = set(fenced_groups(procedure))
    new = {name: view for name, view in on_source.items() if name not in known}
    if not new:
        return
    config = procedure.mirror_maker(procedure.flow).config(procedure.flow.connectors.checkpoint.name)
    holding = held_in_scope(procedure, new, topics_with_positions(procedure), config)
    names = sorted(set(holding["group"]))
    if names:
        raise FenceNotProven(
            "Groups committed positions behind the fence that drain_consumers did not drain",
            f"on {procedure.request.source}: {first_few(names)}",
            "The procedure returns to the source by itself. Find out which consumers use these groups, and stop these"
            " consumers; then start a new run, whose plan has these groups.",
        )


def mirror_maker_still_stopped(procedure: Run) -> None:
    """Refuse if a connector of the flow source -> target is not STOPPED without tasks.

    If the source is declared lost, a connector that still stops is accepted, because no record comes from the source.
    A flow that runs on, because clients that belong on the source stay there, is not checked.
    """
    if procedure.flow_runs_on:
        return
    for name, status in connector_states(procedure):
        is_stopping = procedure.progress.without_source and (status.state == STOPPED or still_stopping(procedure, name))
        if not (status.stopped or is_stopping):
            raise running_again(status)


def running_again(status: ConnectorStatus) -> Refusal:
    """Return the refusal for a connector that runs although it was STOPPED, or that this run did not ask to stop."""
    return Refusal(
        f"{status.name} runs again",
        f"{status.state} with {len(status.tasks)} tasks, instead of STOPPED without tasks",
        f"The procedure returns to the source by itself. Find out which user or program started {status.name};"
        " then start a new run.",
    )


def still_stopping(procedure: Run, part: str) -> bool:
    """Whether a part was asked to stop less than `stop_seconds` ago, and was not STOPPED since.

    A part is a connector, or in dedicated mode the flow `source->target`.

    Connect takes a minute to close a task whose source does not answer.
    """
    since = stopping_since(procedure, part)
    return since is not None and procedure.progress.now() < since + procedure.request.deadlines.stop_seconds


def connector_states(procedure: Run) -> list[tuple[str, ConnectorStatus]]:
    """Return (name, status) of each connector of the flow source -> target.

    In dedicated mode, the one status is that of all processes of the flow. If the source is declared lost and the
    Connect worker or stop hook does not answer, the connector or flow is left out.
    """
    names = parts_of(procedure.flow)
    if not procedure.progress.without_source:
        return [(name, procedure.mirror_maker(procedure.flow).status(name)) for name in names]
    with run_concurrently() as start:
        calls = {name: start(connector_state, procedure, name) for name in names}
    return [(name, status) for name, call in calls.items() if (status := call.result()) is not None]


def connector_state(procedure: Run, name: str) -> ConnectorStatus | None:
    """Return a connector's status now, by its Connect worker or the stop hook; None without an answer.

    An unknown status is acceptable, because each record that the connector still mirrored would move a log end of the
    target, and log ends of the target are compared with the boundary.
    """
    hook = procedure.systems.stop_hook(procedure.flow)
    if hook is not None:
        return _processes_state(procedure, hook)
    try:
        return procedure.mirror_maker(procedure.flow).status(name, timeout=_STATUS_SECONDS)
    except ConnectUnavailable:
        return None


def _processes_state(procedure: Run, hook: StopHook) -> ConnectorStatus | None:
    """Return a dedicated flow's status, with one task per process; None if the stop hook does not answer."""
    (name,) = parts_of(procedure.flow)
    try:
        running = hook.running(name, timeout=_STATUS_SECONDS)
    except HookUnavailable:
        return None
    return ConnectorStatus(name, "RUNNING" if running else STOPPED, dict.fromkeys(range(running), "RUNNING"))


def target_ends_are_boundary(procedure: Run) -> None:
    """Refuse if a log end of the target differs from the boundary, or from the log end that commit_groups saved.

    If both flows of the pair always run, the target's own clients write to topics that MirrorMaker 2 does not mirror.
    """
    moved = boundary_moved(procedure, written_by_others(procedure))
    if moved:
        raise Refusal(
            "Log ends of the target moved before open_target had begun",
            f"on {procedure.request.target}, recorded log end -> log end now: {first_few(moved)}",
            "The procedure returns to the source by itself. Find out which client or connector wrote to these"
            " partitions, and stop that writer; then start a new run.",
        )


def group_sync_stopped(procedure: Run, step: str) -> None:
    """Wait until the checkpoint connector is STOPPED, because its group sync could overwrite groups' positions.

    In dedicated mode, wait until the flow's processes have ended. If the Connect worker or the stop hook does not
    answer, do not wait: the connector or the processes then count as ended.

    Raises:
        Refusal: the connector runs without a stop request since it was last STOPPED.
        DeadlinePassed: the connector still runs `stop_seconds` after the stop request.
    """
    name, limit = parts_of(procedure.flow)[-1], procedure.request.deadlines.stop_seconds

    def stopped() -> None:
        status, since = connector_state(procedure, name), stopping_since(procedure, name)
        if status is None or status.stopped:
            return
        if since is None:
            raise running_again(status)
        if procedure.progress.now() >= since + limit:
            raise DeadlinePassed(
                f"{name} still runs {limit:.0f} s after the request to stop",
                str(status),
                f"{name} could overwrite positions of groups on {procedure.request.target}. The procedure returns to"
                " the source by itself. Read the log of the Connect worker, and end the worker if it hangs; in"
                " dedicated mode the same for MirrorMaker 2's processes. Then start a new run.",
            )
        raise NotYet(f"{name} was asked to stop and still runs: {status}")

    procedure.progress.wait(step, "Stop of the checkpoint connector", stopped, limit)
