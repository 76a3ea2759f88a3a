"""Prepare a lab for its kind of logins: certificates, the issuer's process, the names in ACL entries."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import closing

from confluent_kafka.admin import AclBinding

from lab.environment.logins.clients import principal_name
from lab.environment.logins.kinds import CERTIFICATES, ISSUER, SCRAM, broker_certificate
from lab.environment.production.profile import KEY_STORES
from lab.environment.progress import wait_until
from lab.environment.state import LOOPBACK, PRINCIPALS, Lab, write_private

READY_SECONDS = 60.0
#: How long a token is valid: clients renew it several times in a procedure.
TOKEN_SECONDS = 120


def prepare_logins(lab: Lab) -> None:
    """Create certificates and start the issuer, as far as the lab's logins need them."""
    record = lab.load()
    kinds = {alias: record.login_of(alias) for alias in record.aliases}
    if record.is_production or set(kinds.values()) == {SCRAM}:
        return
    for alias in record.aliases:
        lab.authority.issue_once(broker_certificate(alias))
        lab.authority.key_store(broker_certificate(alias), record.passwords[KEY_STORES])
    for name in PRINCIPALS if CERTIFICATES in kinds.values() else ():
        lab.authority.issue_once(name)
    if ISSUER in record.ports:
        start_issuer(lab)


def start_issuer(lab: Lab) -> None:
    """Start the issuer unless it runs, and wait until it listens."""
    record = lab.load()
    lab.authority.issue_once(ISSUER)
    files = lab.authority.files_of(ISSUER)
    settings = lab.home / "arguments" / f"{ISSUER}.json"
    given = {
        "address": record.address(ISSUER),
        "certificate": str(files.certificate),
        "key": str(files.key),
        "clients": {name: record.passwords[name] for name in PRINCIPALS},
        "seconds": TOKEN_SECONDS,
    }
    write_private(settings, json.dumps(given))
    if lab.processes.pid(ISSUER) is None:
        environment = os.environ | {"PYTHONPATH": record.project}
        command = [sys.executable, "-m", "lab.environment.logins.issuer", str(settings)]
        lab.processes.start(ISSUER, command, environment, lab.home)
    wait_until(
        lambda: _listens(record.ports[ISSUER]),
        "the issuer to listen",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live(ISSUER),
    )


def named_as_logged_in(lab: Lab, alias: str, rights: list[AclBinding]) -> list[AclBinding]:
    """Return ACL entries for the principals that a cluster's brokers make of the clients' logins."""
    kind = lab.load().login_of(alias)
    return [
        AclBinding(
            one.restype, one.name, one.resource_pattern_type,
            f"User:{principal_name(kind, one.principal.removeprefix('User:'))}", one.host,
            one.operation, one.permission_type,
        )
        for one in rights
    ]  # fmt: skip


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
