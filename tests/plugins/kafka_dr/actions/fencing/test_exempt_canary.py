"""MirrorMaker 2 copies a canary onto a fenced topic, or is refused; nothing of it stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.fencing import exempt_canary
from kafka_dr.actions.fencing.exempt_canary import CanaryVerdict, copy_canary
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable, NotReady
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.vocabulary import EXEMPT_TOPIC, Step

from tests.support.bench import GRANT
from tests.support.fake_systems import FakeSystems

TP = TopicPartition(EXEMPT_TOPIC, 0)
STEP = Step.CHECK_READINESS.value


class Connector:
    """The canary's connector: copies the newest record to the primary if its principal may write there."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.principal, self.runs, self.deleted = bench, "User:mm2", True, 0
        self.value, self.copied, self.refused, self.seen = b"", list[bytes](), "", frozenset[AclEntry]()

    def start(self, like: str, change: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        assert like == "s.source" and change({"name": like})["topics"]
        if not self.runs:
            return
        primary = self.bench.clusters["primary"]
        self.seen = frozenset(primary.acls)
        if AclRules(self.seen).may(self.principal, "write", "topic", EXEMPT_TOPIC):
            primary.log_ends[TP] = primary.log_ends.get(TP, 0) + 1
            self.copied.append(self.value)
        else:
            self.refused = "TopicAuthorizationException: Not authorized to access topics"

    def refusal(self) -> str:
        return self.refused

    def delete(self) -> None:
        self.deleted += 1


@pytest.fixture
def connector(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Connector:
    """A connector that copies what is written on the standby."""
    made = Connector(bench)

    def write(topic: str, partition: int, value: bytes) -> WriteAccepted:
        made.value = value
        return WriteAccepted(0, 1)

    def values(tp: TopicPartition, start: int, end: int) -> list[Any]:
        return [SimpleNamespace(value=value) for value in made.copied]

    monkeypatch.setattr(FakeSystems, "canary_connector", lambda self, connection: made, raising=False)
    monkeypatch.setattr(FakeSystems, "writer", lambda self, alias: SimpleNamespace(write=write))
    monkeypatch.setattr(FakeSystems, "reader", lambda self, alias: SimpleNamespace(range=values))
    monkeypatch.setattr(exempt_canary, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(exempt_canary, "_COPY_SECONDS", 0.2)
    return made


def copy(bench: Any) -> CanaryVerdict:
    """Have the canary copied by a run that was just opened."""
    return copy_canary(bench.procedure() if bench.entries(STEP) else bench.opened(), STEP)


def on_the_topic(bench: Any) -> set[AclEntry]:
    """Return the entries on the canary's topic, on both clusters."""
    return {e for cluster in bench.clusters.values() for e in cluster.acls if e.name == EXEMPT_TOPIC}


def test_a_copied_canary_proves_the_principal(bench: Any, connector: Connector) -> None:
    """It was fenced meanwhile: the client was denied by name; afterwards connector and entries are gone."""
    bench.clusters["primary"].acls.add(GRANT)
    before = {alias: set(cluster.acls) for alias, cluster in bench.clusters.items()}
    verdict = copy(bench)
    assert verdict.proven and verdict.seconds is not None and not verdict.note
    assert AclEntry("topic", EXEMPT_TOPIC, "literal", "User:app", "*", "write", "deny") in connector.seen
    assert {alias: cluster.acls for alias, cluster in bench.clusters.items()} == before and connector.deleted == 2
    (intent,) = bench.entries(STEP)
    assert set(intent.payload["canary_entries"]) == {"primary", "standby"}


@pytest.mark.parametrize("principal", ["User:app", "User:somebody"])
def test_a_principal_that_is_not_exempt_is_refused(bench: Any, connector: Connector, principal: str) -> None:
    """A client's, or one that the topology does not name: the fence would stop the reverse flow."""
    connector.principal = principal
    with pytest.raises(NotReady, match="MirrorMaker 2 may not write behind the fence.*User:mm2"):
        copy(bench)
    assert connector.deleted == 2 and not on_the_topic(bench)


def test_a_canary_that_is_not_copied_proves_nothing(bench: Any, connector: Connector) -> None:
    """A slow worker, or rights that MirrorMaker 2 lacks on the target: the plan says so, and the run goes on."""
    connector.runs = False
    verdict = copy(bench)
    assert not verdict.proven and "not proven: no copy within" in verdict.note and not on_the_topic(bench)


def test_a_worker_that_does_not_answer_proves_nothing(
    bench: Any, connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named in the plan; the entries go all the same."""

    def away(*_: Any) -> None:
        raise ConnectUnavailable("PUT failed", "no answer", "start it")

    monkeypatch.setattr(connector, "start", away)
    monkeypatch.setattr(connector, "delete", away)
    assert "PUT failed" in copy(bench).note and not on_the_topic(bench)


def test_what_a_killed_process_left_is_removed(bench: Any, connector: Connector) -> None:
    """Every entry on the canary's topic is Switchback's."""
    bench.clusters["primary"].acls.add(AclEntry("topic", EXEMPT_TOPIC, "literal", "User:old", "*", "write", "deny"))
    assert copy(bench).proven and not on_the_topic(bench)


def mirrored(bench: Any) -> None:
    """A filter of the flow that excludes nothing."""
    bench.workers["standby"].settings = {"topics": ".*", "topics.exclude": "none"}


def without_reverse(bench: Any) -> None:
    """The reverse flow was never made."""
    del bench.workers["primary"].states["s.source"]


def heartbeats(bench: Any) -> None:
    """An older worker, whose connectors all mirror heartbeats."""
    bench.workers["primary"].version = "3.7.2"
    bench.clusters["standby"].partitions["heartbeats"] = {0: 1}


def no_authorizer(bench: Any) -> None:
    """Nothing is fenced by entries."""
    bench.clusters["primary"].authorizer = False


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        (mirrored, "the flow primary->standby mirrors switchback-canary.replica"),
        (without_reverse, "s.source does not exist"),
        (heartbeats, "before Kafka 4.0 each source connector mirrors heartbeats"),
        (no_authorizer, "no ACL entry decides on the source"),
    ],
)
def test_where_none_can_be_copied_the_plan_says_why(
    bench: Any, connector: Connector, arrange: Callable[[Any], None], why: str
) -> None:
    """Nothing is touched."""
    arrange(bench)
    verdict = copy(bench)
    assert not verdict.proven and why in verdict.note
    assert (
        bench.entries(STEP) == []
        and connector.deleted == 0
        and EXEMPT_TOPIC not in bench.clusters["primary"].partitions
    )
