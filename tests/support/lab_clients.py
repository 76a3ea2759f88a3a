"""Ordinary clients of a running lab: one topic, one record, one reader."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from lab.environment.jvm import java_command, properties_text, run_to_end
from lab.environment.logins.clients import java_login, java_settings
from lab.environment.progress import wait_until
from lab.environment.state import Lab, write_private

SECONDS = 60.0
HEADERS = [("h", b"\x00\xff1"), ("empty", None)]


def acl_filter(permission: AclPermissionType = AclPermissionType.ANY) -> AclBindingFilter:
    """Return a filter that matches every ACL entry, or every entry of one permission."""
    return AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, permission)


def without_marker(bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Return ACL entries without the watcher's marker, which the watcher sets some seconds after it has started."""
    return [binding for binding in bindings if binding.name != "__switchback_marker"]


def client(lab: Lab, alias: str, principal: str) -> dict:
    """Return a principal's librdkafka settings for a cluster."""
    return {**lab.status()["clusters"][alias]["client_properties"][principal], "log_level": 0}


def change_or_list_configs(lab: Lab, alias: str, *arguments: str) -> str:
    """Run Kafka's own tool for configurations on a cluster, as its administrator; return its output.

    The library that the product uses knows no quotas.
    """
    return run_kafka_tool(lab, alias, "configs", "kafka.admin.ConfigCommand", *arguments)


@contextmanager
def producer_quota(lab: Lab, alias: str, user: str, bytes_a_second: int) -> Iterator[None]:
    """Let a user write to a cluster with so many bytes a second only, by a quota of the broker, inside this context."""
    entity = ("--alter", "--entity-type", "users", "--entity-name", user)
    change_or_list_configs(lab, alias, *entity, "--add-config", f"producer_byte_rate={bytes_a_second}")
    try:
        yield
    finally:
        change_or_list_configs(lab, alias, *entity, "--delete-config", "producer_byte_rate")


def move_replicas(lab: Lab, alias: str, topic: str, partition: int, brokers: list[int]) -> None:
    """Place a partition's replicas on exactly these brokers by Kafka's own tool, and wait until they are there."""
    place = {"topic": topic, "partition": partition, "replicas": brokers}
    file = lab.home / "arguments" / f"replicas-{alias}.json"
    write_private(file, json.dumps({"version": 1, "partitions": [place]}))
    main = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    run_kafka_tool(lab, alias, "replicas", main, "--reassignment-json-file", str(file), "--execute")
    admin = AdminClient(client(lab, alias, "admin"))
    wait_until(
        lambda: admin.list_topics(topic, timeout=5.0).topics[topic].partitions[partition].replicas == brokers,
        f"the replicas of {topic}-{partition} to be on {brokers}",
        SECONDS,
    )


def run_kafka_tool(lab: Lab, alias: str, name: str, main: str, *arguments: str) -> str:
    """Run one of Kafka's own tools of the newest version on a cluster, as its administrator; return its output.

    Args:
        name: the tool's name in the lab's files.
        main: the tool's Java class.
        arguments: after the tool's own options that name the cluster and the login.
    """
    who = (lab.load(), lab.authority, alias, "admin")
    security = java_settings(*who) | {"sasl.jaas.config": java_login(*who)}
    settings = lab.home / "arguments" / f"{name}-{alias}.properties"
    write_private(settings, properties_text(dict(security)))
    where = ["--bootstrap-server", lab.bootstrap_servers(alias), "--command-config", str(settings)]
    return run_to_end(name, java_command(lab, name, "128m", main, *where, *arguments))


def refusals(lab: Lab, alias: str, topic: str, **settings: object) -> list[str]:
    """Write one record as an ordinary producer; return the names of the errors, [] if it was accepted."""
    seen: list[str] = []
    producer = Producer({**client(lab, alias, "producer"), "message.timeout.ms": 20_000, **settings})
    producer.produce(
        topic, value=b"v", key=b"k", headers=HEADERS, on_delivery=lambda e, _: seen.append(e.name() if e else "")
    )
    producer.flush(30)
    return [name for name in seen if name]


def takes_only_tls(port: int) -> bool:
    """Whether a port answers neither Kafka's ApiVersions request nor an HTTP request, but with a TLS alert at most."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.settimeout(10)
        plain.sendall(bytes.fromhex("00000013001200000000000100096b6166") + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            return plain.recv(100)[:1] in (b"", b"\x15")
        except ConnectionResetError:
            return True


def new_topic(lab: Lab, alias: str, partitions: int = 3) -> str:
    """Create a topic of a new name; return the name."""
    name = f"ho.orders-{uuid.uuid4().hex[:6]}"
    admin = AdminClient(client(lab, alias, "admin"))
    admin.create_topics([NewTopic(name, partitions, -1)])[name].result(timeout=SECONDS)
    return name


def mirrored(lab: Lab, topic: str) -> str:
    """Return the name that a topic of the primary has on the standby."""
    return topic if lab.load().policy == "identity" else f"primary.{topic}"


def read_one(lab: Lab, topic: str, partitions: int = 3) -> list:
    """Return the headers of the first record of a topic on the standby."""
    consumer = reader(lab, "consumer", [TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        message = wait_until(
            lambda: (found := consumer.poll(0.5)) is not None and not found.error() and (found,), "a record", SECONDS
        )[0]
        return message.headers()
    finally:
        consumer.close()


def reader(lab: Lab, principal: str, partitions: list[TopicPartition]) -> Consumer:
    """Return a consumer on the standby that reads these partitions from their beginning."""
    settings = {"group.id": "t", "isolation.level": "read_uncommitted", "auto.offset.reset": "earliest"}
    consumer = Consumer({**client(lab, "standby", principal), **settings})
    consumer.assign(partitions)
    return consumer
