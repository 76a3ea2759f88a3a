"""Configure, format and start a site's three brokers and its KRaft controller, each a process of its own.

Brokers older than 3.5 have a ZooKeeper in place of the controller (`versions/zookeeper.py`).

Brokers, controller and the clients with certificates prove who they are by certificates of the lab's CA; other clients
log in by SCRAM, over TLS. No listener takes a connection without TLS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AclBinding, AdminClient

from lab.environment.brokers import OUTSIDE_PORT, admin_client, common_settings, release_of
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
from lab.environment.state import LOOPBACK, PRINCIPALS, Lab, LabRecord, write_private
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
    await_brokers(client, alias, still_possible)
    if has_zookeeper:
        lab.once(f"users-{alias}", lambda: create_users(lab, client))
    await_replicas(client)


def await_brokers(client: AdminClient, alias: str, still_possible: Callable[[], None] = lambda: None) -> None:
    """Wait until all brokers of a site are in service; `still_possible` raises if waiting is pointless."""
    wait_until(
        lambda: set(client.list_topics(timeout=5.0).brokers) == set(BROKERS),
        f"the brokers of {alias} to answer",
        READY_SECONDS,
        still_possible=still_possible,
        pause=0.5,
    )


def await_replicas(client: AdminClient) -> None:
    """Wait a while until all replicas are in sync.

    A broker that was killed is listed until its session has ended, and comes back without being in sync yet.
    """
    with suppress(LabError):
        wait_until(partial(_all_in_sync, client), "replicas to be in sync", SYNC_SECONDS, pause=0.5)


def _all_in_sync(client: AdminClient) -> bool:
    topics = client.list_topics(timeout=5.0).topics.values()
    return all(set(one.isrs) == set(one.replicas) for topic in topics for one in topic.partitions.values())


def _start(lab: Lab, alias: str, node: int, name: str) -> None:
    command = node_command(lab, alias, node, name)
    if release_of(lab, alias).zookeeper:
        await_unregistered(lab, alias, node)
    elif not (_data_folder(lab, name) / "meta.properties").exists():
        run_to_end(f"format-{name}", format_node_command(lab, alias, node, name))
    lab.processes.start(name, command, dict(os.environ), lab.home)


def node_command(lab: Lab, alias: str, node: int, name: str) -> list[str]:
    """Write the settings and the Java argument file of a node; return the command that runs the node.

    Args:
        lab: the lab.
        alias: the site.
        node: id of the broker or controller.
        name: name of its process, also of its files.
    """
    settings = _settings_path(lab, name)
    write_private(settings, properties_text(node_properties(lab, alias, node)))
    heap = CONTROLLER_HEAP if node == CONTROLLER else os.environ.get("SWITCHBACK_BROKER_HEAP", BROKER_HEAP)
    return java_command(lab, name, heap, "kafka.Kafka", str(settings), version=lab.load().kafka_of(alias))


def format_node_command(lab: Lab, alias: str, node: int, name: str) -> list[str]:
    """Write a Java argument file; return the command that formats a node's storage. Arguments as of `node_command`."""
    record = lab.load()
    arguments = ["format", "-t", record.cluster_ids[alias], "-c", str(_settings_path(lab, name))]
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
        "listener.security.protocol.map": ",".join(
            [*(f"{name.upper()}:SASL_SSL" for name in _password_listeners(record)), "CERTIFICATES:SSL,CONTROLLER:SSL"]
        ),
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
    record, name = lab.load(), member_name(alias, node)
    own = f"CLIENTS://{record.address(name)},CERTIFICATES://{record.address(certificates_port(alias, node))}"
    bound = advertised = own
    if record.published:
        bound += f",OUTSIDE://{record.hosts[name]}:{OUTSIDE_PORT}"
        advertised += f",OUTSIDE://{LOOPBACK}:{record.published[name]}"
    login = scram_login("admin", record.passwords["admin"])
    return {
        "process.roles": "broker",
        "listeners": bound,
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "CERTIFICATES",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        **{f"listener.name.{name}.scram-sha-512.sasl.jaas.config": login for name in _password_listeners(record)},
    }


def _password_listeners(record: LabRecord) -> list[str]:
    """Return the listeners on which clients log in by SCRAM: in containers a second one, for clients outside."""
    return ["clients", *(["outside"] if record.published else [])]


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


def _settings_path(lab: Lab, name: str) -> Path:
    return lab.home / "arguments" / f"{name}.properties"


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
