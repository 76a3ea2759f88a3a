"""One cluster: connection rules, commits and their repeats, and what librdkafka's mock brokers can serve."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as WirePartition
from confluent_kafka.admin import ListOffsetsResultInfo
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, KafkaUnavailable, ReadBackFailed
from kafka_dr.hooks.brokers.client import ALLOWED_KEYS, client_config, kafka_border
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import Broker, GroupInfo, Metadata
from kafka_dr.hooks.brokers.group_requests import GROUP_IS_ACTIVE, OK, Position

from tests.support.empty_cluster import empty_cluster

PLUGINS = str(Path(__file__).parents[5] / "plugins")
NOWHERE = {"bootstrap.servers": "127.0.0.1:9"}
ORDERS = [TopicPartition("orders", number) for number in range(4)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Three mock brokers with topic `orders`: partition n holds n records."""
    producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "3", "log_level": 0})
    servers = ",".join(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values())
    for topic, partition in ORDERS:
        for number in range(partition):
            producer.produce(topic, f"{number}", partition=partition)
    producer.flush(10)
    yield servers


@pytest.fixture
def cluster(brokers: str) -> KafkaCluster:
    """The mock cluster through the hook."""
    return KafkaCluster("east", {"bootstrap.servers": brokers})


class Settings:
    """The client's call for brokers' settings, which takes one broker a request; each broker has answers in order."""

    def __init__(self, answers: dict[str, list]) -> None:
        self.answers = answers

    def describe_configs(self, resources: list, request_timeout: float) -> dict[object, Future]:
        """Answer with names of settings, or with an error."""
        (resource,) = resources
        answer, future = self.answers[resource.name].pop(0), Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(answer)
        return {resource: future}

    def poll(self, timeout: float) -> None:
        """Serve no callback."""


def settings_of(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, listed: list[list[int]], **answers: list
) -> set:
    """The settings that the cluster tells; `listed`: the brokers in service, by each look at them."""
    looks = iter(listed)
    stand_in = Settings({name.removeprefix("b"): of for name, of in answers.items()})
    monkeypatch.setattr(cluster, "brokers", lambda _seconds: [Broker(number, "host", 9092) for number in next(looks)])
    monkeypatch.setattr(cluster, "_admin", stand_in)
    return set(cluster.broker_settings(1.0))


AWAY = KafkaError(KafkaError._TRANSPORT)


