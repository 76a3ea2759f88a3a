"""Configure, format and start the two clusters, each of a single KRaft node (broker and controller).

A broker older than 3.5 has a ZooKeeper beside it instead (`versions/zookeeper.py`).
"""

from __future__ import annotations

import os
from pathlib import Path

from confluent_kafka.admin import AdminClient

from lab.environment.jvm import java_command, properties_text, run_to_end
from lab.environment.logins.listeners import listener_settings, scram_users
from lab.environment.progress import wait_until
from lab.environment.state import LOOPBACK, Lab, write_private
from lab.environment.versions.releases import RELEASES, Release
from lab.environment.versions.zookeeper import await_unregistered, create_users, start_zookeeper, with_zookeeper

READY_SECONDS = 240.0
#: For a lab in containers: a broker's port for clients that run outside of the containers.
OUTSIDE_PORT = 9094
LARGEST_MESSAGE = 10 * 1024 * 1024


def start_broker(lab: Lab, alias: str) -> bool:
    """Start a cluster's broker unless it runs, and wait until it answers; return True if it did not run."""
    name, release = f"broker-{alias}", release_of(lab, alias)
    if release.zookeeper:
        start_zookeeper(lab, alias)
    if started := lab.processes.pid(name) is None:
        write_broker_settings(lab, alias)
        if release.zookeeper:
            await_unregistered(lab, alias)
        elif not (_data_folder(lab, alias) / "meta.properties").exists():
            run_to_end(f"format-{alias}", format_command(lab, alias))
        lab.processes.start(name, broker_command(lab, alias), dict(os.environ), lab.home)
    client = admin_client(lab, alias)
    wait_until(
        lambda: client.list_topics(timeout=2.0).brokers,
        f"{name} to answer",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live(name),
    )
    if release.zookeeper:
        lab.once(f"users-{alias}", lambda: create_users(lab, client))
    return started


def release_of(lab: Lab, alias: str) -> Release:
    """Return what a cluster's Kafka version needs."""
    return RELEASES[lab.load().kafka_of(alias)]


def admin_client(lab: Lab, alias: str) -> AdminClient:
    """Return an admin client of a cluster as the super user `admin`.

    Keep a reference to the client until all its calls have their results.
    """
    settings = {
        "log_level": 0,
        "socket.timeout.ms": 10_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
    }
    return AdminClient({**lab.client_properties(alias, "admin"), **settings})


def write_broker_settings(lab: Lab, alias: str) -> None:
    """Write the properties file of a cluster's broker."""
    properties = _properties(lab, alias)
    if release_of(lab, alias).zookeeper:
        properties = with_zookeeper(properties, lab, alias)
    write_private(_properties_path(lab, alias), properties_text(properties))


def broker_command(lab: Lab, alias: str) -> list[str]:
    """Write the Java argument file of a cluster's broker; return the command that runs the broker."""
    heap = os.environ.get("SWITCHBACK_BROKER_HEAP", "512m")
    version = lab.load().kafka_of(alias)
    return java_command(lab, f"broker-{alias}", heap, "kafka.Kafka", str(_properties_path(lab, alias)), version=version)


def format_command(lab: Lab, alias: str) -> list[str]:
    """Write a Java argument file; return the command that formats a broker's storage and creates its SCRAM users."""
    record = lab.load()
    users = [f"SCRAM-SHA-512=[name={name},password={record.passwords[name]}]" for name in scram_users(lab, alias)]
    arguments = ["format", "-t", record.cluster_ids[alias], "-c", str(_properties_path(lab, alias))]
    for user in users:
        arguments += ["--add-scram", user]
    version = record.kafka_of(alias)
    return java_command(lab, f"format-broker-{alias}", "256m", "kafka.tools.StorageTool", *arguments, version=version)


def common_settings() -> dict[str, object]:
    """Return the settings of brokers and controllers that name neither a host nor a file."""
    return {**_AUTHORIZATION, **_SMALL_AND_QUICK}


def _data_folder(lab: Lab, alias: str) -> Path:
    return lab.home / "brokers" / alias


def _properties_path(lab: Lab, alias: str) -> Path:
    return lab.home / "arguments" / f"broker-{alias}.properties"


def _properties(lab: Lab, alias: str) -> dict[str, object]:
    record = lab.load()
    clients, controller = {"CLIENTS": record.address(alias)}, record.address(f"controller_{alias}")
    bound = dict(clients)
    if record.published:
        # The broker must advertise a second address, for clients outside of the containers.
        clients["OUTSIDE"] = f"{LOOPBACK}:{record.published[alias]}"
        bound["OUTSIDE"] = f"{record.hosts[alias]}:{OUTSIDE_PORT}"
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": _listeners(bound | {"CONTROLLER": controller}),
        "advertised.listeners": _listeners(clients),
        "inter.broker.listener.name": "CLIENTS",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": _data_folder(lab, alias),
        **common_settings(),
        **listener_settings(lab, alias, list(clients)),
    }


def _listeners(addresses: dict[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


_AUTHORIZATION = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    # On the controller listener (PLAINTEXT) the node is ANONYMOUS, and must be a super user to send itself requests.
    "super.users": "User:admin;User:ANONYMOUS",
}

_SMALL_AND_QUICK = {
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 8,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    # Otherwise a metadata request of a client or of MirrorMaker 2 would recreate a deleted topic, or create a mirrored
    # topic with too few partitions.
    "auto.create.topics.enable": "false",
    "log.retention.hours": 168,
    "log.cleaner.backoff.ms": 1000,
    # The default, 128 MB, would take a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    "message.max.bytes": LARGEST_MESSAGE,
    "controlled.shutdown.enable": "false",
}
