"""ZooKeeper of a site whose brokers are older than 3.5: one server, on the port of a KRaft controller.

It listens on this machine only, without TLS and without a login, also in the profile `production`: only brokers connect
to it. In that profile brokers among themselves, and clients, speak TLS.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from lab.environment.jvm import java_command, properties_text, run_to_end
from lab.environment.progress import wait_until
from lab.environment.state import PRINCIPALS, Lab, write_private

READY_SECONDS = 120.0
_TICK_MS = 1000
#: A killed broker's registration, which the next start would collide with, lasts as long.
SESSION_SECONDS = 9
_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_REQUEST_SECONDS = 5.0
#: Stands in the answer to `dump`, but not while ZooKeeper still reads its log and knows no broker's registration.
_SERVES = "ephemeral nodes dump"


def start_zookeeper(lab: Lab, alias: str) -> None:
    """Start a site's ZooKeeper unless it runs; in a new lab, create the user with which brokers log in."""
    name = lab.load().controller_process(alias)
    if lab.processes.pid(name) is None:
        write_private(_properties_path(lab, alias), properties_text(_properties(lab, alias)))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = java_command(lab, name, "128m", main, str(_properties_path(lab, alias)), version=_version(lab, alias))
        lab.processes.start(name, command, dict(os.environ), lab.home)
    wait_until(
        lambda: _SERVES in ask_zookeeper(lab, alias, "dump"),
        f"{name} to answer",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live(name),
    )
    lab.once(f"zookeeper-admin-{alias}", lambda: run_to_end(f"scram-{alias}", _user_command(lab, alias, "admin")))


def create_users(lab: Lab, client: AdminClient) -> None:
    """Create all SCRAM users except `admin`, as which `client` has logged in; with KRaft, formatting creates them."""
    passwords = lab.load().passwords
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(name, info, passwords[name].encode()) for name in PRINCIPALS if name != "admin"
    ]
    for future in client.alter_user_scram_credentials(users).values():
        future.result(READY_SECONDS)


def await_unregistered(lab: Lab, alias: str, broker: int = 1) -> None:
    """Wait until ZooKeeper has forgotten a broker that was killed: until then a new broker of its id ends at once."""
    registration = f"/brokers/ids/{broker}"
    wait_until(
        lambda: registration not in ask_zookeeper(lab, alias, "dump").split(),
        f"zookeeper-{alias} to end the session of a broker that was killed",
        SESSION_SECONDS + READY_SECONDS,
        pause=0.5,
    )


def with_zookeeper(properties: Mapping[str, object], lab: Lab, alias: str) -> dict[str, object]:
    """Return a broker's settings for the site's ZooKeeper, made from those of a KRaft node.

    Args:
        properties: settings of a broker, which may be a controller, too; node id and other listeners remain.
    """
    without = ("controller.", "process.", "listener.name.controller.")
    remaining = {key: value for key, value in properties.items() if not key.startswith(without)}
    for key, mark in (("listeners", ","), ("listener.security.protocol.map", ","), ("super.users", ";")):
        entries = str(remaining[key]).split(mark)
        # Nobody is ANONYMOUS: there is no controller listener.
        remaining[key] = mark.join(one for one in entries if not one.startswith(("CONTROLLER:", "User:ANONYMOUS")))
    return remaining | {
        "broker.id": remaining.pop("node.id"),
        "zookeeper.connect": lab.load().address(f"controller_{alias}"),
        "zookeeper.session.timeout.ms": SESSION_SECONDS * 1000,
        "zookeeper.connection.timeout.ms": 60_000,
        "authorizer.class.name": _AUTHORIZER,
    }


def ask_zookeeper(lab: Lab, alias: str, word: str) -> str:
    """Send one of ZooKeeper's four-letter words; return the answer."""
    host, _, port = lab.load().address(f"controller_{alias}").partition(":")
    with socket.create_connection((host, int(port)), _REQUEST_SECONDS) as connection:
        connection.sendall(word.encode())
        return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()


def _user_command(lab: Lab, alias: str, user: str) -> list[str]:
    """Return the command that creates a SCRAM user in ZooKeeper; the password stands in the Java argument file."""
    arguments = ["--zookeeper", lab.load().address(f"controller_{alias}"), "--alter"]
    arguments += ["--entity-type", "users", "--entity-name", user]
    arguments += ["--add-config", f"SCRAM-SHA-512=[password={lab.load().passwords[user]}]"]
    main = "kafka.admin.ConfigCommand"
    return java_command(lab, f"scram-{alias}", "128m", main, *arguments, version=_version(lab, alias))


def _properties(lab: Lab, alias: str) -> dict[str, object]:
    host, _, port = lab.load().address(f"controller_{alias}").partition(":")
    return {
        "dataDir": lab.home / "zookeeper" / alias,
        "clientPort": port,
        "clientPortAddress": host,
        "tickTime": _TICK_MS,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "dump",
    }


def _properties_path(lab: Lab, alias: str) -> Path:
    return lab.home / "arguments" / f"zookeeper-{alias}.properties"


def _version(lab: Lab, alias: str) -> str:
    return lab.load().kafka_of(alias)