def test_settings_of_all_brokers_are_told(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broker is asked by itself, and again if it did not answer; one that has left is not waited for."""
    assert settings_of(cluster, monkeypatch, [[1, 2]], b1=[{"a": 1}], b2=[{"a": 1, "b": 1}]) == {"a", "b"}
    assert settings_of(cluster, monkeypatch, [[1, 2], [1, 2]], b1=[{"a": 1}], b2=[AWAY, {"b": 1}]) == {"a", "b"}
    assert settings_of(cluster, monkeypatch, [[1, 2], [1]], b1=[{"a": 1}], b2=[AWAY]) == {"a"}
    with pytest.raises(KafkaUnavailable):
        settings_of(cluster, monkeypatch, [[1, 2], [1, 2]], b1=[{"a": 1}], b2=[AWAY, AWAY])


def test_the_library_is_asked_for_one_broker_at_a_time(cluster: KafkaCluster) -> None:
    """It refuses several before anything is sent. A mock broker knows no settings, so one is not supported either."""
    with pytest.raises(KafkaUnavailable) as refused:
        cluster.broker_settings(5.0)
    assert "one" not in refused.value.seen.lower().split() and "_INVALID_ARG" not in refused.value.seen


class Coordinator:
    """The client's commit call with replies a group: a KafkaError, a dict of codes by partition, or None."""

    def __init__(self, replies: dict[str, list] | None = None) -> None:
        self.replies = replies or {}
        self.calls: list[tuple[str, list[WirePartition]]] = []
        self.in_flight = self.most_in_flight = 0

    def alter_consumer_group_offsets(self, requests: list, request_timeout: float) -> dict[str, Future]:
        (request,) = requests
        self.calls.append((request.group_id, request.topic_partitions))
        script = self.replies.get(request.group_id, [])
        reply = script.pop(0) if script else None
        return {request.group_id: self._future(request, reply)}

    def _future(self, request, reply) -> Future:
        coordinator = self
        coordinator.in_flight += 1
        coordinator.most_in_flight = max(coordinator.most_in_flight, coordinator.in_flight)

        class Counted(Future):
            def result(self, timeout: float | None = None):
                coordinator.in_flight -= 1
                return super().result(timeout)

        future = Counted()
        if isinstance(reply, KafkaError):
            future.set_exception(KafkaException(reply))
        else:
            future.set_result(
                ConsumerGroupTopicPartitions(
                    request.group_id, [_answered(p, reply or {}) for p in request.topic_partitions]
                )
            )
        return future


class _answered:
    """A partition of a commit's answer: the client's own type does not let an error be set."""

    def __init__(self, partition: WirePartition, errors: dict) -> None:
        self.topic, self.partition, self.offset = partition.topic, partition.partition, partition.offset
        code = errors.get(partition.partition)
        self.error = None if code is None else KafkaError(code)


@pytest.fixture
def committing(monkeypatch) -> Callable[[dict], tuple[KafkaCluster, Coordinator]]:
    """Make a cluster whose commits are answered by a script, without waiting between repeats."""
    monkeypatch.setattr("kafka_dr.hooks.brokers.client._FIRST_PAUSE", 0.001)

    def make(replies: dict) -> tuple[KafkaCluster, Coordinator]:
        cluster, coordinator = KafkaCluster("east", NOWHERE), Coordinator(replies)
        monkeypatch.setattr(cluster, "_coordinators", lambda: coordinator)
        return cluster, coordinator

    return make


DANGEROUS = (
    "plugin.library.paths enable.sasl.oauthbearer.unsecure.jwt sasl.oauthbearer.token.endpoint.url"
    " sasl.oauthbearer.config sasl.kerberos.kinit.cmd ssl.engine.location ssl.engine.id ssl.providers"
    " enable.ssl.certificate.verification ssl.certificate.verify_cb error_cb oauth_cb stats_cb logger debug"
    " test.mock.num.brokers sasl.jaas.config interceptor.classes config.providers group.id Bootstrap.Servers"
)


@pytest.mark.parametrize("key", [*DANGEROUS.split(), ""])
def test_dangerous_and_unknown_keys_are_refused(key: str) -> None:
    """Only allow-listed keys pass; the error names the key and no value."""
    with pytest.raises(BadInput) as refused:
        KafkaCluster("east", {**NOWHERE, key: "hunter2"})
    assert f"{key}: not allowed" in str(refused.value) and "hunter2" not in str(refused.value)


def test_all_problems_of_a_connection_are_named_at_once() -> None:
    """Two bad keys, a callback as a value and missing servers come in one error."""
    with pytest.raises(BadInput) as refused:
        client_config({"a": 1, "b": 2, "client.id": print}, "east")
    assert all(
        word in str(refused.value)
        for word in ("a: not", "b: not", "client.id: not", "bootstrap.servers: missing", "east")
    )


def test_a_full_sasl_ssl_connection_passes() -> None:
    """The keys real connections need are allowed."""
    needed = set(
        "security.protocol sasl.mechanism sasl.username sasl.password ssl.ca.location ssl.key.pem client.id".split()
    )
    assert needed <= ALLOWED_KEYS
    assert client_config({**NOWHERE, "sasl.password": "x"}, "east")["sasl.password"] == "x"


def test_a_value_librdkafka_refuses_is_our_error() -> None:
    """A bad value is reported by alias, and no client error leaks."""
    with pytest.raises(KafkaUnavailable, match="east.*security.protocol"):
        KafkaCluster("east", {**NOWHERE, "security.protocol": "carrier-pigeon"})


def test_repr_holds_no_secret() -> None:
    """Printing a cluster shows alias and servers only."""
    shown = repr(KafkaCluster("east", {**NOWHERE, "sasl.username": "me", "sasl.password": "hunter2"}))
    assert "east" in shown and "hunter2" not in shown and "me'" not in shown


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.cluster_id(timeout=1),
        lambda c: c.topics(timeout=1),
        lambda c: c.topics(["t"], timeout=1),
        lambda c: c.ends(ORDERS, timeout=1),
        lambda c: c.groups(timeout=1),
        lambda c: c.positions(["g"], timeout=1),
        lambda c: c.configs(["t"], timeout=1),
        lambda c: c.create_topic("t", 1, timeout=1),
    ],
)
def test_a_dead_cluster_is_named_in_time(ask) -> None:
    """Every question to nobody ends within its timeout, with alias and the connection's own complaint."""
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="dead.*refused"):
        ask(KafkaCluster("dead", NOWHERE))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.metadata(timeout=0.7),
        lambda c: c.brokers(timeout=0.7),
        lambda c: c.topics(["orders"], timeout=0.7),
        lambda c: c.create_topic("t", 1, timeout=0.7),
    ],
    ids=["metadata", "brokers", "topics", "create"],
)
def test_connects_that_hang_cost_no_more_than_the_timeout(ask: Callable[[KafkaCluster], Any], hanging: str) -> None:
    """Every question to a silent or dropping server ends in time, the client's end included."""
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable) as gone:
        ask(KafkaCluster("hanging", {"bootstrap.servers": hanging}))
    assert time.monotonic() - began < 2.5 and not gone.value.from_broker


