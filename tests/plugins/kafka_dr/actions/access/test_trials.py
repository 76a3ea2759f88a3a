"""Applications' logins are tried in a topic of their own, and nothing of it stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.actions.access import trials
from kafka_dr.actions.access.trials import log_in_applications, remove_left_access, try_applications
from kafka_dr.domain.access.trial import Act
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused, WriteUnknown
from kafka_dr.procedure.entries import AccessToTry, AccessTried
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench
from tests.support.fake_systems import FakeSystems

STEP = Step.CHECK_READINESS.value
TOPIC, GROUP = "orders-switchback-access.replica", "billing-switchback-access"
ORDERS = {
    "name": "orders",
    "connections": {"standby": "orders_standby"},
    "prefix": "orders-",
    "group_prefix": "billing-",
}
ALL = (Act.LOG_IN, Act.WRITE, Act.READ, Act.COMMIT)


class Login:
    """An application's client of the standby; what it answers can be set, and what it found there is kept."""

    def __init__(self, bench: Bench) -> None:
        self.cluster, self.principal, self.acts = bench.clusters["standby"], "User:orders", list[str]()
        self.id, self.writes, self.read_value, self.commits = "id-standby", list[Any](), None, "OK"
        self.error: Exception | None = None
        self.value = b""

    def log_in(self) -> str:
        self.acts.append("log_in")
        if self.error:
            raise self.error
        return self.id

    def write(self, topic: str, value: bytes) -> Any:
        assert topic in self.cluster.partitions
        self.acts.append("write")
        self.value = value
        return self.writes.pop(0) if self.writes else WriteAccepted(7, 1)

    def read(self, topic: str, offset: int) -> list[bytes | None]:
        assert offset == 7
        return [self.value if self.read_value is None else self.read_value]

    def commit(self, group: str, topic: str, offset: int) -> str:
        assert offset == 8
        self.cluster.committed[group] = {}
        return "" if self.commits == "OK" else self.commits

    def close(self) -> None:
        self.acts.append("close")


