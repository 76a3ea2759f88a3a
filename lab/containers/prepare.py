"""secrets-init: create passwords and keys, and write the other containers' files; runs at every `up`.

Passwords, keys and cluster ids are created once and stay in the volumes. Settings are written at every run, so that new
code and other published ports take effect.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping

from lab.clients.application import prefixes_of, write_whole
from lab.clients.service import APPLICATION, CLIENTS, ROUTE
from lab.containers.stack import DATABASES, HOSTS, PORTS, ROOT, SPARK_WORKERS, published_ports
from lab.environment.airflow_settings import write_environment, write_passwords
from lab.environment.bring_up import ISOLATIONS, POLICIES, make_record
from lab.environment.brokers import broker_command, format_command, write_broker_settings
from lab.environment.connect import flow_worker, worker_command, write_worker_settings
from lab.environment.spark_cluster import SPARK, write_spark_settings
from lab.environment.state import ALIASES, METRICS, PRINCIPALS, Lab, private_folder, write_private
from lab.environment.topology_file import write_topology
from lab.errors import LabError

CLIENT_PRINCIPALS = ("producer", "consumer")


def prepare_folders(lab: Lab, settings: Mapping[str, str]) -> None:
    """Write all files that the other containers read, and create folders, passwords and keys that do not exist yet.

    Args:
        settings: NAMING, ISOLATION, DEMO_TOPICS, DEMO_GROUPS and the published ports, from docker-compose.yaml.

    Raises:
        LabError: a setting is invalid, or the clusters in the volumes have another NAMING or ISOLATION.
    """
    _open(lab, settings)
    for alias in ALIASES:
        write_broker_settings(lab, alias)
        write_worker_settings(lab, flow_worker(lab, alias))
        worker_command(lab, flow_worker(lab, alias))
        for write_arguments in (broker_command, format_command):
            write_arguments(lab, alias)
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


def _open(lab: Lab, settings: Mapping[str, str]) -> None:
    naming, isolation = settings.get("NAMING") or "identity", settings.get("ISOLATION") or "read_uncommitted"
    for name, value, allowed in (("NAMING", naming, POLICIES), ("ISOLATION", isolation, ISOLATIONS)):
        if value not in allowed:
            raise LabError(f"{name}={value!r} is unknown; use one of: {', '.join(allowed)}")
    if not lab.exists():
        lab.save(make_record(naming, isolation, PORTS, DATABASES, hosts=HOSTS, spark_workers=SPARK_WORKERS))
    record = lab.load()
    if (record.policy, record.isolation) != (naming, isolation):
        raise LabError(
            f"the volumes contain clusters with {record.policy} naming and isolation level {record.isolation}, but the"
            f" settings are NAMING={naming} and ISOLATION={isolation}; set NAMING={record.policy} and"
            f" ISOLATION={record.isolation}, or remove the volumes, which deletes all records of both clusters, with:"
            " docker compose down -v"
        )
    # Volumes of an earlier version lack some secrets.
    for user in (SPARK, METRICS, *PRINCIPALS):
        record.passwords.setdefault(user, secrets.token_hex(16))
    record.airflow, record.published = True, published_ports(settings)
    lab.save(record)


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
        alias: {principal: lab.client_properties(alias, principal) for principal in CLIENT_PRINCIPALS}
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
