"""Transactions and log sizes by kafka-python, beside Kafka's own tools, on real brokers of each version."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import OffsetSpec
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import OpenTransaction
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.hooks.brokers.log_directories import LogDirectories
from kafka_dr.hooks.brokers.transactions import ClusterTransactions

from lab.environment.brokers import admin_client, start_broker
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.environment.versions.releases import BROKERS, versions_of
from lab.errors import LabError
from tests.faults.deployment.one_broker import one_broker
from tests.support.brokers.kafka_tools import KafkaTools
from tests.support.staged_lab import commit_error

ALIAS, SECONDS = "primary", 60.0
TOPICS = {"pay": 2, "orders": 1, "with-dash-0": 1}
PARTITIONS = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
#: Versions whose brokers list no transactions (KIP-664), and that do not take ALTER for an abort (KIP-1037).
LISTS_NONE, NEEDS_CLUSTER_ACTION = {"2.8.2"}, {"2.8.2", "3.4.1", "3.7.2"}
LISTING = "does not know the request ListTransactions, which Kafka has since version 3.0"


class Site:
    """One broker of one version, Switchback's client of it, and Kafka's tools beside it."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.version = lab, lab.load().kafka_of(ALIAS)
        self.tools = KafkaTools(lab, ALIAS)
        cluster = KafkaCluster(ALIAS, self.login("admin"))
        for topic, count in TOPICS.items():
            cluster.create_topic(topic, count)

    @property
    def lists(self) -> bool:
        """Whether the broker lists transactions."""
        return self.version not in LISTS_NONE

    def login(self, user: str) -> dict[str, str]:
        """Return a user's settings."""
        return self.lab.client_properties(ALIAS, user)

    def transactions(self, user: str = "orchestrator") -> ClusterTransactions:
        """Return Switchback's client, logged in as a user."""
        return ClusterTransactions(self.login(user), ALIAS)

    def sizes(self, *topics: str, user: str = "orchestrator") -> dict[TopicPartition, int]:
        """Return sizes of logs as a user reads them."""
        return LogDirectories(self.login(user), ALIAS).sizes(topics)

    def producer(self, name: str, **settings: Any) -> Producer:
        """Return a transactional producer that is ready to begin."""
        made = Producer({**self.login("producer"), "transactional.id": name, "log_level": 0, **settings})
        made.init_transactions(SECONDS)
        return made

    def open(self, name: str, topic: str, partitions: tuple[int, ...] = (0,)) -> Producer:
        """Leave a transaction open, with three records per partition."""
        made = self.producer(name, **{"transaction.timeout.ms": 600_000})
        made.begin_transaction()
        for partition in partitions * 3:
            made.produce(topic, name.encode(), partition=partition)
        assert made.flush(SECONDS) == 0
        return made

    def log_end(self, partition: TopicPartition, isolation: IsolationLevel) -> int:
        """Return a partition's log end, or its last stable offset."""
        admin, place = admin_client(self.lab, ALIAS), Place(*partition)
        answer = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)[place].result(30)
        return int(answer.offset)

    def stable(self, partition: TopicPartition) -> bool:
        """Whether no transaction is open on a partition."""
        ends = [self.log_end(partition, level) for level in IsolationLevel]
        return len(set(ends)) == 1

    def committed(self, partition: TopicPartition) -> list[bytes]:
        """Return the records that a reader of committed ones sees."""
        reader = Consumer({**self.login("consumer"), "group.id": "reader", "isolation.level": "read_committed"})
        reader.assign([Place(*partition, 0)])
        end, seen = self.log_end(partition, IsolationLevel.READ_UNCOMMITTED), []
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and reader.position([Place(*partition)])[0].offset < end:
            message = reader.poll(0.5)
            if message is not None and message.error() is None:
                seen.append(message.value())
        reader.close()
        return seen

    def forget(self, *names: str) -> None:
        """Let the coordinator forget transactional ids, as a lost log would: their transactions hang."""
        superuser = Producer({**self.login("admin"), "client.id": "__admin_client", "log_level": 0})
        for name in names:
            key = struct.pack(">hh", 0, len(name)) + name.encode()
            for partition in superuser.list_topics("__transaction_state").topics["__transaction_state"].partitions:
                superuser.produce("__transaction_state", key=key, value=None, partition=partition)
        assert superuser.flush(30) == 0
        process = f"broker-{ALIAS}"
        pid = self.lab.processes.pid(process)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.lab.processes.pid(process) is None, "the broker to be gone", SECONDS)
        start_broker(self.lab, ALIAS)
        self.transactions("admin").producers_on(PARTITIONS)