@pytest.fixture
def orders(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A bench whose topology names an application; a failed act is tried again for a moment only."""
    made: Any = make_bench(applications=[ORDERS])
    made.login = Login(made)
    monkeypatch.setattr(FakeSystems, "application", lambda _systems, _alias, _connection: made.login)
    monkeypatch.setattr(trials, "_SECONDS", 0.2)
    monkeypatch.setattr(trials, "_PAUSE", 0.01)
    monkeypatch.setattr(trials, "_mirroring", lambda _procedure, _topic: "")
    made.opened()
    return made


def test_a_whole_trial_leaves_nothing(orders: Any) -> None:
    """Topic and group are named in the journal before, and gone afterwards."""
    procedure = orders.procedure()
    (tried,), left = try_applications(procedure, STEP)
    assert (tried.shown, tried.failed, tried.principal, left) == (ALL, None, "User:orders", [])
    assert (tried.topic, tried.group) == (TOPIC, GROUP)
    standby = orders.clusters["standby"]
    assert TOPIC not in standby.partitions
    assert standby.deleted == [TOPIC]
    assert GROUP not in standby.committed
    (intent,) = procedure.progress.facts(AccessToTry)
    assert (intent.access_cluster, intent.access_topics, intent.access_groups) == ("standby", [TOPIC], [GROUP])
    assert procedure.progress.facts(AccessTried)[-1].access_left == []


def test_a_refused_login_creates_no_topic(orders: Any) -> None:
    """It is not tried again: waiting changes no password."""
    orders.login.error = KafkaUnavailable("reading failed", "_AUTHENTICATION", "look", may_pass=False)
    (tried,), _ = try_applications(orders.procedure(), STEP)
    assert (tried.failed, tried.seen, tried.shown) == (Act.LOG_IN, "_AUTHENTICATION", ())
    assert orders.login.acts == ["log_in", "close"]
    assert orders.clusters["standby"].deleted == []


def test_a_login_to_another_cluster_is_found(orders: Any) -> None:
    """The connection of another site would prove nothing."""
    orders.login.id = "id-primary"
    (tried,), _ = try_applications(orders.procedure(), STEP)
    assert tried.seen == "it leads to the cluster with the id id-primary, not id-standby"


def test_what_may_pass_is_tried_again(orders: Any) -> None:
    """A leader that has moved, and a broker that did not acknowledge."""
    orders.login.writes = [WriteRefused("NOT_LEADER_FOR_PARTITION", False, 1), WriteUnknown("no acknowledgement")]
    (tried,), _ = try_applications(orders.procedure(), STEP)
    assert tried.shown == ALL
    assert orders.login.acts.count("write") == 3


@pytest.mark.parametrize(
    ("change", "failed", "seen"),
    [
        ({"writes": [WriteRefused("TOPIC_AUTHORIZATION_FAILED", True)]}, Act.WRITE, "TOPIC_AUTHORIZATION_FAILED"),
        ({"writes": [WriteUnknown("silence")] * 99}, Act.WRITE, "silence"),
        ({"read_value": b"else"}, Act.READ, "the record at offset 7 is another one"),
        ({"commits": "GROUP_AUTHORIZATION_FAILED"}, Act.COMMIT, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_the_first_act_that_fails_ends_the_trial(orders: Any, change: dict[str, Any], failed: Act, seen: str) -> None:
    """Nothing stays all the same."""
    vars(orders.login).update(change)
    (tried,), left = try_applications(orders.procedure(), STEP)
    assert (tried.failed, tried.seen, left) == (failed, seen, [])
    assert TOPIC not in orders.clusters["standby"].partitions
    assert GROUP not in orders.clusters["standby"].committed


def test_a_missing_connection_is_named(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error says what to do."""

    def missing(_systems: Any, _alias: str, _connection: str) -> Any:
        raise BadInput("Connection orders_standby does not exist", "nowhere", "Create it.")

    monkeypatch.setattr(FakeSystems, "application", missing)
    (tried,), _ = try_applications(orders.procedure(), STEP)
    assert (tried.failed, tried.next_step) == (Act.CONNECT, "Create it.")
    assert tried.seen == "Connection orders_standby does not exist: nowhere"


def test_what_a_killed_process_left_goes_at_the_next_check(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every run's checks: the names stand in the journal; also if the topology names the application no more."""

    class Killed(BaseException):
        pass

    def die(*_: Any) -> Any:
        raise Killed

    with monkeypatch.context() as while_killed:
        while_killed.setattr(orders.login, "commit", die, raising=False)
        while_killed.setattr(trials._Places, "remove", die)
        with pytest.raises(Killed):
            try_applications(orders.procedure(), STEP)
    standby = orders.clusters["standby"]
    assert TOPIC in standby.partitions
    standby.committed[GROUP] = {}
    remove_left_access(orders.procedure(), Step.CLOSE_PROCEDURE)
    assert (TOPIC in standby.partitions, GROUP in standby.committed) == (False, False)
    standby.partitions[TOPIC] = {0: 1}
    monkeypatch.setattr(trials, "_planned", lambda _procedure, _writes: [])
    try_applications(orders.procedure(), STEP)
    assert TOPIC not in standby.partitions


def test_what_cannot_be_removed_is_told(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again by the next check."""

    def refuse(_names: Any) -> list[str]:
        raise KafkaUnavailable("deleting topics of standby failed", "TOPIC_DELETION_DISABLED", "enable it")

    monkeypatch.setattr(orders.clusters["standby"], "delete_topics", refuse)
    _, left = try_applications(orders.procedure(), STEP)
    assert left == [f"topics {TOPIC}: deleting topics of standby failed (TOPIC_DELETION_DISABLED)"]


def test_a_check_without_lease_only_logs_in(orders: Any) -> None:
    """It writes neither to the cluster nor to the journal."""
    procedure = orders.procedure()
    (tried,) = log_in_applications(procedure)
    assert tried.shown == (Act.LOG_IN,)
    assert orders.login.acts == ["log_in", "close"]
    assert procedure.progress.facts(AccessToTry) == []


@pytest.mark.parametrize(
    ("application", "untried", "shown"),
    [
        ({"connections": {"primary": "x"}}, "the topology names no connection of it for standby", ()),
        ({"prefix": None}, "the topology states no `prefix`", (Act.LOG_IN,)),
    ],
)
def test_what_is_not_tried(
    orders: Any,
    application: dict[str, Any],
    untried: str,
    shown: tuple[Act, ...],
) -> None:
    """Nothing is created for it."""
    topology = json.loads(orders.topology.read_text()) | {"applications": [ORDERS | application]}
    orders.topology.write_text(json.dumps(topology))
    (tried,), _ = try_applications(orders.procedure(), STEP)
    assert (untried in tried.untried, tried.shown) == (True, shown)
    assert orders.clusters["standby"].deleted == []
