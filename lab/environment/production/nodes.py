"""Configure, format and start a site's three brokers and its KRaft controller, each a process of its own.

Brokers older than 3.5 have a ZooKeeper in place of the controller (`versions/zookeeper.py`).

Brokers, controller and the clients with certificates prove who they are by certificates of the lab's CA; other clients
log in by SCRAM, over TLS. No listener takes a connection without TLS.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AclBinding, AdminClient

from lab.environment.brokers import admin_client, common_settings, release_of
from lab.environment.jvm import java_command, properties_text, run_to_end
from lab.environment.logins.clients import scram_login
from lab.environment.production.profile import (
    BROKERS,
    CERTIFICATE_CLIENT,
    CONTROLLER,
    KEY_STORES,
    MIN_INSYNC_REPLICAS,
    REPLICAS,
    certificates_port,
    member_name,
    node_name,
    node_names,
)
from lab.environment.progress import wait_until
from lab.environment.state import PRINCIPALS, Lab, write_private
from lab.environment.versions.zookeeper import await_unregistered, create_users, start_zookeeper, with_zookeeper
from lab.errors import LabError

READY_SECONDS = 600.0
#: The lab is of use also while a replica of some topic catches up.
SYNC_SECONDS = 60.0
BROKER_HEAP, CONTROLLER_HEAP = "384m", "160m"


def start_nodes(lab: Lab, alias: str) -> None:
    """Start those of a site's controller and brokers that do not run; wait until all brokers are in service.

    The processes start at the same time: a broker waits for its controller. ZooKeeper answers before they start.
    """
    has_zookeeper = release_of(lab, alias).zookeeper
    names = [lab.load().controller_process(alias), *(f"broker-{member_name(alias, node)}" for node in BROKERS)]
    if has_zookeeper:
        start_zookeeper(lab, alias)
    for node, name in zip((CONTROLLER, *BROKERS), names, strict=True):
        if lab.processes.pid(name) is None:
            _start(lab, alias, node, name)
    client = admin_client(lab, alias)
    still_possible = partial(lab.processes.must_live, *names)
    wait_until(
        lambda: set(client.list_topics(timeout=5.0).brokers) == set(BROKERS),
        f"the brokers of {alias} to answer",
        READY_SECONDS,
        still_possible=still_possible,
        pause=0.5,
    )
    if has_zookeeper:
        lab.once(f"users-{alias}", lambda: create_users(lab, client))
    # A broker that was killed is listed until its session has ended, and comes back without being in sync yet.
    with suppress(LabError):
        wait_until(partial(_all_in_sync, client), "replicas to be in sync", SYNC_SECONDS, pause=0.5)


def _all_in_sync(client: AdminClient) -> bool:
    topics = client.list_topics(timeout=5.0).topics.values()
    return all(set(one.isrs) == set(one.replicas) for topic in topics for one in topic.partitions.values())


def _start(lab: Lab, alias: str, node: int, name: str) -> None:
    settings, version = lab.home / "arguments" / f"{name}.properties", lab.load().kafka_of(alias)
    write_private(settings, properties_text(node_properties(lab, alias, node)))
    if release_of(lab, alias).zookeeper:
        await_unregistered(lab, alias, node)
    elif not (_data_folder(lab, name) / "meta.properties").exists():
        run_to_end(f"format-{name}", _format_command(lab, alias, node, name, settings))
    heap = CONTROLLER_HEAP if node == CONTROLLER else os.environ.get("SWITCHBACK_BROKER_HEAP", BROKER_HEAP)
    command = java_command(lab, name, heap, "kafka.Kafka", str(settings), version=version)
    lab.processes.start(name, command, dict(os.environ), lab.home)


def _format_command(lab: Lab, alias: str, node: int, name: str, settings: Path) -> list[str]:
    record = lab.load()
    arguments = ["format", "-t", record.cluster_ids[alias], "-c", str(settings)]
    # The controller's storage holds the cluster's first metadata, so also the SCRAM users.
    for user in PRINCIPALS if node == CONTROLLER else ():
        arguments += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={record.passwords[user]}]"]
    version = record.kafka_of(alias)
    return java_command(lab, f"format-{name}", "128m", "kafka.tools.StorageTool", *arguments, version=version)


def node_properties(lab: Lab, alias: str, node: int) -> dict[str, object]:
    """Return the properties of a site's broker, or of its controller if `node` is the controller's id."""
    record = lab.load()
    controller = record.address(f"controller_{alias}")
    is_controller = node == CONTROLLER
    name = f"controller-{alias}" if is_controller else f"broker-{member_name(alias, node)}"
    properties = {
        **common_settings(),
        **_THREE_REPLICAS,
        "node.id": node,
        "controller.quorum.voters": f"{CONTROLLER}@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CERTIFICATES:SSL,CONTROLLER:SSL",
        **({"process.roles": "controller", "listeners": f"CONTROLLER://{controller}"} if is_controller else {}),
        **({} if is_controller else _broker_listeners(lab, alias, node)),
        "super.users": ";".join(["User:admin", *(f"User:CN={own}" for own in node_names(alias))]),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": lab.authority.key_store(node_name(alias, node), record.passwords[KEY_STORES]),
        "ssl.keystore.password": record.passwords[KEY_STORES],
        "ssl.key.password": record.passwords[KEY_STORES],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": lab.authority.certificate,
        **{f"listener.name.{one}.ssl.client.auth": "required" for one in ("certificates", "controller")},
        "log.dirs": _data_folder(lab, name),
    }
    return with_zookeeper(properties, lab, alias) if release_of(lab, alias).zookeeper else properties


def _broker_listeners(lab: Lab, alias: str, node: int) -> dict[str, object]:
    record = lab.load()
    clients = f"CLIENTS://{record.address(member_name(alias, node))}"
    certificates = f"CERTIFICATES://{record.address(certificates_port(alias, node))}"
    return {
        "process.roles": "broker",
        "listeners": f"{clients},{certificates}",
        "advertised.listeners": f"{clients},{certificates}",
        "inter.broker.listener.name": "CERTIFICATES",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": scram_login("admin", record.passwords["admin"]),
    }


def rights_by_certificate(rights: list[AclBinding]) -> list[AclBinding]:
    """Return the user `producer`'s ACL entries for the client that logs in with a certificate."""
    return [
        AclBinding(
            one.restype, one.name, one.resource_pattern_type, f"User:CN={CERTIFICATE_CLIENT}", one.host,
            one.operation, one.permission_type,
        )
        for one in rights
        if one.principal == "User:producer"
    ]  # fmt: skip


def _data_folder(lab: Lab, name: str) -> Path:
    return lab.home / "brokers" / name


# The controller needs them, too: it makes the topics, and keeps the cluster's min.insync.replicas.
_THREE_REPLICAS = {
    "default.replication.factor": REPLICAS,
    "min.insync.replicas": MIN_INSYNC_REPLICAS,
    **{
        f"{topic}.replication.factor": REPLICAS
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    },
    "transaction.state.log.min.isr": MIN_INSYNC_REPLICAS,
    "share.coordinator.state.topic.min.isr": MIN_INSYNC_REPLICAS,
}