#: Asks what it is told to of a cluster whose client has seen a broker.
ASKER = """
import sys, time
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
cluster = KafkaCluster("thawed", {"bootstrap.servers": sys.argv[1]})
time.sleep(0.5)
try:
    getattr(cluster, sys.argv[2])(timeout=2)
except KafkaUnavailable as error:
    print(error)
"""


@pytest.mark.parametrize("question", ["brokers", "cluster_id"])
def test_a_cluster_that_names_no_broker_any_more_is_unavailable(question: str) -> None:
    """Asked in a process of its own, for librdkafka may abort it."""
    with empty_cluster() as servers:
        command = [sys.executable, "-c", ASKER, servers, question]
        asked = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": PLUGINS}, capture_output=True, text=True, timeout=60, check=False
        )
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "on thawed failed" in asked.stdout


def test_metadata_names_brokers_and_leaders(cluster: KafkaCluster) -> None:
    """One request tells who is there and who leads what."""
    found = cluster.metadata(timeout=10)
    assert found.brokers == (1, 2, 3) and set(found.leaders["orders"]) == {0, 1, 2, 3}
    assert set(found.leaders["orders"].values()) <= {1, 2, 3}


def test_a_partition_without_leader_is_told(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative leader is none."""
    parts = {0: SimpleNamespace(id=0, leader=-1), 1: SimpleNamespace(id=1, leader=2)}
    answer = SimpleNamespace(brokers={2: None}, topics={"orders": SimpleNamespace(partitions=parts)})
    monkeypatch.setattr(cluster, "_admin", SimpleNamespace(list_topics=lambda timeout: answer, poll=lambda seconds: 0))
    assert cluster.metadata() == Metadata((2,), {"orders": {0: None, 1: 2}})


@pytest.mark.parametrize(
    ("code", "from_broker"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, True),
        (KafkaError.UNKNOWN, True),
        (KafkaError._TIMED_OUT, False),
        (KafkaError.NOT_CONTROLLER, True),
    ],
)
def test_an_error_says_whether_a_broker_sent_it(code: int, from_broker: bool) -> None:
    """What our own client gave up is told from what a broker answered."""
    with pytest.raises(KafkaUnavailable) as error, kafka_border("east", "asking"):
        raise KafkaException(KafkaError(code))
    assert error.value.from_broker is from_broker


def test_complaints_are_kept_by_name(cluster: KafkaCluster) -> None:
    """A login that failed is remembered, whatever the client says after it."""
    for code in (KafkaError._AUTHENTICATION, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        cluster._complain(KafkaError(code))
    assert cluster.complaints() >= {"_AUTHENTICATION", "_TRANSPORT", "_ALL_BROKERS_DOWN"}


def test_a_commit_to_a_dead_cluster_says_so_per_partition() -> None:
    """Nothing is raised, nothing is claimed: each partition carries the error, within the timeout."""
    began = time.monotonic()
    outcome = KafkaCluster("dead", NOWHERE).commit("g", dict.fromkeys(ORDERS, 1), timeout=1)
    assert set(outcome) == set(ORDERS) and set(outcome.values()) == {"_TIMED_OUT"}
    assert time.monotonic() - began < 10


def test_ends_and_starts_come_for_all_partitions(cluster: KafkaCluster) -> None:
    """Empty and filled partitions alike; asking for none asks nobody."""
    assert cluster.ends(ORDERS) == {tp: tp.partition for tp in ORDERS}
    assert cluster.starts(ORDERS) == dict.fromkeys(ORDERS, 0)
    assert cluster.ends([]) == {}
    assert KafkaCluster("dead", NOWHERE).ends([]) == {}


def test_a_partition_that_does_not_exist_is_named(cluster: KafkaCluster) -> None:
    """One unknown partition among good ones fails the whole question by name."""
    with pytest.raises(KafkaUnavailable, match="orders-99"):
        cluster.ends([*ORDERS, TopicPartition("orders", 99)], timeout=20)


def test_many_groups_commit_and_each_is_reported_once(cluster: KafkaCluster) -> None:
    """1,000 groups, unicode among them, go out through the real client; every partition has its outcome."""
    reported: list[str] = []
    wanted = {f"grüppe-日本-{number}": dict.fromkeys(ORDERS, Position(number, "é")) for number in range(1000)}
    results = cluster.commit_many(iter(wanted.items()), on_result=lambda group, outcomes: reported.append(group))
    assert sorted(reported) == sorted(wanted)
    assert results == {group: dict.fromkeys(ORDERS, OK) for group in wanted}


PASSING = (
    "NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE REQUEST_TIMED_OUT _TIMED_OUT _TRANSPORT"
)


def test_a_moving_coordinator_is_asked_again(committing) -> None:
    """NOT_COORDINATOR, loading, unavailable, timeouts and disconnects are repeated until they pass."""
    passing = [KafkaError(getattr(KafkaError, name)) for name in PASSING.split()]
    cluster, coordinator = committing({"g": passing})
    assert cluster.commit("g", {ORDERS[0]: 5}, timeout=10) == {ORDERS[0]: OK}
    assert len(coordinator.calls) == 7


def test_partial_success_is_kept_and_only_the_rest_is_repeated(committing) -> None:
    """Of three partitions one passes, one is refused for good, one is repeated alone."""
    cluster, coordinator = committing(
        {"g": [{1: KafkaError.TOPIC_AUTHORIZATION_FAILED, 2: KafkaError.NOT_COORDINATOR}]}
    )
    outcome = cluster.commit("g", dict.fromkeys(ORDERS[:3], 5), timeout=10)
    assert outcome == {ORDERS[0]: OK, ORDERS[1]: "TOPIC_AUTHORIZATION_FAILED", ORDERS[2]: OK}
    assert [[p.partition for p in partitions] for _, partitions in coordinator.calls] == [[0, 1, 2], [2]]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_an_active_group_is_never_asked_twice(committing, code: int, whole: bool) -> None:
    """A group with members is reported as active after one request."""
    cluster, coordinator = committing({"g": [KafkaError(code) if whole else {0: code}]})
    assert cluster.commit("g", {ORDERS[0]: 5}) == {ORDERS[0]: GROUP_IS_ACTIVE}
    assert len(coordinator.calls) == 1


def test_a_coordinator_that_never_comes_back_ends_in_time(committing) -> None:
    """Repeats end at the deadline; the last error is the outcome, and later groups are told that time is over."""
    cluster, _ = committing({"g": [KafkaError(KafkaError.NOT_COORDINATOR)] * 10_000})
    began = time.monotonic()
    outcome = cluster.commit("g", {ORDERS[0]: 5}, timeout=0.5)
    assert outcome == {ORDERS[0]: "NOT_COORDINATOR"} and time.monotonic() - began < 3


def test_a_huge_group_is_split_and_joined_again(committing) -> None:
    """12,000 partitions go in requests of at most 5,000 and are reported once, together."""
    cluster, coordinator = committing({})
    many = {TopicPartition("big", number): number for number in range(12_000)}
    reported: list[int] = []
    results = cluster.commit_many([("g", many)], on_result=lambda group, outcomes: reported.append(len(outcomes)))
    assert [len(partitions) for _, partitions in coordinator.calls] == [5000, 5000, 2000]
    assert reported == [12_000] and results["g"] == dict.fromkeys(many, OK)


def test_never_more_in_flight_than_asked(committing) -> None:
    """The window bounds what is under way, and the input is taken as it is sent."""
    cluster, coordinator = committing({})
    taken: list[int] = []

    def groups():
        for number in range(500):
            taken.append(number)
            yield f"g{number}", {ORDERS[0]: 1}

    first: list[int] = []
    cluster.commit_many(
        groups(), in_flight=16, on_result=lambda group, outcomes: first.append(len(taken)) if not first else None
    )
    assert coordinator.most_in_flight == 16 and first == [17]


@pytest.mark.parametrize("positions", [{ORDERS[0]: -1}, {TopicPartition("", 0): 1}, {TopicPartition("t", -1): 1}])
def test_impossible_positions_are_never_sent(committing, positions) -> None:
    """A negative offset or an empty topic is an outcome of its own, beside good ones."""
    cluster, coordinator = committing({})
    outcome = cluster.commit("g", {**positions, ORDERS[1]: 3})
    assert outcome[ORDERS[1]] == OK and set(outcome.values()) == {OK, "INVALID_POSITION"}
    assert [[p.partition for p in partitions] for _, partitions in coordinator.calls] == [[1]]


def test_empty_groups_and_names_are_settled_without_asking(committing) -> None:
    """Nothing to commit is done at once; a group without name is refused."""
    cluster, coordinator = committing({})
    assert cluster.commit_many([("g", {}), ("", {ORDERS[0]: 1})]) == {"g": {}, "": {ORDERS[0]: "INVALID_GROUP_ID"}}
    assert cluster.commit_many([]) == {} and coordinator.calls == []


def test_metadata_and_epoch_are_sent_where_given(committing) -> None:
    """A snapshot's metadata and leader epoch go back as they were; plain offsets carry none."""
    cluster, coordinator = committing({})
    cluster.commit("g", {ORDERS[0]: Position(5, "note", 7), ORDERS[1]: 6})
    first, second = coordinator.calls[0][1]
    assert (first.metadata, first.leader_epoch, first.offset) == ("note", 7, 5)
    assert (second.metadata, second.offset) == (None, 6)


@pytest.mark.parametrize(
    ("state", "members", "empty"),
    [
        ("Empty", (), True),
        ("Dead", (), True),
        ("Stable", ("m",), False),
        ("Unknown", (), False),
        ("PreparingRebalance", (), False),
    ],
)
def test_only_groups_surely_without_members_are_empty(state: str, members: tuple, empty: bool) -> None:
    """An unknown state counts as active."""
    assert GroupInfo("g", state, "classic", "consumer", members).empty is empty


def ended(value: Any) -> Future:
    """A future that has a result, or failed with a Kafka error."""
    future: Future = Future()
    if isinstance(value, KafkaError):
        future.set_exception(KafkaException(value))
    else:
        future.set_result(value)
    return future


@pytest.fixture
def asked() -> KafkaCluster:
    """A cluster nobody is asked of, with a client for groups."""
    cluster = KafkaCluster("east", NOWHERE)
    cluster._group_client = SimpleNamespace(poll=lambda seconds: 0)
    return cluster


def test_a_leader_that_moves_costs_no_answer_about_groups(asked: KafkaCluster) -> None:
    """Deleting that client would leave a hundred answers on their way for ever."""
    answers = iter([KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION), SimpleNamespace(offset=7)])
    looked_up = count()
    asked._admin = SimpleNamespace(
        list_offsets=lambda wanted, **_: {wire: ended(next(answers)) for wire in wanted},
        list_topics=lambda timeout: next(looked_up),
    )
    client = asked._group_client
    assert asked.ends(ORDERS[:1]) == {ORDERS[0]: 7} and asked._group_client is client
    assert next(looked_up) == 1


