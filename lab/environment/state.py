"""What one lab is: its folder, its record, and what it tells others about itself."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.environment.processes import ProcessTable
from lab.errors import LabError
from lab.install.jars import PROJECT

ALIASES = ("primary", "standby")
CLIENTS = ("admin", "producer", "consumer")
PRINCIPALS = ("admin", "mm2", "orchestrator", "probe", "producer", "consumer")
# The least that suffices: `user` may answer gates, `viewer` may read runs, gates and XCom, which is all the product's
# account does.
ROLES = {"operator": "op", "approver": "user", "viewer": "viewer", "switchback": "viewer"}
#: The process that is MirrorMaker 2 of primary->standby where that runs in dedicated mode.
DEDICATED = "dedicated-standby"
DEFAULT_STATE = PROJECT / ".lab"
LOOPBACK = "127.0.0.1"
#: Name of PostgreSQL among a lab's hosts; a lab without one keeps journal and Airflow's data in SQLite.
DATABASE_HOST = "postgres"


@dataclass
class LabRecord:
    """What is chosen once for a lab and kept until it is taken down; holds secrets, stored 0600.

    Args:
        hosts: host of a name in `ports`; 127.0.0.1 where a name is absent.
        published: of a lab in containers, as its containers see it: ports on 127.0.0.1 under which the machine outside
            reaches them.
    """

    policy: str
    isolation: str
    ports: dict[str, int]
    passwords: dict[str, str] = field(repr=False)
    airflow_secrets: dict[str, str] = field(repr=False)
    cluster_ids: dict[str, str]
    project: str = str(PROJECT)
    airflow: bool = False
    spark_workers: int = 0
    dedicated: bool = False
    hosts: dict[str, str] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Host and port of a service."""
        return f"{self.hosts.get(name, LOOPBACK)}:{self.ports[name]}"

    def runs_dedicated(self, worker: str) -> bool:
        """Whether the flow that the worker beside a cluster would run has a process of its own instead."""
        return self.dedicated and worker == "standby"


class Lab:
    """One lab, under one folder; two of them know nothing of each other."""

    def __init__(self, state: Path | str = DEFAULT_STATE) -> None:
        """Name the folder; nothing is read or written yet."""
        self.root = Path(os.path.abspath(state))  # noqa: PTH100 (links stay as they are given)
        self.home = self.root / "lab"
        self.logs = self.home / "logs"
        self.record_path = self.home / "record.json"
        self.topology = self.root / "topology.yaml"
        self.routing = self.root / "routing.json"
        self.journal = self.root / "journal.db"
        self.airflow_env = self.root / "airflow.env"
        self.evidence = self.root / "evidence"
        self.archive = self.home / "archive"
        self.airflow_home = self.home / "airflow"
        self.processes = ProcessTable(self.home / "processes", self.logs, marker=str(self.root))

    def exists(self) -> bool:
        """Whether `up` has been called here and `down` has not."""
        return self.record_path.exists()

    def load(self) -> LabRecord:
        """Read the record.

        Raises:
            LabError: there is no lab here.
        """
        try:
            return LabRecord(**json.loads(self.record_path.read_text()))
        except FileNotFoundError:
            raise LabError(
                f"there is no lab under {self.root}; start one with: python -m lab up --state {self.root}"
            ) from None

    def save(self, record: LabRecord) -> None:
        """Write the record aside, then rename it."""
        write_private(self.record_path, json.dumps(asdict(record), indent=2))

    def once(self, step: str, act: Callable[[], object]) -> None:
        """Do a step of the set-up that must never be repeated, for a failover may have undone it since."""
        mark = self.home / "provisioned" / step
        if not mark.exists():
            act()
            mark.parent.mkdir(exist_ok=True)
            mark.touch()

    def collected(self, folder: Path) -> Path:
        """A folder of the lab with what is in it now; a lab in containers copies it out of them first."""
        return folder

    def bootstrap_servers(self, alias: str) -> str:
        """Where clients reach a cluster."""
        return self.load().address(alias)

    def connect_url(self, alias: str) -> str:
        """Where the Connect worker beside a cluster answers."""
        return f"http://{self.load().address(f'connect_{alias}')}"

    @property
    def airflow_url(self) -> str:
        """Where Airflow's API and pages are."""
        return f"http://{self.load().address('airflow')}"

    @property
    def stop_hook_url(self) -> str:
        """Where a hook that stops MirrorMaker 2 in dedicated mode is looked for; whoever wants one serves it."""
        return f"http://{self.load().address('stop_hook')}"

    @property
    def drain_url(self) -> str:
        """Where the demo application serves its drain hook, if it runs."""
        return f"http://{self.load().address('drain')}"

    def client_properties(self, alias: str, principal: str) -> dict[str, str]:
        """All librdkafka keys with which a principal reaches a cluster, password included."""
        return {
            "bootstrap.servers": self.bootstrap_servers(alias),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": principal,
            "sasl.password": self.load().passwords[principal],
        }

    def status(self) -> dict[str, Any]:
        """What others need to use this lab, as the command line prints it; without a lab, no cluster is in it."""
        if not self.exists():
            return {"clusters": {}, "airflow": None, "topology": None, "evidence": str(self.evidence)}
        record = self.load()
        return {
            "clusters": {alias: self._cluster_status(alias) for alias in ALIASES},
            "airflow": self._airflow_status(record) if record.airflow else None,
            "topology": str(self.topology),
            "evidence": str(self.evidence),
            "routing": str(self.routing),
            "drain_url": self.drain_url,
            "airflow_env": str(self.airflow_env),
            "journal": str(self.journal),
            "logs": str(self.logs),
            "policy": record.policy,
            "isolation": record.isolation,
            "project": record.project,
        }

    def _cluster_status(self, alias: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers(alias),
            "client_properties": {client: self.client_properties(alias, client) for client in CLIENTS},
            "connect_url": self.connect_url(alias),
            "pids": {kind: self.processes.pid(f"{kind}-{alias}") for kind in ("broker", "connect")},
        }

    def _airflow_status(self, record: LabRecord) -> dict[str, Any]:
        people = [name for name in ROLES if name != "switchback"]
        return {
            "url": self.airflow_url,
            "users": {name: {"password": record.passwords[f"airflow_{name}"], "role": ROLES[name]} for name in people},
        }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, aside and then renamed; several threads may write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    aside.replace(path)
