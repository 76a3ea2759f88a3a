"""Stop clients on the source, and prove that they are stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.fencing.fence import FenceScope, fence_entries, still_allowed
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import DeadlinePassed, FenceNotProven, HookUnavailable, KafkaUnavailable, Refusal
from kafka_dr.hooks.site.drain import ApplicationDrain, DrainState
from kafka_dr.hooks.brokers.cluster import GroupInfo, KafkaCluster
from kafka_dr.hooks.brokers.records import Refused, WriteResult
from kafka_dr.actions.readiness.observe import (
    group_views,
    held_in_scope,
    scope_now,
    source_rules,
)
from kafka_dr.actions.fencing.open_transactions import aborted_transactions, named_transactions
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame, positions_of
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.fencing.stable_log_ends import wait_until_still
from kafka_dr.procedure.authority import acting, record
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    ConsumersDrained,
    DrainHookAnswer,
    ExcludedNow,
    GroupsCommitted,
    MirrorMakerStopped,
    PlannedExclusion,
    ProducersFenced,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import added_acl_entries
from kafka_dr.vocabulary import COMMITS_TOPIC, PROBE_TOPIC, Entry

_POLITE_SECONDS = 5.0
_COMMITS_SECONDS = 5.0
#: So many positions are read again in a second; of more, what proves them unchanged is enough.
READ_AGAIN_UP_TO = 50_000


class FenceProducers(ProcedureStep):
    """Ask the applications to stop, then refuse clients' writes on the source, and prove it on every broker."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ProducersFenced:
        """Ask, fence, probe, wait until the log ends are still and no transaction is open; the ends are the cut-off."""
        approval = procedure.approvals.require_plan()
        asked = ask_to_stop(procedure)
        fence = fence_writes(procedure, self.task_id, topics_of(procedure))
        refuse_changed_topics(procedure)
        ends, waited = wait_until_still(procedure, self.task_id, partitions_of_plan(procedure))
        return ProducersFenced(
            approval=approval,
            drain_hook=asked,
            acl_entries_added=fence.added,
            brokers_refusing=fence.refusing,
            still_after_seconds=round(waited, 3),
            open_transactions=named_transactions(procedure, self.task_id),
            transactions_aborted=aborted_transactions(procedure, self.task_id),
            fenced_at=procedure.now() if fence.proven else None,
            cut_off=procedure.artifacts.save("cut_off", partitions_frame(ends, "offset")),
        )


class DrainConsumers(ProcedureStep):
    """Wait until the groups are empty, fence their reads, and freeze what they committed."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ConsumersDrained:
        """Empty the groups, fence, check that they are empty; read stable positions twice alike or without a commit."""
        procedure.approvals.require_plan()
        planned, left_alone = planned_groups(procedure), [one.group for one in excluded_groups(procedure)]
        self._let_finish(procedure, planned)
        add_fence(procedure, self.task_id, FenceScope.group_reads([*planned, *left_alone]))
        # Groups born since the forecast move too; the review asks about them, since nobody approved them yet.
        groups = groups_now(procedure)
        added = add_fence(procedure, self.task_id, FenceScope.group_reads([*groups, *left_alone]))
        wait_until_empty(procedure, self.task_id, groups)
        frame, since = self._frozen_positions(procedure, groups)
        return ConsumersDrained(
            groups=groups,
            groups_since_forecast=sorted(set(groups) - set(planned)),
            excluded=excluded_now(procedure),
            acl_entries_added=len(added),
            positions=procedure.artifacts.save("source_positions", frame),
            commits_end=since,
        )

    def _let_finish(self, procedure: Run, groups: list[str]) -> None:
        """Give consumers the time they were promised to leave by themselves; then their reads are fenced."""
        limit = procedure.request.deadlines.drain_seconds
        began = procedure.progress.clock(self.task_id)

        def left() -> None:
            active = active_groups(procedure.systems.source, groups)
            if active and time.time() < began + limit:
                raise NotYet(f"{len(active)} groups still have members: {first_few(sorted(active))}")

        procedure.progress.wait(self.task_id, "Consumers leaving", left, limit + 5)

    def _frozen_positions(self, procedure: Run, groups: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
        """The positions, and where commits ended before they were read."""

        def frozen() -> tuple[pd.DataFrame, dict[str, int]]:
            since = commits_end(procedure)
            first = positions_frame(procedure, groups)
            if still_held(procedure, groups, first, since) is None:
                raise NotYet("committed positions still change")
            return first, since

        # The step's clock has run since its beginning: what came before may have used its own deadlines up.
        limits = procedure.request.deadlines
        return procedure.progress.wait(
            self.task_id, "Positions at rest", frozen, limits.drain_seconds + 2 * limits.fence_seconds
        )


def ask_to_stop(procedure: Run) -> DrainHookAnswer:
    """Ask the application's drain hook and give it a moment; what it does not do, the fence does."""

    def stopping(hook: ApplicationDrain) -> DrainState:
        hook.ask_to_stop(procedure.id)
        deadline = time.monotonic() + _POLITE_SECONDS
        state = hook.state()
        while state.producers_running and time.monotonic() < deadline:
            time.sleep(0.1)
            state = hook.state()
        return state

    answer = drain_hook_answer(procedure, stopping)
    return replace(answer, asked=answer.answered is not None)


