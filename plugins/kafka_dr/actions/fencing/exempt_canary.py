"""Have MirrorMaker 2 copy a canary to the source, to a topic of Switchback's that is fenced like clients'.

The connector has the configuration of the reverse flow's source connector, so it writes as the principal as which the
reverse flow will write behind the fence.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from kafka_dr.actions.fencing.rules import rules_with, wait_for_every_broker
from kafka_dr.config.topology import Flow
from kafka_dr.domain.fencing.exempt_canary import canary_config, fenced_canary, note_of_grants, read_canary
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules, Authorizer
from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady, ReadBackFailed, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import CanaryToCopy
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import EXEMPT_CONNECTOR, EXEMPT_TOPIC

#: How long the record may take, in seconds: Connect assigns the connector, whose task then starts its clients.
_COPY_SECONDS = 25.0
_POLL_SECONDS = 0.3
_SETTINGS = {"retention.ms": "3600000", "cleanup.policy": "delete"}


@dataclass(frozen=True)
class CanaryVerdict:
    """What the canary has shown.

    Attributes:
        proven: whether MirrorMaker 2 copied the record.
        seconds: how long that took; None if it was not copied.
        note: what was not proven and why, in a sentence; "" if nothing.
    """

    proven: bool
    seconds: float | None = None
    note: str = ""


def copy_canary(procedure: Run, step: str) -> CanaryVerdict:
    """Fence the canary's topic, have MirrorMaker 2 copy a record to it, and remove connector and ACL entries again.

    Raises:
        NotReady: the brokers refused MirrorMaker 2's write.
    """
    flow = procedure.reverse_flow
    why_not = _why_not_tried(procedure, flow)
    if why_not or flow is None:
        return CanaryVerdict(False, note=_not_proven(procedure, why_not))
    try:
        return _Canary(procedure, step, flow).copy()
    except (SystemUnavailable, ReadBackFailed) as error:
        return CanaryVerdict(False, note=_not_proven(procedure, str(error)))


class _Canary:
    """One try to have the record copied."""

    def __init__(self, procedure: Run, step: str, flow: Flow) -> None:
        self._procedure, self._step, self._flow = procedure, step, flow
        self._source, self._target = procedure.request.source, procedure.request.target
        self._copy = TopicPartition(procedure.naming.remote(flow.source, EXEMPT_TOPIC), 0)
        self._topics = {self._source: self._copy.topic, self._target: EXEMPT_TOPIC}
        self._connector = procedure.systems.canary_connector(flow.worker)

    def copy(self) -> CanaryVerdict:
        procedure = self._procedure
        procedure.systems.target.create_topic(EXEMPT_TOPIC, 1, configs=_SETTINGS)
        procedure.systems.source.create_topic(self._copy.topic, 1, configs=_SETTINGS)
        self._remove()
        rules = {alias: _rules_for(procedure, alias, topic) for alias, topic in self._topics.items()}
        entries = {
            self._source: fenced_canary(rules[self._source], self._copy.topic, procedure.exempt(self._source)),
            self._target: read_canary(rules[self._target], EXEMPT_TOPIC, procedure.exempt(self._target)),
        }
        record_fact(procedure.authority, self._step, CanaryToCopy(canary=EXEMPT_CONNECTOR, canary_entries=entries))
        try:
            for alias, added in entries.items():
                procedure.authority.hold()
                unapplied = self._add(alias, AclChange(added))
                if unapplied:
                    return CanaryVerdict(False, note=_not_proven(procedure, first_few(unapplied)))
            begun = time.monotonic()
            if not self._copied():
                return CanaryVerdict(False, note=_not_proven(procedure, f"no copy within {_COPY_SECONDS:g} s"))
            return CanaryVerdict(
                True, round(time.monotonic() - begun, 1), note_of_grants(rules[self._source], self._copy.topic)
            )
        finally:
            self._remove()

    def _copied(self) -> bool:
        """Write a record on the target; return whether its copy is on the source in time."""
        procedure, systems = self._procedure, self._procedure.systems
        value, end = f"{procedure.id} {procedure.now()}".encode(), systems.source.ends([self._copy])[self._copy]
        answer = systems.writer(self._target).write(EXEMPT_TOPIC, 0, value)
        if not isinstance(answer, WriteAccepted):
            return False
        procedure.authority.hold()
        self._connector.start(self._flow.connectors.source[0], canary_config)
        ends_at = time.monotonic() + _COPY_SECONDS
        while time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)
            now = systems.source.ends([self._copy])[self._copy]
            if now > end and value in self._values(end, now):
                return True
            if refusal := self._connector.refusal():
                raise self._refused(refusal)
        return False

    def _values(self, start: int, end: int) -> list[bytes | None]:
        records = self._procedure.systems.reader(self._source).range(self._copy, start, end)
        return [record.value for record in records]

    def _add(self, alias: str, change: AclChange) -> list[str]:
        """Add entries; return what brokers have not applied after `fence_seconds`, as text."""
        if not change:
            return []
        acls = self._procedure.systems.acls_of(alias)
        acls.add(change.adds)
        return wait_for_every_broker(self._procedure, acls, change.list_unapplied, topic=self._topics[alias])

    def _remove(self) -> None:
        """Delete the connector, and all ACL entries of the canary's topics, also those that a killed process left."""
        with suppress(SwitchbackError):
            self._connector.delete()
        for alias, topic in self._topics.items():
            with suppress(SwitchbackError):
                acls = self._procedure.systems.acls_of(alias)
                change = AclChange(removes=tuple(_of_topic(acls.entries_for(topic), topic)))
                acls.remove(change.removes)
                wait_for_every_broker(self._procedure, acls, change.list_unapplied, topic=topic)

    def _refused(self, refusal: str) -> NotReady:
        names = first_few(sorted(self._procedure.exempt(self._source)))
        return NotReady(
            "MirrorMaker 2 may not write behind the fence",
            f"on {self._source}: {refusal}",
            f"The connector {EXEMPT_CONNECTOR}, with the configuration of {self._flow.connectors.source[0]}, was"
            " refused on a topic of Switchback's that was fenced as clients' topics will be. The fence leaves these"
            f" principals alone: {names}. Find out as which principal the producers of this Connect worker log in to"
            f" {self._source}. Give them one that no client has, and name it as `mirror_maker` under `principals` of"
            " the cluster in the topology; then start a new run.",
        )


