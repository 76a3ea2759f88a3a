"""MirrorMaker 2 copies a canary onto a fenced topic, or is refused; nothing of it stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.fencing import exempt_canary
from kafka_dr.actions.fencing.exempt_canary import CanaryVerdict, copy_canary, remove_left_canary
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
        self.stays, self.meanwhile = False, lambda: None

    def start(self, like: str, change: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        assert like == "s.source" and change({"name": like})["topics"]
        if not self.runs:
            return
        primary = self.bench.clusters["primary"]
        self.seen = frozenset(primary.acls)
        self.meanwhile()
        if AclRules(self.seen).may(self.principal, "write", "topic", EXEMPT_TOPIC):
            primary.log_ends[TP] = primary.log_ends.get(TP, 0) + 1
            self.copied.append(self.value)
        else:
            self.refused = "TopicAuthorizationException: Not authorized to access topics"

    def refusal(self) -> str:
        return self.refused

    def delete(self) -> None:
        self.deleted += 1
        if self.stays:
            raise ConnectUnavailable("DELETE failed", "no answer", "start it")


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
    assert {alias: cluster.acls for alias, cluster in bench.clusters.items()} == before and connector.deleted == 4
    intent, removed = bench.entries(STEP)
    assert set(intent.payload["canary_entries"]) == {"primary", "standby"}
    assert removed.payload["left"] == []


@pytest.mark.parametrize("principal", ["User:app", "User:somebody"])
def test_a_principal_that_is_not_exempt_is_refused(bench: Any, connector: Connector, principal: str) -> None:
    """A client's, or one that the topology does not name: the fence would stop the reverse flow."""
    connector.principal = principal
    bench.params = {**bench.params, "start_reverse_replication": True}
    with pytest.raises(NotReady, match="MirrorMaker 2 may not write behind the fence.*User:mm2"):
        copy(bench)
    assert connector.deleted == 4 and not on_the_topic(bench)


def test_a_run_that_starts_no_reverse_flow_goes_on(bench: Any, connector: Connector) -> None:
    """The approver reads it in the plan."""
    connector.principal = "User:app"
    verdict = copy(bench)
    assert not verdict.proven and "not proven: on primary: TopicAuthorizationException" in verdict.note


@pytest.mark.parametrize("principal", ["User:mm2", "User:app"])
def test_entries_that_somebody_removes_meanwhile_prove_nothing(
    bench: Any, connector: Connector, principal: str
) -> None:
    """Neither a copy nor a refusal counts then."""
    connector.principal, bench.params = principal, {**bench.params, "start_reverse_replication": True}
    bench.fast_fence = True
    connector.meanwhile = bench.clusters["primary"].acls.clear
    verdict = copy(bench)
    assert not verdict.proven and "is not proven" in verdict.note


def test_what_could_not_be_removed_is_named(bench: Any, connector: Connector) -> None:
    """In the plan and in the journal; the end of the run tries again."""
    connector.stays = True
    assert "an earlier canary is left: DELETE failed" in copy(bench).note
    connector.stays = False
    assert copy(bench).proven


def test_a_broker_that_lags_behind_proves_nothing(bench: Any, connector: Connector) -> None:
    """It may still let everybody write; so the connector is not started."""
    bench.clusters["primary"].lags = {2: frozenset()}
    bench.params = {**bench.params, "fence_seconds": 0.3}
    verdict = copy(bench)
    assert not verdict.proven and "not proven: broker 2" in verdict.note and connector.value == b""


def test_a_canary_that_is_not_copied_proves_nothing(bench: Any, connector: Connector) -> None:
    """A slow worker, or rights that MirrorMaker 2 lacks on the target: the plan says so, and the run goes on."""
    connector.runs = False
    verdict = copy(bench)
    assert not verdict.proven and "the canary was not copied" in verdict.note and not on_the_topic(bench)


def test_a_worker_that_does_not_answer_proves_nothing(
    bench: Any, connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named in the plan; the entries go all the same, and what is left is in the journal."""

    def away(*_: Any) -> None:
        connector.stays = True
        raise ConnectUnavailable("PUT failed", "no answer", "start it")

    monkeypatch.setattr(connector, "start", away)
    note = copy(bench).note
    assert "PUT failed" in note and "Not removed after the canary: DELETE failed" in note and not on_the_topic(bench)
    assert "DELETE failed" in bench.entries(STEP)[-1].payload["left"][0]
    connector.stays = False
    remove_left_canary(bench.procedure(), Step.CLOSE_PROCEDURE)
    assert bench.entries(Step.CLOSE_PROCEDURE)[-1].payload["left"] == []
    remove_left_canary(bench.procedure(), Step.CLOSE_PROCEDURE)
    assert len(bench.entries(Step.CLOSE_PROCEDURE)) == 1, "nothing is left to remove"


def test_what_a_killed_process_left_is_removed(
    bench: Any, connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly the entries of its intent: an entry that the site has on the topic stays."""
    foreign = AclEntry("topic", EXEMPT_TOPIC, "literal", "User:site", "*", "describe", "allow")
    bench.clusters["primary"].acls.add(foreign)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connector, "start", killed)
        patch.setattr(exempt_canary._Canary, "remove", lambda self: [])
        with pytest.raises(KeyboardInterrupt):
            copy(bench)
    assert len(on_the_topic(bench)) > 1
    assert copy(bench).proven and on_the_topic(bench) == {foreign}


def mirrored(bench: Any) -> None:
    """A filter of the flow that excludes nothing."""
    bench.workers["standby"].settings = {"topics": ".*", "topics.exclude": "none"}


def without_reverse(bench: Any) -> None:
    """The reverse flow was never made."""
    del bench.workers["primary"].states["s.source"]


def older(bench: Any) -> None:
    """An older worker, whose connectors all mirror heartbeats."""
    bench.workers["primary"].version = "3.9.1"


def shared(bench: Any) -> None:
    """Two addresses of one Connect cluster."""
    bench.workers["primary"].states |= bench.workers["standby"].states


def no_authorizer(bench: Any) -> None:
    """Nothing is fenced by entries."""
    bench.clusters["primary"].authorizer = False


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        (mirrored, "the flow primary->standby mirrors switchback-canary.replica"),
        (without_reverse, "s.source does not exist"),
        (older, "before Kafka 4.0 the canary's connector would mirror heartbeats"),
        (shared, "one Connect cluster runs both flows"),
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


def test_a_prefix_keeps_the_reverse_flow_from_fenced_topics(make_bench: Any) -> None:
    """Under default naming it writes to topics that no fence covers: a refusal would say nothing."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    assert "topics with a prefix, which are not fenced" in copy(bench).note
