"""A real broker's authorizer log shows the clients that nothing else shows, and the fence does what is said of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka_dr.actions.readiness.logged_clients import read_logged_clients
from kafka_dr.domain.clients.logged_clients import LoggedClients
from kafka_dr.domain.fencing.fence import FenceScope, fence_changes
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster

from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.faults.deployment.one_broker import one_broker
from tests.support.lab_clients import change_or_list_configs

ALIAS, LOGGER = "primary", "kafka.authorizer.logger"
#: On `orders` the producer has an entry; on `open` everyone has one.
OWN, OPEN = "orders", "open"
#: Reads without a group: Switchback's principal stands for a program that keeps its positions itself.
EXEMPT, SECONDS = frozenset({"User:mm2"}), 60.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One broker with a topic for producers and one for everyone."""
    with one_broker(tmp_path_factory.mktemp("authorizer"), "scram") as lab:
        cluster = connected(lab)
        for future in cluster.admin.create_topics([NewTopic(name, 1, 1) for name in (OWN, OPEN)]).values():
            future.result(SECONDS)
        everyone = [AclEntry("topic", OPEN, "literal", "User:*", "*", one, "allow") for one in ("write", "describe")]
        ClusterAcls(cluster).add(everyone)
        yield lab


def connected(lab: Lab) -> KafkaCluster:
    """The cluster as its super user, who is the broker's, too."""
    return KafkaCluster(ALIAS, lab.client_properties(ALIAS, "admin"))


def write(lab: Lab, user: str, topic: str) -> str:
    """Write one record; return "ok", or Kafka's name of the error."""
    said: list[str] = []
    producer = Producer({**lab.client_properties(ALIAS, user), "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: said.append(error.name() if error else "ok"))
    producer.flush(30)
    return "".join(said)


def read(lab: Lab, user: str, group: str | None) -> None:
    """Read the first record of `orders`: in a group, or without one by assigning the partition."""
    settings = {"group.id": group or "none", "auto.offset.reset": "earliest", "enable.auto.commit": group is not None}
    consumer = Consumer({**lab.client_properties(ALIAS, user), **settings})
    consumer.subscribe([OWN]) if group else consumer.assign([TopicPartition(OWN, 0, 0)])
    try:
        wait_until(lambda: (got := consumer.poll(1.0)) and not got.error(), f"a record for {user}", SECONDS)
    finally:
        consumer.close()


def work(lab: Lab) -> None:
    """Clients of each kind at work: one is refused, too."""
    written = [write(lab, user, topic) for user, topic in (("producer", OWN), ("admin", OWN), ("probe", OPEN))]
    assert written == ["ok"] * 3 and write(lab, "probe", OWN) == "TOPIC_AUTHORIZATION_FAILED"
    read(lab, "consumer", "billing")
    read(lab, "orchestrator", None)


def seen(lab: Lab) -> LoggedClients:
    """What a plan would say of the broker's log, by the ACL entries that the broker has."""
    log = lab.logs / f"broker-{ALIAS}.log"
    run: Any = SimpleNamespace(
        topology=SimpleNamespace(cluster=lambda _: SimpleNamespace(authorizer_logs=(f"{log}*",))),
        request=SimpleNamespace(source=ALIAS),
        progress=SimpleNamespace(now=time.time),
        in_drill=False,
    )
    source = SimpleNamespace(alias=ALIAS, brokers=(1,), rules=rules(lab))
    observed: Any = SimpleNamespace(source=source, scope={OWN: OWN, OPEN: OPEN}, exempt={ALIAS: EXEMPT})
    return read_logged_clients(run, observed)


def rules(lab: Lab) -> AclRules:
    """The broker's ACL rules, as a topology that names no super users has them."""
    return AclRules(ClusterAcls(connected(lab)).entries())


def test_at_info_the_log_shows_nobody_and_says_so(lab: Lab) -> None:
    """The clients were there: nothing may be concluded from a log that names refused requests only."""
    work(lab)
    (problem,) = seen(lab).problems
    assert f"names refused requests only; set the broker's logger {LOGGER} to DEBUG" in problem
    assert seen(lab).readers == seen(lab).writers == ()


def test_at_debug_each_is_named_and_the_fence_does_what_is_said(lab: Lab) -> None:
    """Who has a group or an entry is not named; who writes by an entry for everyone is stopped, a super user is not."""
    level = ("--alter", "--entity-type", "broker-loggers", "--entity-name", "1", "--add-config", f"{LOGGER}=DEBUG")
    change_or_list_configs(lab, ALIAS, *level)
    work(lab)
    found = seen(lab)
    assert found.problems == () and found.covered.startswith("1 broker, from ")
    assert found.readers == ("User:orchestrator from 127.0.0.1",)
    assert found.writers == ("User:admin from 127.0.0.1 (no ACL entry stops it)", "User:probe from 127.0.0.1")
    assert found.unstopped == ("User:admin",)
    acls, fence = ClusterAcls(connected(lab)), fence_changes(rules(lab), FenceScope.writes([OWN, OPEN]), EXEMPT)
    acls.add(fence.added)
    acls.remove(fence.replaced)
    assert write(lab, "probe", OPEN) == "TOPIC_AUTHORIZATION_FAILED"
    assert write(lab, "admin", OPEN) == "ok"