def drain_hook_answer(procedure: Run, send: Callable[[ApplicationDrain], DrainState]) -> DrainHookAnswer:
    """What the application's drain hook answers to a request; `answered` is None without a hook, False if it fails."""
    if procedure.systems.drain is None:
        return DrainHookAnswer()
    try:
        state = send(procedure.systems.drain)
    except HookUnavailable as error:
        return DrainHookAnswer(answered=False, error=str(error))
    return DrainHookAnswer(
        answered=True, producers_running=state.producers_running, consumers_running=state.consumers_running
    )


def topics_of(procedure: Run) -> list[str]:
    """The plan's topics, by their names on the source."""
    return [planned.topic for planned in procedure.progress.move().planned.topics]


def topics_with_positions(procedure: Run) -> set[str]:
    """Topics on the source whose positions move: the plan's, and those that are copies of the target's."""
    return {*topics_of(procedure), *procedure.progress.move().planned.copies}


def cut_off_of(procedure: Run) -> dict[TopicPartition, int]:
    """Where the source's logs stood still behind the fence."""
    return frame_partitions(procedure.artifacts.load(procedure.progress.require(ProducersFenced).cut_off), "offset")


def boundary_of(procedure: Run) -> dict[TopicPartition, int]:
    """Where the target's logs ended once MirrorMaker 2 was stopped."""
    return frame_partitions(procedure.artifacts.load(procedure.progress.require(MirrorMakerStopped).boundary), "offset")


def ends_left(procedure: Run) -> dict[TopicPartition, int]:
    """The boundary, and once groups are committed the ends of the topics that clients will write to."""
    committed = procedure.progress.done(GroupsCommitted)
    local = None if committed is None else procedure.artifacts.load(committed.local_ends)
    return boundary_of(procedure) | ({} if local is None else frame_partitions(local, "offset"))


def boundary_moved(procedure: Run) -> list[str]:
    """Partitions of the target, clients' future topics included, whose log ends moved since they were left."""
    left = ends_left(procedure)
    ends = procedure.systems.target.ends(list(left))
    return [f"{tp}: {left[tp]} -> {ends[tp]}" for tp in sorted(left) if ends[tp] != left[tp]]


def groups_of(procedure: Run) -> list[str]:
    """Groups to wait for: the plan's, after the freeze with those born since; no excluded groups."""
    frozen = procedure.progress.done(ConsumersDrained)
    return list(frozen.groups) if frozen else planned_groups(procedure)


def planned_groups(procedure: Run) -> list[str]:
    """The groups that the approver saw: the plan's."""
    return [planned.group for planned in procedure.progress.move().planned.groups]


def excluded_groups(procedure: Run) -> Sequence[PlannedExclusion]:
    """The groups that the plan excludes: fenced, but not waited for."""
    return procedure.progress.move().planned.excluded


def fenced_groups(procedure: Run) -> list[str]:
    """All groups whose reads are fenced on the source: those that are waited for, and the excluded ones."""
    return sorted({*groups_of(procedure), *(one.group for one in excluded_groups(procedure))})


def excluded_now(procedure: Run) -> list[ExcludedNow]:
    """The excluded groups, and how many members each still has on the source."""
    excluded = excluded_groups(procedure)
    active = active_groups(procedure.systems.source, [one.group for one in excluded])
    members = {name: len(info.members) for name, info in active.items()}
    return [ExcludedNow(one.group, one.reason, one.policy, members.get(one.group, 0)) for one in excluded]


def groups_now(procedure: Run) -> list[str]:
    """Groups the flow selects now with positions on the plan's topics, and all the plan's; no excluded groups."""
    worker, name = procedure.mirror_maker(procedure.flow), procedure.flow.connectors.checkpoint
    found = held_in_scope(
        procedure, group_views(procedure.systems.source), topics_with_positions(procedure), worker.config(name)
    )
    left_alone = {one.group for one in excluded_groups(procedure)}
    return sorted({*found["group"].tolist(), *planned_groups(procedure)} - left_alone)


