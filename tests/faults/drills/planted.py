"""Faults that are planted beside a drill, on real parts and from the outside; each is mended at its block's end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka_dr.domain.drill.names import DrillNames
from kafka_dr.procedure.drill_run import IDLE_GROUPS, TOPICS

from lab.environment.state import Lab
from tests.faults.support.stepping import ROOT, product_environment
from tests.support.lab_clients import change_or_list_configs

_SECONDS, _SESSION_MS = 30.0, 120_000
MEMBER, GROUP = "an-application-that-hangs", next(iter(IDLE_GROUPS))


@contextmanager
def member_that_stays(lab: Lab, names: DrillNames) -> Iterator[None]:
    """A member of one of the drill's groups, with the drill's principal, whose process hangs after it has joined."""
    client = dict(lab.client_properties("primary", "admin"))
    login = json.loads(product_environment(lab)["AIRFLOW_CONN_KAFKA_PRIMARY_DRILL"])["extra"]
    client |= login if isinstance(login, dict) else json.loads(login)
    client |= {"group.id": names.group(GROUP), "client.id": MEMBER, "session.timeout.ms": _SESSION_MS}
    client |= {"enable.auto.commit": False}
    asked = json.dumps([client, [names.topic(name) for name in TOPICS]])
    command = [sys.executable, "-m", "tests.faults.drills.foreign_member", asked]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as member:
        assert member.stdout is not None and member.stdout.readline() == "joined\n"
        member.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            member.send_signal(signal.SIGCONT)
            member.terminate()


@contextmanager
def denied(lab: Lab, alias: str, principal: str, kind: ResourceType, prefix: str, operation: str) -> Iterator[None]:
    """An ACL entry on a prefix that takes one right from a principal on every topic or group of drills."""
    admin = AdminClient({**lab.client_properties(alias, "admin"), "log_level": 0})
    place = (kind, prefix, ResourcePatternType.PREFIXED, f"User:{principal}", "*")
    what = (AclOperation[operation], AclPermissionType.DENY)
    for future in admin.create_acls([AclBinding(*place, *what)]).values():
        future.result(_SECONDS)
    try:
        yield
    finally:
        for future in admin.delete_acls([AclBindingFilter(*place, *what)]).values():
            future.result(_SECONDS)


@contextmanager
def slow_worker(lab: Lab, names: DrillNames, bytes_per_second: int = 100) -> Iterator[None]:
    """Client quotas on the target by which the drill's MirrorMaker 2 writes hardly anything."""
    clients = [f"connector-producer-{names.source_connector('primary', 'standby')}-{task}" for task in range(2)]
    for client in clients:
        _change_quota(lab, client, "--add-config", f"producer_byte_rate={bytes_per_second}")
    try:
        yield
    finally:
        for client in clients:
            _change_quota(lab, client, "--delete-config", "producer_byte_rate")


def _change_quota(lab: Lab, client: str, *change: str) -> None:
    change_or_list_configs(lab, "standby", "--alter", "--entity-type", "clients", "--entity-name", client, *change)