def test_offsets_of_many_partitions_are_listed_in_requests_of_a_few_hundred(asked: KafkaCluster) -> None:
    """The client's time for one request grows with the square of its partitions; all requests are sent at once."""
    partitions, sent = [TopicPartition("orders", p) for p in range(1_200)], list[int]()

    def list_offsets(wanted: Mapping[WirePartition, Any], **_: Any) -> dict[WirePartition, Future]:
        sent.append(len(wanted))
        return {wire: ended(ListOffsetsResultInfo(wire.partition, -1, -1)) for wire in wanted}

    asked._admin, asked._group_client = SimpleNamespace(list_offsets=list_offsets, poll=lambda _: None), None
    assert asked.ends(partitions) == {tp: tp.partition for tp in partitions}
    assert sent == [500, 500, 200]
    assert asked.ends([]) == {} and len(sent) == 3


def test_an_answer_without_offset_is_asked_for_again(asked: KafkaCluster) -> None:
    """Librdkafka answers so, without an error, about a partition whose leader has just gone."""
    offsets = [-1001, 7]

    def list_offsets(wanted: Iterable[WirePartition], **_: Any) -> dict[WirePartition, Future]:
        offset = offsets.pop(0) if len(offsets) > 1 else offsets[0]
        return {wire: ended(ListOffsetsResultInfo(offset, -1, -1)) for wire in wanted}

    admin = SimpleNamespace(list_offsets=list_offsets, poll=lambda _: None, list_topics=lambda timeout: None)
    asked._admin, asked._group_client = admin, None
    assert asked.ends(ORDERS[:1]) == {ORDERS[0]: 7}
    offsets[:] = [-1]
    assert asked.offsets_at({ORDERS[0]: 5}) == {ORDERS[0]: -1}
    offsets[:] = [-1001]
    with pytest.raises(KafkaUnavailable, match="holds no offset") as raised:
        asked.ends(ORDERS[:1], timeout=0.3)
    assert raised.value.may_pass