def refuse_changed_topics(procedure: Run) -> None:
    """The plan's topics are what the flow replicates now: same names, ids and partition counts."""
    planned = {one.topic: (one.topic_id, one.partitions) for one in procedure.progress.move().planned.topics}
    infos = procedure.systems.source.topics()
    now = {t: (infos[t].topic_id, len(infos[t].partitions)) for t in scope_now(procedure, infos)}
    changed = sorted(t for t in planned.keys() | now.keys() if planned.get(t) != now.get(t))
    if changed:
        raise Refusal(
            "Topics changed since the forecast",
            f"made, deleted, recreated or grown: {first_few(changed)}",
            "The procedure returns; start a new one, so that the new plan is approved.",
        )


def partitions_of_plan(procedure: Run) -> list[TopicPartition]:
    """All partitions of the plan's topics on the source."""
    topics = procedure.progress.move().planned.topics
    return [TopicPartition(planned.topic, p) for planned in topics for p in range(planned.partitions)]


def add_fence(procedure: Run, step: str, scope: FenceScope) -> list[AclEntry]:
    """Add what the scope lacks of a fence on the source, read it back, and return all that this procedure added.

    Raises:
        FenceNotProven: when, by the rules read back, some client may still act.
    """
    rules, exempt = source_rules(procedure), procedure.exempt(procedure.request.source)
    if not rules.authorizer:
        return []
    missing = fence_entries(rules, scope, exempt)
    # The probe's entries last: metadata is applied in order, so a broker that refuses the probe refuses all others.
    missing.sort(key=lambda e: e.name == PROBE_TOPIC)
    if missing:
        intent = AclEntriesToAdd(cluster=procedure.request.source, adds_acl_entries=missing)
        record(procedure.authority, step, intent)
        with acting(procedure.authority, lambda: procedure.systems.source_acls.remove(missing)):
            procedure.systems.source_acls.add(missing)
    open_ = still_allowed(source_rules(procedure), scope, exempt)
    if open_:
        raise FenceNotProven(
            "Clients may still act on the source",
            first_few(open_),
            "Look at the ACLs of these principals; a super user cannot be fenced by ACL.",
        )
    return added_entries(procedure)


@dataclass(frozen=True)
class WriteFence:
    """A fence against clients' writes on the source.

    Attributes:
        added: how many ACL entries the procedure added there in all.
        refusing: brokers that refused the probe's write; None without a probe or an authorizer.
        authorizer: whether the source checks rights at all; where it does not, nothing was added.
    """

    added: int
    refusing: list[int] | None
    authorizer: bool

    @property
    def proven(self) -> bool:
        """Whether a probe's write was refused on every broker."""
        return self.refusing is not None and self.authorizer


def fence_writes(procedure: Run, step: str, topics: Iterable[str]) -> WriteFence:
    """Refuse clients' writes to these topics of the source, and prove it on every broker.

    Raises:
        FenceNotProven: by the rules some client may still write.
        DeadlinePassed: some broker did not refuse the probe's write in time.
    """
    added = add_fence(procedure, step, FenceScope.writes([*topics, PROBE_TOPIC]))
    refusing = refused_on_every_broker(procedure, step)
    return WriteFence(len(added), refusing, source_rules(procedure).authorizer)


def refused_on_every_broker(procedure: Run, step: str) -> list[int] | None:
    """Wait until all source brokers refuse the probe for lack of rights; None without a probe or an authorizer."""

    def refused() -> list[int] | None:
        answers = probe_answers(procedure)
        let_in = {broker: answer for broker, answer in (answers or {}).items() if not refused_by_rights(answer)}
        if let_in:
            raise NotYet(f"the probe's write was not refused for want of rights: {let_in}")
        return None if answers is None else sorted(answers)

    return procedure.progress.wait(
        step, "The fence on every broker", refused, procedure.request.deadlines.fence_seconds
    )


def added_entries(procedure: Run) -> list[AclEntry]:
    """Every ACL entry this procedure, or the watcher of its old source for it, meant to add on the source."""
    return list(added_acl_entries(procedure.progress.entries(Entry.INTENT), procedure.request.source))


def probe_answers(procedure: Run) -> dict[int, WriteResult] | None:
    """What every broker of the source answers to the probe's write; None without a probe or an authorizer."""
    probe = procedure.systems.probe(procedure.request.source)
    if probe is None or not source_rules(procedure).authorizer:
        return None
    return {
        broker: probe.probe(PROBE_TOPIC, partition)
        for broker, partition in probe_partitions(procedure.systems.source).items()
    }


