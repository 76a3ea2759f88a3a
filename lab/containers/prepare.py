"""secrets-init: create passwords and keys, and write the other containers' files; runs at every `up`.

Passwords, keys and cluster ids are created once and stay in the volumes. Settings are written at every run, so that new
code and other published ports take effect.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.clients.application import prefixes_of, write_whole
from lab.clients.service import APPLICATION, CLIENTS, ROUTE
from lab.containers.stack import (
    DATABASES,
    ROOT,
    SERVICES,
    SPARK_MACHINES,
    SPARK_WORKERS,
    TASK_WORKERS,
    published_ports,
)
from lab.environment.airflow_settings import write_environment, write_passwords
from lab.environment.bring_up import ISOLATIONS, POLICIES, make_record
from lab.environment.brokers import broker_command, format_command, write_broker_settings
from lab.environment.connect import flow_worker, worker_command, write_worker_settings
from lab.environment.production.nodes import format_node_command, node_command
from lab.environment.production.profile import (
    BROKERS,
    CONTROLLER,
    PRODUCTION,
    PROFILES,
    REDIS,
    STORE,
    STORE_USER,
    WORKERS,
    member_name,
)
from lab.environment.production.transport import create_certificates
from lab.environment.spark_cluster import SPARK, write_spark_settings
from lab.environment.state import ALIASES, METRICS, PRINCIPALS, Lab, LabRecord, private_folder, write_private
from lab.environment.topology_file import write_topology
from lab.errors import LabError

CLIENT_PRINCIPALS = ("producer", "consumer")
_CA = "ca.pem"


def prepare_folders(lab: Lab, settings: Mapping[str, str]) -> None:
    """Write all files that the other containers read, and create folders, passwords and keys that do not exist yet.

    Args:
        settings: PROFILE, NAMING, ISOLATION, DEMO_TOPICS, DEMO_GROUPS and the published ports, from
            docker-compose.yaml.

    Raises:
        LabError: a setting is invalid, or the clusters in the volumes have another PROFILE, NAMING or ISOLATION.
    """
    _open(lab, settings)
    is_production = lab.load().is_production
    for alias in ALIASES:
        (_write_nodes if is_production else _write_broker)(lab, alias)
        for number in WORKERS if is_production else WORKERS[:1]:
            write_worker_settings(lab, flow_worker(lab, alias, number))
            worker_command(lab, flow_worker(lab, alias, number))
    write_topology(lab)
    for folder in (lab.airflow_home, lab.logs):
        folder.mkdir(parents=True, exist_ok=True)
    # Volumes of an earlier version have open folders, which the product refuses.
    for folder in (lab.evidence, lab.archive):
        private_folder(folder)
    write_spark_settings(lab)
    # If this file did not exist, all of Airflow's components would write this file at the same time.
    (lab.airflow_home / "airflow.cfg").touch()
    write_passwords(lab)
    write_environment(lab)
    _write_databases(lab)
    _write_application(lab, settings)
    if is_production:
        _write_queue_and_store(lab)
        _hand_out(lab)


def _write_broker(lab: Lab, alias: str) -> None:
    write_broker_settings(lab, alias)
    for write_arguments in (broker_command, format_command):
        write_arguments(lab, alias)


def _write_nodes(lab: Lab, alias: str) -> None:
    """Write the files of a site's controller and brokers; beside them, for all of Kafka, the certificates."""
    create_certificates(lab)
    names = {node: f"broker-{member_name(alias, node)}" for node in BROKERS} | {CONTROLLER: f"controller-{alias}"}
    for node, name in names.items():
        node_command(lab, alias, node, name)
        format_node_command(lab, alias, node, name)
    # Kafka's containers mount the folder of these files a second time, as the folder of the certificates.
    for path in (lab.authority.certificate, *lab.authority.certificate.parent.glob("*.p12")):
        _copy(path, lab.home / "arguments" / path.name)


def _open(lab: Lab, settings: Mapping[str, str]) -> None:
    naming, isolation = settings.get("NAMING") or "identity", settings.get("ISOLATION") or "read_uncommitted"
    profile = settings.get("PROFILE") or PRODUCTION
    choices = (("NAMING", naming, POLICIES), ("ISOLATION", isolation, ISOLATIONS), ("PROFILE", profile, PROFILES))
    for name, value, allowed in choices:
        if value not in allowed:
            raise LabError(f"{name}={value!r} is unknown; use one of: {', '.join(allowed)}")
    published = published_ports(settings, profile)
    if not lab.exists():
        services = SERVICES[profile]
        hosts = {"profile": profile, "hosts": dict(services.hosts), "spark_workers": SPARK_WORKERS}
        lab.save(make_record(naming, isolation, dict(services.ports), DATABASES, **hosts))
    record = lab.load()
    _refuse_other_volumes(record, naming, isolation, profile)
    # Volumes of an earlier version lack some secrets.
    for user in (SPARK, METRICS, *PRINCIPALS, *((REDIS, STORE) if record.is_production else ())):
        record.passwords.setdefault(user, secrets.token_hex(16))
    record.airflow, record.published = True, published
    lab.save(record)