def test_a_coordinator_that_moves_is_asked_by_a_new_client(asked: KafkaCluster) -> None:
    """librdkafka would end the process where an answer of a coordinator that came back is late."""
    answers = iter([KafkaError(KafkaError.NOT_COORDINATOR), "there"])

    def send(names: Iterable[str]) -> Iterator[tuple[str, Future]]:
        return ((name, ended(next(answers))) for name in names)

    answers_of = asked._settled("describing groups", ["billing"], send, 5.0, forget=asked._forget_coordinators)
    assert list(answers_of) == [("billing", "there")]
    assert asked._group_client is None


class Deletions:
    """Stands in for the client's deletion and listing: topics go some looks after they were deleted."""

    def __init__(self, there: set[str], looks: int = 0) -> None:
        self.there, self.asked, self.left = there, [], looks

    def delete_topics(self, names: list[str], **_: Any) -> dict[str, Future]:
        self.asked.append(names)
        return {
            name: answered(None if name in self.there else KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            for name in names
        }

    def topics(self, names: Iterable[str], timeout: float) -> dict[str, None]:
        if self.left == 0:
            self.there -= {name for names in self.asked for name in names}
        self.left -= 1
        return dict.fromkeys(set(names) & self.there)


def answered(error: Exception | None) -> Future:
    """A future that is done."""
    future: Future = Future()
    future.set_exception(error) if error else future.set_result(None)
    return future


def deleting(monkeypatch: pytest.MonkeyPatch, deletions: Deletions) -> KafkaCluster:
    """A cluster that deletes that way."""
    cluster = KafkaCluster("east", NOWHERE)
    monkeypatch.setattr(cluster, "_admin", deletions)
    monkeypatch.setattr(cluster, "topics", deletions.topics)
    return cluster


def test_many_topics_are_deleted_at_once_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request for five hundred; absent ones are left out of the answer; it returns when all are gone."""
    names = {f"t{number:04}" for number in range(600)}
    deletions = Deletions(names | {"other"}, looks=2)
    cluster = deleting(monkeypatch, deletions)
    assert cluster.delete_topics([*names, "never"]) == sorted(names)
    assert [len(asked) for asked in deletions.asked] == [500, 101] and deletions.there == {"other"}
    assert cluster.delete_topics([]) == [] and cluster.delete_topic("never") is False


def test_topics_that_stay_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted is what is not there any more."""
    cluster = deleting(monkeypatch, Deletions({"orders"}, looks=10_000))
    with pytest.raises(ReadBackFailed, match="deleted, and the cluster still lists them.*orders"):
        cluster.delete_topics(["orders"], timeout=0.2)