@pytest.fixture(scope="module", params=versions_of(BROKERS))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One broker, with a committed, an aborted and an unused transactional id, and an idempotent producer."""
    with one_broker(tmp_path_factory.mktemp("broker"), "scram", request.param) as lab:
        made = Site(lab)
        done = made.open("done", "pay")
        done.commit_transaction(SECONDS)
        made.open("gave up", "pay", (1,)).abort_transaction(SECONDS)
        made.producer("never-began")
        plain = Producer({**made.login("producer"), "enable.idempotence": True, "log_level": 0})
        plain.produce("orders", b"x" * 40_000, partition=0)
        assert plain.flush(SECONDS) == 0
        yield made


def test_both_list_the_same(site: Site) -> None:
    """Ids, states, times, producers of each partition, and where a transaction began."""
    live = site.open("live", "pay", (0, 1))
    try:
        opened = same_producers(site)
        if site.lists:
            same_transactions(site, opened)
    finally:
        assert commit_error(live) == "ok"


def same_producers(site: Site) -> list[OpenTransaction]:
    """Compare what each partition's leader lists; return the open transactions."""
    producers = site.transactions().producers_on(PARTITIONS)
    assert list(producers) == PARTITIONS
    for partition, listed in producers.items():
        mine = {
            (p.producer_id, p.epoch, p.coordinator_epoch, p.last_sequence, p.last_ms, p.transaction_start)
            for p in listed
        }
        assert mine == site.tools.producers(*partition), partition
        assert len(listed) == len(mine)
    opened = site.transactions().open_on(PARTITIONS)
    assert [one.at for one in opened] == [TopicPartition("pay", 0), TopicPartition("pay", 1)]
    print(f"{site.version}: {sum(map(len, producers.values()))} producers listed alike", flush=True)
    return opened


def same_transactions(site: Site, opened: list[OpenTransaction]) -> None:
    """Compare what the coordinators list and describe."""
    known = site.transactions().known()
    assert {(k.transactional_id, k.producer_id, k.state) for k in known} == site.tools.known()
    states = {k.transactional_id: k.state for k in known}
    assert (states["done"], states["gave up"], states["live"]) == ("CompleteCommit", "CompleteAbort", "Ongoing")
    assert {k.producer_id for k in known if k.open} == {one.producer_id for one in opened}
    times = site.transactions().starts_and_timeouts(states)
    assert times == {name: site.tools.started_and_timeout(name) for name in states}
    assert times["live"][0] is not None and times["live"][1] == 600_000 and times["never-began"][0] is None
    assert site.transactions().starts_and_timeouts(["nobody"]) == {"nobody": (None, None)}
    print(f"{site.version}: {len(known)} transactional ids listed and described alike", flush=True)


def test_both_read_the_same_sizes(site: Site) -> None:
    """Of every partition, also of a topic whose name ends like a partition; a topic that is not there has none."""
    names = [*TOPICS, "__consumer_offsets", "not-there"]
    ours = {tuple(tp): size for tp, size in site.sizes(*names).items()}
    assert ours == site.tools.sizes(*names) and ours[("orders", 0)] > 40_000