def _refuse_other_volumes(record: LabRecord, naming: str, isolation: str, profile: str) -> None:
    if record.profile != profile:
        raise LabError(
            f"the volumes contain the stack of the profile {record.profile}, not {profile}; start the stack as before"
            " (`small`: with `--file docker-compose.yaml --file docker-compose.small.yaml`), or remove the volumes,"
            " which deletes all records of both clusters, with: docker compose down -v"
        )
    if (record.policy, record.isolation) != (naming, isolation):
        raise LabError(
            f"the volumes contain clusters with {record.policy} naming and isolation level {record.isolation}, but the"
            f" settings are NAMING={naming} and ISOLATION={isolation}; set NAMING={record.policy} and"
            f" ISOLATION={record.isolation}, or remove the volumes, which deletes all records of both clusters, with:"
            " docker compose down -v"
        )


def _write_databases(lab: Lab) -> None:
    """Write two files that PostgreSQL's first start reads: the superuser's password, and SQL statements.

    The statements create two databases, one for Airflow and one for the journal, each with an owner role of its name.
    """
    folder, record = lab.home / "postgres", lab.load()
    if not (folder / "password").exists():
        write_private(folder / "password", secrets.token_hex(16))
    lines = [
        line
        for name in DATABASES
        for line in (
            f"CREATE ROLE {name} LOGIN PASSWORD '{record.passwords[f'database_{name}']}';",
            f"CREATE DATABASE {name} OWNER {name};",
        )
    ]
    write_private(folder / "databases.sql", "\n".join(lines) + "\n")


def _write_application(lab: Lab, settings: Mapping[str, str]) -> None:
    """Write the demo clients' configuration and, at the first run only, their routing record and list of clients."""
    folder = lab.root / "clients"
    properties = {
        alias: {principal: _properties_in(folder, lab, alias, principal) for principal in CLIENT_PRINCIPALS}
        for alias in ALIASES
    }
    prefixes = prefixes_of(lab.load().policy, ALIASES)
    document = {"properties": properties, "prefixes": prefixes, "url": lab.drain_url}
    write_private(folder / APPLICATION, json.dumps(document))
    if not (folder / ROUTE).exists():
        record = {"cluster": "primary", "bootstrap_servers": lab.bootstrap_servers("primary"), "version": 1}
        write_whole(folder / ROUTE, record)
    if not (folder / CLIENTS).exists():
        write_whole(folder / CLIENTS, {"name": "demo", "topics": topics_of(settings), "groups": groups_of(settings)})


def _properties_in(folder: Path, lab: Lab, alias: str, principal: str) -> dict[str, str]:
    """Return a client's settings; the CA's certificate is copied into its folder, because it has no other."""
    properties = lab.client_properties(alias, principal)
    if "ssl.ca.location" not in properties:
        return properties
    return properties | {"ssl.ca.location": str(_copy(lab.authority.certificate, folder / _CA))}


def _write_queue_and_store(lab: Lab) -> None:
    """Write the settings that Redis and the store read, each with its password."""
    passwords = lab.load().passwords
    write_private(lab.home / REDIS / "redis.conf", f"requirepass {passwords[REDIS]}\n")
    keys = [{"accessKey": STORE_USER, "secretKey": passwords[STORE]}]
    users = [{"name": STORE_USER, "credentials": keys, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]
    write_private(lab.home / STORE / "users.json", json.dumps({"identities": users}))


def _hand_out(lab: Lab) -> None:
    """Copy to each machine that shares no folder, into its volume, the files that it needs; its group may read them."""
    ca, keys = lab.authority.certificate, (lab.recorder_key, lab.journal_key)
    airflow = (lab.airflow_env, lab.topology, lab.airflow_home / "airflow.cfg", ca, *keys)
    spark = (lab.home / "spark" / "conf" / "spark-defaults.conf", ca)
    for files, machines in ((airflow, TASK_WORKERS), (spark, SPARK_MACHINES)):
        for path, machine in ((path, machine) for path in files for machine in machines):
            copy = _copy(path, lab.root / "machines" / machine / path.relative_to(lab.root))
            copy.chmod(0o640)


def _copy(path: Path, copy: Path) -> Path:
    """Copy a file with its mode, atomically, into a folder that is created if absent; return the copy."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    temporary = copy.with_name(f".{copy.name}.{os.getpid()}")
    shutil.copy2(path, temporary)
    return temporary.replace(copy)


def topics_of(settings: Mapping[str, str]) -> list[str]:
    """Return the names of the demo clients' topics, from the setting DEMO_TOPICS; [] if it is not set."""
    return settings.get("DEMO_TOPICS", "").split()


def groups_of(settings: Mapping[str, str]) -> list[str]:
    """Return the names of the demo clients' groups, from the setting DEMO_GROUPS; [] if it is not set."""
    return settings.get("DEMO_GROUPS", "").split()


def main() -> int:
    """Write the stack's files from the environment's settings; return the exit code: 0, or 1 after a LabError."""
    try:
        prepare_folders(Lab(ROOT), os.environ)
    except LabError as error:
        print(f"secrets-init: {error}", file=sys.stderr)
        return 1
    print("secrets-init: passwords, keys and settings are in the volumes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