def _why_not_tried(procedure: Run, flow: Flow | None) -> str:
    """Return why no canary can be copied, as text; "" if one can."""
    if flow is None:
        return "the topology has no reverse flow"
    if procedure.systems.source_acls.authorizer() is not Authorizer.BY_ACL:
        return "no ACL entry decides on the source"
    if flow.connect is None or procedure.flow.connect is None:
        return "MirrorMaker 2 runs in dedicated mode"
    if flow.worker == procedure.flow.worker:
        return "one Connect cluster runs both flows, and a new connector there would disturb the flow that is to drain"
    worker = procedure.mirror_maker(flow)
    if flow.connectors.source[0] not in worker.existing():
        return f"{flow.connectors.source[0]} does not exist"
    if (kafka_version(worker.worker().version) or (0, 0)) < (4, 0) and _has_heartbeats(procedure):
        return "before Kafka 4.0 each source connector mirrors heartbeats, so the canary's would mirror them twice"
    names = [EXEMPT_TOPIC, procedure.naming.remote(flow.source, EXEMPT_TOPIC)]
    mirroring = [f for f in (procedure.flow, flow) if any(map(procedure.mirror_maker(f).topic_filter().selects, names))]
    if mirroring:
        pairs = first_few([f"{f.source}->{f.target}" for f in mirroring])
        return f"the flow {pairs} mirrors {EXEMPT_TOPIC}: add it to topics.exclude of its source connectors"
    return ""


def _rules_for(procedure: Run, alias: str, topic: str) -> AclRules:
    """Return a cluster's ACL rules as far as they cover a topic; `authorizer` is False if no ACL entry decides."""
    acls = procedure.systems.acls_of(alias)
    if acls.authorizer() is not Authorizer.BY_ACL:
        return AclRules(frozenset(), authorizer=False)
    return rules_with(procedure, alias, acls.entries_for(topic))


def _has_heartbeats(procedure: Run) -> bool:
    return any(map(procedure.naming.is_heartbeats, procedure.systems.target.topics()))


def _not_proven(procedure: Run, why: str) -> str:
    return f"That MirrorMaker 2 may write to {procedure.request.source} behind the fence is not proven: {why}."


def _of_topic(entries: Iterable[AclEntry], topic: str) -> list[AclEntry]:
    return sorted(e for e in entries if (e.resource_type, e.name, e.pattern) == ("topic", topic, "literal"))