def refused_by_rights(answer: WriteResult) -> bool:
    """Whether a write was refused for want of rights: only that proves a fence."""
    return isinstance(answer, Refused) and answer.by_authorization


def probe_partitions(cluster: KafkaCluster) -> dict[int, int]:
    """Broker id -> a partition of the probe's topic that it leads; the topic is made when it is missing.

    Raises:
        FenceNotProven: a broker leads none, so nothing could be proven on it.
    """
    brokers = sorted(b.id for b in cluster.brokers())
    if PROBE_TOPIC not in cluster.topics([PROBE_TOPIC]):
        make_probe_topic(cluster, brokers)
    leaders = cluster.topics([PROBE_TOPIC])[PROBE_TOPIC].partitions
    led = {leader: partition for partition, leader in leaders.items() if leader is not None}
    unproven = sorted(set(brokers) - set(led))
    if unproven:
        raise FenceNotProven(
            "Some brokers lead no partition of the probe's topic",
            f"brokers {unproven}",
            f"Delete {PROBE_TOPIC} on {cluster.alias}: it is made anew with a partition on each broker.",
        )
    return led


def make_probe_topic(cluster: KafkaCluster, brokers: Sequence[int], **limits: Any) -> None:
    """Make the probe's topic, with a partition on each of the brokers."""
    cluster.create_topic(
        PROBE_TOPIC,
        len(brokers),
        assignment=[[broker] for broker in brokers],
        configs={"retention.ms": "3600000"},
        **limits,
    )


def active_groups(cluster: KafkaCluster, groups: list[str]) -> dict[str, GroupInfo]:
    """Those of the groups that have members now."""
    seen = cluster.groups()
    return {name: seen[name] for name in groups if name in seen and not seen[name].empty}


def wait_until_empty(procedure: Run, step: str, groups: list[str]) -> None:
    """Wait until none of the groups has a member on the source; name who is left, and the way out."""
    left: list[str] = []

    def empty() -> None:
        active = active_groups(procedure.systems.source, groups)
        left[:] = sorted(active)
        if active:
            who = "; ".join(
                f"{name}: {', '.join(f'{m.client_id} at {m.host}' for m in info.members[:3])}"
                for name, info in sorted(active.items())[:10]
            )
            raise NotYet(f"{len(active)} groups still have members ({who})")

    try:
        procedure.progress.wait(
            step,
            "Groups empty on the source",
            empty,
            procedure.request.deadlines.drain_seconds + procedure.request.deadlines.fence_seconds,
        )
    except DeadlinePassed as error:
        raise DeadlinePassed(error.reason, error.seen, _way_out(left)) from None


def _way_out(left: list[str]) -> str:
    names = json.dumps(dict.fromkeys(left[:3], "why it is not waited for"))
    return (
        f"Stop these consumers and start a new procedure, or start it with exclude_groups={names}: such a group is not"
        " waited for, its position is left to its policy, and the approver sees both."
    )


def commits_end(procedure: Run) -> dict[str, int]:
    """Log ends of the source's topic of commits, by partition: while they stand, no group's position changes.

    Other groups' commits move the ends, too. Empty where the topic cannot be seen, as on some hosted clusters.
    """
    try:
        topics = procedure.systems.source.topics([COMMITS_TOPIC], timeout=_COMMITS_SECONDS)
        partitions = [TopicPartition(name, p) for name, info in topics.items() for p in info.partitions]
        return {
            str(tp.partition): end
            for tp, end in procedure.systems.source.ends(partitions, timeout=_COMMITS_SECONDS).items()
        }
    except KafkaUnavailable:
        return {}


def still_held(procedure: Run, groups: list[str], positions: pd.DataFrame, since: Mapping[str, int]) -> str | None:
    """Proof that positions, read after commit ends `since`, still stand; None where they do not.

    A topic of commits without any record cannot be where this source keeps them.
    """
    if len(positions) > READ_AGAIN_UP_TO and any(since.values()) and commits_end(procedure) == since:
        return "no commit since"
    again = positions_frame(procedure, groups)
    return "read again" if positions.drop(columns="position_at").equals(again.drop(columns="position_at")) else None


def positions_frame(procedure: Run, groups: list[str]) -> pd.DataFrame:
    """Committed, stable positions of the groups on the plan's topics, sorted; a row per group, topic, partition."""
    read_at = int(time.time() * 1000)
    held = positions_of(procedure.systems.source, groups)
    held = held[held["topic"].isin(topics_with_positions(procedure))].reset_index(drop=True)
    policies = {group: procedure.topology.policy_of(group) for group in groups}
    return held.assign(position_at=read_at, policy=held["group"].map(policies).astype(object)).astype(
        {"position_at": "int64"}
    )