def test_both_end_a_transaction_alike(site: Site) -> None:
    """Its records are no committed ones, its producer can commit no more, and the id is in the same state."""
    live = {name: site.open(name, "pay", (1,)) for name in ("ours", "theirs")}
    partition = TopicPartition("pay", 1)
    assert not site.stable(partition)
    site.transactions().end("ours")
    site.tools.transactions("forceTerminateTransaction", "--transactionalId=theirs")
    wait_until(lambda: site.stable(partition), "both markers to be in the log", SECONDS)
    if site.lists:
        states = {k.transactional_id: k.state for k in site.transactions().known()}
        assert states["ours"] == states["theirs"] == "Empty"
    assert {commit_error(one) for one in live.values()} <= {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
    assert not {b"ours", b"theirs"} & set(site.committed(partition))
    site.transactions().end("nobody-yet")


def test_both_abort_a_hanging_transaction_alike(site: Site) -> None:
    """On its partition only; before that the coordinators do not list it."""
    hanging = {name: site.open(name, topic) for name, topic in (("lost-1", "pay"), ("lost-2", "orders"))}
    site.forget(*hanging)
    opened = {one.topic: one for one in site.transactions().open_on(PARTITIONS)}
    assert set(opened) == {"pay", "orders"}
    if site.lists:
        assert not hanging.keys() & {k.transactional_id for k in site.transactions().known()}
    ours, theirs = opened["pay"], opened["orders"]
    with pytest.raises(KafkaUnavailable, match="lists no transaction that is open from this offset on"):
        site.transactions("admin").abort(ours.at, ours.start_offset + 1)
    if site.version in NEEDS_CLUSTER_ACTION:
        with pytest.raises(KafkaUnavailable, match=r"grant ALTER on the cluster \(before Kafka 3.8 CLUSTER_ACTION\)"):
            site.transactions().abort(ours.at, ours.start_offset)
        site.transactions("admin").abort(ours.at, ours.start_offset)
    else:
        site.transactions().abort(ours.at, ours.start_offset)
    abort = ("abort", f"--topic={theirs.topic}", "--partition=0", f"--start-offset={theirs.start_offset}")
    site.tools.transactions(*abort)
    for one in opened.values():
        assert site.stable(one.at) and not {b"lost-1", b"lost-2"} & set(site.committed(one.at))
    assert site.transactions().open_on(PARTITIONS) == []


def test_the_check_shows_whether_transactions_can_be_aborted(site: Site) -> None:
    """Brokers before 3.0 are refused by the request that they do not know, as they refuse Kafka's tool."""
    if site.lists:
        site.transactions().check()
        return
    for ask in (lambda: site.transactions().check(), lambda: site.transactions().known()):
        with pytest.raises(KafkaUnavailable, match=LISTING) as refused:
            ask()
        assert "broker 1" in refused.value.reason and not refused.value.may_pass
    with pytest.raises(LabError, match="LIST_TRANSACTIONS"):
        site.tools.known()


def test_both_delete_one_position_alike(site: Site) -> None:
    """The group's other positions stay; a position, or a group, that is not there counts as deleted."""
    cluster = KafkaCluster(ALIAS, site.login("orchestrator"))
    pay_0, pay_1 = TopicPartition("pay", 0), TopicPartition("pay", 1)
    groups = {"ours-deleted": {pay_0: 1, pay_1: 2}, "theirs-deleted": {pay_0: 1, pay_1: 2}}
    done = KafkaCluster(ALIAS, site.login("admin")).commit_many(groups.items())
    assert {word for of_group in done.values() for word in of_group.values()} == {OK}
    assert cluster.delete_positions({"ours-deleted": [pay_0], "never-was": [pay_0]}) == {}
    site.tools.delete_position("theirs-deleted", "pay", 0)
    held = cluster.positions(groups)
    for group in groups:
        assert {tp: position.offset for tp, position in held[group].items()} == {pay_1: 2}, group
    assert cluster.delete_positions({"ours-deleted": [pay_0]}) == {}
    refused = KafkaCluster(ALIAS, site.login("consumer")).delete_positions({"ours-deleted": [pay_1]})
    assert "grant DELETE on the group 'ours-deleted'" in str(refused["ours-deleted"])


def test_a_missing_right_is_named(site: Site) -> None:
    """By resource and operation, with the cluster; no list is empty for lack of a right."""
    for call, right in (
        (lambda: site.transactions("consumer").end("done"), "the transactional id 'done'"),
        (lambda: site.sizes("orders", user="consumer"), "grant DESCRIBE on the cluster to"),
        (lambda: site.transactions("probe").producers_on(PARTITIONS), "grant DESCRIBE on the topics orders, pay"),
        (lambda: site.transactions("producer").producers_on(PARTITIONS), "grant READ on the topics to"),
    ):
        with pytest.raises(KafkaUnavailable) as refused:
            call()
        assert right in str(refused.value) and "principal on primary" in str(refused.value), str(refused.value)
        assert not refused.value.may_pass


def test_a_wrong_password_ends_soon(site: Site) -> None:
    """Named, without the password."""
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable) as refused:
        ClusterTransactions(site.login("orchestrator") | {"sasl.password": "hunter2"}, ALIAS).known()
    print(f"{site.version}: wrong password after {time.monotonic() - began:.1f} s: {refused.value}", flush=True)
    assert time.monotonic() - began < 50 and "hunter2" not in str(refused.value)


def test_a_frozen_broker_is_an_error_in_time(site: Site) -> None:
    """It accepts connections and answers nothing: no empty list."""
    pid = site.lab.processes.pid(f"broker-{ALIAS}")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        for ask in (lambda: site.transactions().producers_on(PARTITIONS), lambda: site.sizes("pay")):
            with pytest.raises(KafkaUnavailable, match="of primary failed") as refused:
                ask()
            assert refused.value.may_pass
    finally:
        os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - began < 100
