"""Have MirrorMaker 2 copy a canary to a topic of Switchback's: before a fence, and where a changed flow is idle.

Before a fence the topic is fenced like clients', and the connector has the configuration of the reverse flow's source
connector: it writes as the principal as which the reverse flow will write behind the fence. After a change it has the
changed configuration of the flow's own source connector, and nothing is fenced.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kafka_dr.actions.fencing.rules import rules_with, wait_for_every_broker
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.config.topology import Flow
from kafka_dr.domain.fencing.exempt_canary import canary_config, fenced_canary, note_of_grants, read_canary
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules, Authorizer
from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import LeaseLost, NotReady, ReadBackFailed, Superseded, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.interrupts import hold_back
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import CanaryRemoved, CanaryToCopy, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: How long the record may take, in seconds: Connect assigns the connector, whose task then starts its clients.
_COPY_SECONDS = 25.0
_POLL_SECONDS = 0.3
_SETTINGS = {"retention.ms": "3600000", "cleanup.policy": "delete"}
#: Before, every source connector mirrors heartbeats, and older ones emit offset syncs whatever their settings say.
_FIRST_VERSION = (4, 0)
#: Steps that may have left a canary.
_STEPS = (Step.CHECK_READINESS, Step.RESUME_CHANGED_FLOW)


@dataclass(frozen=True)
class CanaryVerdict:
    """What the canary has shown.

    Attributes:
        proven: whether MirrorMaker 2 copied the record.
        seconds: how long that took; None if it was not copied.
        note: what was not proven and why, or what could not be removed, in sentences; "" if nothing.
    """

    proven: bool
    seconds: float | None = None
    note: str = ""


def copy_canary(procedure: Run, step: str) -> CanaryVerdict:
    """Fence the canary's topic, have MirrorMaker 2 copy a record to it, and remove connector and ACL entries again.

    Raises:
        NotReady: the brokers refused MirrorMaker 2's write, and the run is to start the reverse flow.
    """
    flow = procedure.reverse_flow
    why_not = _why_not_tried(procedure, flow)
    if why_not or flow is None:
        return CanaryVerdict(False, note=_not_proven(procedure, why_not))
    canary = _Canary(procedure, step, flow)
    try:
        return canary.try_copy()
    except (SystemUnavailable, ReadBackFailed) as error:
        return canary.unproven(str(error))


def copy_through_changed_flow(procedure: Run, step: str) -> CanaryVerdict:
    """Have a connector with the settings of the flow's source connector copy a record from source to target.

    Raises:
        NotReady: the connector ran, and the record did not come to the target in time.
    """
    flow = procedure.flow
    canary = _Canary(procedure, step, flow, fences=False)
    if why_not := _why_no_connector(procedure, flow) or _why_mirrored(procedure):
        return canary.unproven(why_not)
    try:
        verdict = canary.try_copy()
    except (SystemUnavailable, ReadBackFailed) as error:
        verdict = canary.unproven(str(error))
    if canary.timed_out:
        raise NotReady(
            "The new settings have copied no record of Switchback's own",
            verdict.note,
            f"Read the log of the Connect worker for {procedure.systems.own_names.exempt_connector}. The former"
            " configuration is set again by return_to_source.",
        )
    return verdict


def remove_left_canary(procedure: Run, step: str) -> None:
    """Remove connector and ACL entries of a canary of this run whose process was killed; errors are only recorded."""
    intents = procedure.progress.facts(CanaryToCopy)
    removed = [fact for fact in procedure.progress.facts(CanaryRemoved) if not fact.left]
    of_change = bool(procedure.progress.facts(CanaryToCopy, Step.RESUME_CHANGED_FLOW))
    flow = procedure.flow if of_change else procedure.reverse_flow
    if len(intents) > len(removed) and flow is not None:
        _Canary(procedure, step, flow, fences=not of_change).remove()


class _Canary:
    """One try to have the record copied.

    Args:
        flow: the flow whose source connector's settings are tried; the record is copied in its direction.
        fences: whether the copy's topic is fenced meanwhile.

    Attributes:
        timed_out: whether the connector was started, and neither a copy nor a refusal was seen in time.
    """

    def __init__(self, procedure: Run, step: str, flow: Flow, fences: bool = True) -> None:
        self._procedure, self._step, self._flow, self._fences = procedure, step, flow, fences
        self._original_at, self._copy_at = flow.source, flow.target
        self._names = procedure.systems.own_names
        self._topic, self._connector = self._names.exempt_topic, self._names.exempt_connector
        self._topics = {
            self._original_at: self._topic,
            self._copy_at: procedure.naming.remote(flow.source, self._topic),
        }
        self.timed_out = False

    def unproven(self, why: str) -> CanaryVerdict:
        """Return the verdict that nothing was shown."""
        if self._fences:
            return CanaryVerdict(False, note=_not_proven(self._procedure, why))
        return CanaryVerdict(False, note=f"no record of Switchback's own was copied, either: {why.rstrip('.')}")

    def try_copy(self) -> CanaryVerdict:
        """Try it once, whatever an earlier try has left; return what was shown."""
        procedure = self._procedure
        procedure.authority.hold()
        for alias, topic in self._topics.items():
            self._cluster(alias).create_topic(topic, 1, configs=_SETTINGS)
        if left := self._removed():
            return self.unproven(f"an earlier canary is left: {first_few(left)}")
        rules = {alias: self._rules_of(alias) for alias in (self._copy_at, self._original_at)}
        entries_for = {self._copy_at: fenced_canary if self._fences else read_canary, self._original_at: read_canary}
        wanted = {
            alias: needed(rules[alias], self._topics[alias], procedure.exempt(alias))
            for alias, needed in entries_for.items()
        }
        added = {alias: [e for e in entries if e not in rules[alias].entries] for alias, entries in wanted.items()}
        record_fact(procedure.authority, self._step, CanaryToCopy(canary=self._connector, canary_entries=added))
        try:
            verdict = self._fence_and_copy(rules[self._copy_at], added)
        except (SystemUnavailable, ReadBackFailed) as error:
            verdict = self.unproven(str(error))
        except BaseException:
            with hold_back():
                self.remove()
            raise
        left = self.remove()
        notes = [verdict.note, f"Not removed after the canary: {first_few(left)}." if left else ""]
        return CanaryVerdict(verdict.proven, verdict.seconds, " ".join(filter(None, notes)))

    def _fence_and_copy(self, rules: AclRules, added: dict[str, list[AclEntry]]) -> CanaryVerdict:
        procedure = self._procedure
        for alias, entries in added.items():
            procedure.authority.hold()
            self._acls(alias).add(entries)
        if not_applied := self._not_applied(added):
            return self.unproven(first_few(not_applied))
        begun, refusal = time.monotonic(), self._copied()
        seconds = round(time.monotonic() - begun, 1)
        # Somebody may have removed the entries meanwhile: then neither a copy nor a refusal shows anything.
        if changed := self._not_applied(added):
            return self.unproven(first_few(changed))
        if refusal and self._fences and procedure.request.start_reverse_replication:
            raise self._refused(refusal)
        if refusal:
            return self.unproven(f"on {self._copy_at}: {refusal}")
        first, *others = self._flow.connectors.source
        notes = [
            note_of_grants(rules, self._topic, procedure.exempt(self._copy_at)) if self._fences else "",
            f"The canary had the login of {first}, not of {', '.join(others)}." if others else "",
        ]
        return CanaryVerdict(True, seconds, " ".join(filter(None, notes)))

    def _copied(self) -> str:
        """Write a record on the target, and wait for its copy; return "", or the error that refused the copy.

        Raises:
            ReadBackFailed: the record was not written, or its copy did not appear in time.
        """
        procedure, systems, copies = self._procedure, self._procedure.systems, self._cluster(self._copy_at)
        copy = TopicPartition(self._topics[self._copy_at], 0)
        value, end = f"{procedure.id} {procedure.now()}".encode(), copies.ends([copy])[copy]
        answer = systems.writer(self._original_at).write(self._topic, 0, value)
        if not isinstance(answer, WriteAccepted):
            raise ReadBackFailed("the canary was not written", f"on {self._original_at}: {answer}")
        procedure.authority.hold()
        connector = systems.canary_connector(self._flow.worker)
        connector.start(self._flow.connectors.source[0], partial(canary_config, names=self._names))
        ends_at = time.monotonic() + _COPY_SECONDS
        while time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)
            now = copies.ends([copy])[copy]
            if now > end and value in self._values(copy, end, now):
                return ""
            if refusal := connector.refusal():
                return refusal
        self.timed_out = True
        raise ReadBackFailed("the canary was not copied", f"within {_COPY_SECONDS:g} s")

    def _values(self, copy: TopicPartition, start: int, end: int) -> list[bytes | None]:
        records = self._procedure.systems.reader(self._copy_at).range(copy, start, end)
        return [record.value for record in records]

    def _cluster(self, alias: str) -> KafkaCluster:
        systems = self._procedure.systems
        return systems.source if alias == self._procedure.request.source else systems.target

    def _rules_of(self, alias: str) -> AclRules:
        """Return a cluster's ACL rules as far as they cover the canary's topic; no entries if none decides there."""
        acls = self._acls(alias)
        if acls.authorizer() is not Authorizer.BY_ACL:
            return AclRules(frozenset(), authorizer=False)
        return rules_with(self._procedure, alias, acls.entries_for(self._topics[alias]))

    def _acls(self, alias: str) -> ClusterAcls:
        return self._procedure.systems.acls_of(alias)

    def _not_applied(self, added: dict[str, list[AclEntry]]) -> list[str]:
        """Return what brokers have not applied after `fence_seconds`, as text."""
        return [text for alias, entries in added.items() for text in self._wait(alias, AclChange(tuple(entries)))]

    def _wait(self, alias: str, change: AclChange) -> list[str]:
        if not change:
            return []
        return wait_for_every_broker(
            self._procedure, self._acls(alias), change.list_unapplied, topic=self._topics[alias]
        )

    def remove(self) -> list[str]:
        """Delete connector and ACL entries, and record what is left; return that, as text."""
        left = self._removed()
        record_fact(self._procedure.authority, self._step, CanaryRemoved(canary_removed=self._connector, left=left))
        return left

    def _removed(self) -> list[str]:
        """Delete the connector, and all entries that a run has added for it; return what is left, as text.

        The connector is deleted in the workers of both flows: two that are left would copy in a circle.
        """
        left: list[str] = []
        intents = list(facts_in(self._procedure.journal.entries_of_steps(_STEPS), CanaryToCopy))
        for flow in (self._flow, *([self._procedure.flow] if self._fences else [])):
            _collect(left, partial(self._delete_connector, flow))
        for alias in (self._copy_at, self._original_at):
            added = {entry for fact in intents for entry in fact.canary_entries.get(alias, ())}
            _collect(left, partial(self._remove_entries, alias, added))
        return left

    def _delete_connector(self, flow: Flow) -> list[str]:
        self._procedure.authority.hold()
        self._procedure.systems.canary_connector(flow.worker).delete()
        return []

    def _remove_entries(self, alias: str, added: set[AclEntry]) -> list[str]:
        acls = self._acls(alias)
        standing = added and added & acls.entries_for(self._topics[alias])
        if not standing:
            return []
        self._procedure.authority.hold()
        acls.remove(standing)
        return self._wait(alias, AclChange(removes=tuple(sorted(standing))))

    def _refused(self, refusal: str) -> NotReady:
        names = first_few(sorted(self._procedure.exempt(self._copy_at)))
        return NotReady(
            "MirrorMaker 2 may not write behind the fence",
            f"on {self._copy_at}: {refusal}",
            f"The connector {self._connector}, with the configuration of {self._flow.connectors.source[0]}, was"
            " refused on a topic of Switchback's that was fenced as clients' topics will be. The fence leaves these"
            f" principals alone: {names}. Find out as which principal the producers of this Connect worker log in to"
            f" {self._copy_at}. Give them one that no client has, and name it as `mirror_maker` under `principals` of"
            " the cluster in the topology; then start a new run.",
        )


def _collect(left: list[str], act: Callable[[], list[str]]) -> None:
    """Add to `left` what an act left, or why it failed; a lost lease is raised, because a newer process cleans up."""
    try:
        left += act()
    except (LeaseLost, Superseded):
        raise
    except SwitchbackError as error:
        left.append(str(error))


def _why_not_tried(procedure: Run, flow: Flow | None) -> str:
    """Return why no canary can be copied, as text; "" if one can."""
    if flow is None:
        return "the topology has no reverse flow"
    if flow.connect is None or procedure.flow.connect is None:
        return "MirrorMaker 2 runs in dedicated mode"
    if names_separate_directions(procedure):
        return "the reverse flow writes to topics with a prefix, which are not fenced"
    if procedure.systems.source_acls.authorizer() is not Authorizer.BY_ACL:
        return "no ACL entry decides on the source"
    if why_not := _why_no_connector(procedure, flow):
        return why_not
    if procedure.systems.connect_worker(flow.worker).existing(procedure.flow.connectors.names):
        return "one Connect cluster runs both flows, and a new connector there would disturb the flow that is to drain"
    return _why_mirrored(procedure)


def _why_no_connector(procedure: Run, flow: Flow) -> str:
    worker, name = procedure.mirror_maker(flow), flow.connectors.source[0]
    if name not in worker.existing():
        return f"{name} does not exist"
    if (kafka_version(worker.worker().version) or (0, 0)) < _FIRST_VERSION:
        return "before Kafka 4.0 the canary's connector would mirror heartbeats, too"
    return ""


def _why_mirrored(procedure: Run) -> str:
    topic, reverse = procedure.systems.own_names.exempt_topic, procedure.reverse_flow
    flows = [flow for flow in (procedure.flow, reverse) if flow is not None and flow.connect is not None]
    mirroring = [flow for flow in flows if procedure.mirror_maker(flow).topic_filter().selects(topic)]
    if mirroring:
        pairs = first_few([f"{flow.source}->{flow.target}" for flow in mirroring])
        return f"the flow {pairs} mirrors {topic}: add it to topics.exclude of its source connectors"
    return ""


def _not_proven(procedure: Run, why: str) -> str:
    return (
        f"That MirrorMaker 2 may write to {procedure.request.source} behind the fence is not proven: {why.rstrip('.')}."
    )
