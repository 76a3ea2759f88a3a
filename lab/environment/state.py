"""A lab's state: folder, record, addresses and status document."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.environment.layout.flows import LAYOUTS, PAIR, Layout
from lab.environment.logins.clients import librdkafka_login
from lab.environment.logins.kinds import KINDS_OF, SCRAM
from lab.environment.processes import ProcessTable
from lab.environment.production import profile as production
from lab.environment.production.certificates import LabAuthority
from lab.environment.versions.releases import NEWEST, RELEASES
from lab.errors import LabError
from lab.install.jars import PROJECT

ALIASES = ("primary", "standby")
CLIENTS = ("admin", "producer", "consumer")
#: Principal of the producers and consumers of drills.
DRILL_CLIENT = "switchback-drill"
PRINCIPALS = ("admin", "mm2", "orchestrator", "probe", DRILL_CLIENT, "producer", "consumer")
# Airflow roles with few rights: `user` can answer gates; `viewer`, enough for the product, reads runs, gates, XCom.
ROLES = {"operator": "op", "approver": "user", "viewer": "viewer", "switchback": "viewer"}
#: Name of the process that runs MirrorMaker 2 for primary->standby in dedicated mode.
DEDICATED = "dedicated-standby"
DEFAULT_STATE = PROJECT / ".lab"
LOOPBACK = "127.0.0.1"
#: Name of the token by which metrics are scraped, among the lab's passwords.
METRICS = "metrics"
#: Name of PostgreSQL in `LabRecord.hosts`; a lab without PostgreSQL has journal and Airflow's data in SQLite files.
DATABASE_HOST = production.POSTGRES


@dataclass
class LabRecord:
    """A lab's settings and secrets, created once and stored in a file of mode 0600 until `down`.

    Args:
        policy: naming of mirrored topics, `identity` or `default`.
        isolation: isolation level at which MirrorMaker 2 reads.
        ports: port of a service, by the service's name in the lab (a cluster's alias names its broker).
        passwords: passwords by user: Kafka principals, `airflow_USER`, `database_NAME`; `spark`, `metrics`; in
            containers of the profile `production` also `redis`, `store`.
        airflow_secrets: Airflow's keys: `fernet`, `jwt`, `api`.
        cluster_ids: Kafka cluster ids, by alias.
        project: the checkout that created the lab.
        airflow: the lab has Airflow.
        spark_workers: number of workers of the standalone Spark cluster; 0: Spark runs inside the task.
        dedicated: MirrorMaker 2 runs in dedicated mode for primary->standby.
        profile: `small` or `production`.
        hosts: host of a service, by its name in `ports`; services that are not listed are on 127.0.0.1.
        published: ports published on the host's 127.0.0.1, by service. Only the record that containers read has them.
        kafka: Kafka version of a cluster's brokers, by alias; clusters that are not listed run the newest version.
        connect: Kafka version of a cluster's Connect worker and MirrorMaker 2, likewise.
        logins: how clients log in to the clusters, one of `CHOICES` in `logins/kinds.py`.
        clusters: the layout, one of `LAYOUTS` in `layout/flows.py`.
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
    profile: str = production.SMALL
    hosts: dict[str, str] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)
    kafka: dict[str, str] = field(default_factory=dict)
    connect: dict[str, str] = field(default_factory=dict)
    logins: str = SCRAM
    clusters: str = PAIR

    @property
    def layout(self) -> Layout:
        """The lab's clusters and flows."""
        return LAYOUTS[self.clusters]

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases of the lab's clusters."""
        return self.layout.aliases

    def address(self, name: str) -> str:
        """Return "host:port" of a service by its name in `ports`."""
        return f"{self.hosts.get(name, LOOPBACK)}:{self.ports[name]}"

    @property
    def is_production(self) -> bool:
        """Whether the lab has the profile `production`."""
        return self.profile == production.PRODUCTION

    @property
    def replicas(self) -> int:
        """Replication factor of topics."""
        return production.REPLICAS if self.is_production else 1

    def database_url(self, name: str, file: Path) -> str:
        """Return a database's URL: of the database `name` if the lab has PostgreSQL, else of the SQLite file `file`."""
        if DATABASE_HOST not in self.hosts:
            return f"sqlite:///{file}"
        return f"postgresql+psycopg://{name}:{self.passwords[f'database_{name}']}@{self.address(DATABASE_HOST)}/{name}"

    def kafka_of(self, alias: str) -> str:
        """Return the Kafka version of a cluster's brokers."""
        return self.kafka.get(alias, NEWEST)

    def login_of(self, alias: str) -> str:
        """Return the kind of login of a cluster, as of `logins/kinds.py`."""
        return KINDS_OF[self.logins].get(alias, SCRAM)

    def connect_of(self, alias: str) -> str:
        """Return the Kafka version of a cluster's Connect worker, or of MirrorMaker 2 in its place."""
        return self.connect.get(alias, NEWEST)

    def controller_process(self, alias: str) -> str:
        """Return the name of the process that keeps the metadata of a cluster whose brokers keep none themselves."""
        return f"{'zookeeper' if RELEASES[self.kafka_of(alias)].zookeeper else 'controller'}-{alias}"

    def runs_dedicated(self, worker: str) -> bool:
        """Whether MirrorMaker 2 runs in dedicated mode for the flow to a cluster, so that no Connect worker runs.

        Args:
            worker: alias of that cluster.
        """
        return self.dedicated and worker == "standby"

    @property
    def has_drill_workers(self) -> bool:
        """Whether a Connect worker for drills runs beside each cluster.

        A drill needs both, and both must have a version that can leave heartbeats out. A lab in containers, in
        dedicated mode, or created by an earlier version of `up` has none.
        """
        ready = all(RELEASES[self.connect_of(alias)].spares_heartbeats for alias in ALIASES)
        return ready and not self.dedicated and all(drill_port(alias) in self.ports for alias in ALIASES)


class Lab:
    """One lab: its folder, the paths in it, and its addresses; labs in different folders are independent."""

    def __init__(self, state: Path | str = DEFAULT_STATE) -> None:
        """Set the lab's folder; nothing is read or written yet."""
        self.root = Path(os.path.abspath(state))  # noqa: PTH100 (links are not resolved)
        self.home = self.root / "lab"
        self.logs = self.home / "logs"
        self.record_path = self.home / "record.json"
        self.topology = self.root / "topology.yaml"
        self.routing = self.root / "routing.json"
        self.journal = self.root / "journal.db"
        self.airflow_env = self.root / "airflow.env"
        self.evidence = self.root / "evidence"
        self.archive = self.home / "archive"
        self.recorder_key = self.home / "recorder-key.pem"
        self.journal_key = self.home / "journal-key.pem"
        self.authority = LabAuthority(self.home / "certificates")
        self.airflow_home = self.home / "airflow"
        self.processes = ProcessTable(self.home / "processes", self.logs, marker=str(self.root))

    def exists(self) -> bool:
        """Whether the folder has a lab's record, which `up` creates and `down` removes."""
        return self.record_path.exists()

    def load(self) -> LabRecord:
        """Return the lab's record (settings and secrets), as stored in the lab's folder.

        Raises:
            LabError: the folder has no lab.
        """
        try:
            return LabRecord(**json.loads(self.record_path.read_text()))
        except FileNotFoundError:
            raise LabError(
                f"there is no lab under {self.root}; start one with: python -m lab up --state {self.root}"
            ) from None

    def save(self, record: LabRecord) -> None:
        """Replace the lab's stored record by `record`, atomically, in a file of mode 0600."""
        write_private(self.record_path, json.dumps(asdict(record), indent=2))

    def once(self, step: str, act: Callable[[], object]) -> None:
        """Run a set-up step unless it has run in this lab before; a second run could undo what a procedure changed."""
        marker = self.home / "provisioned" / step
        if not marker.exists():
            act()
            marker.parent.mkdir(exist_ok=True)
            marker.touch()

    def collected(self, folder: Path) -> Path:
        """Return a local folder with the current files of `folder`; a lab in containers first copies these files."""
        return folder

    def bootstrap_servers(self, alias: str) -> str:
        """Return a cluster's bootstrap servers, "host:port", of several brokers separated by commas."""
        record = self.load()
        nodes = production.BROKERS if record.is_production else (1,)
        return ",".join(record.address(production.member_name(alias, node)) for node in nodes)

    def connect_url(self, alias: str) -> str:
        """Return the URL of a cluster's Connect worker, of several the first one's."""
        return self.connect_urls(alias)[0]

    def connect_urls(self, alias: str) -> list[str]:
        """Return the URLs of all Connect workers of a cluster."""
        record = self.load()
        if not record.is_production:
            return [f"http://{record.address(f'connect_{alias}')}"]
        workers = [production.member_name(alias, number) for number in production.WORKERS]
        return [f"https://{record.address(f'connect_{worker}')}" for worker in workers]

    def drill_connect_url(self, alias: str) -> str:
        """Return the URL of the Connect worker for drills beside a cluster, of a lab that has such workers."""
        record = self.load()
        return f"{'https' if record.is_production else 'http'}://{record.address(drill_port(alias))}"

    @property
    def airflow_url(self) -> str:
        """URL of Airflow's API and pages."""
        return f"http://{self.load().address('airflow')}"

    @property
    def stop_hook_url(self) -> str:
        """URL of the hook that stops MirrorMaker 2 in dedicated mode; tests, not the lab, serve this hook."""
        return f"http://{self.load().address('stop_hook')}"

    @property
    def drain_url(self) -> str:
        """URL of the demo application's drain hook."""
        return f"http://{self.load().address('drain')}"

    def client_properties(self, alias: str, principal: str) -> dict[str, str]:
        """Return the librdkafka settings with which a user connects to a cluster, including the password."""
        record = self.load()
        if principal == production.CERTIFICATE_CLIENT:
            return self._certificate_client(record, alias)
        servers = {"bootstrap.servers": self.bootstrap_servers(alias)}
        return servers | librdkafka_login(record, self.authority, alias, principal)

    def _certificate_client(self, record: LabRecord, alias: str) -> dict[str, str]:
        """Return the settings of the client whose certificate is its login; only `production` has such a client."""
        ports = [production.certificates_port(alias, node) for node in production.BROKERS]
        files = self.authority.files_of(production.CERTIFICATE_CLIENT)
        return {
            "bootstrap.servers": ",".join(record.address(port) for port in ports),
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "ssl.certificate.location": str(files.certificate),
            "ssl.key.location": str(files.key),
        }

    def status(self) -> dict[str, Any]:
        """Return the status document, as `python -m lab status` prints it; `clusters` is {} if there is no lab.

        The document has addresses, users, passwords and paths; `airflow` is None if the lab runs no Airflow.
        """
        if not self.exists():
            return {"clusters": {}, "airflow": None, "topology": None, "evidence": str(self.evidence)}
        record = self.load()
        return {
            "profile": record.profile,
            "clusters": {alias: self._cluster_status(record, alias) for alias in record.aliases},
            "airflow": self._airflow_status(record) if record.airflow else None,
            "topology": str(self.topology),
            "evidence": str(self.evidence),
            "routing": str(self.routing),
            "drain_url": self.drain_url,
            "airflow_env": str(self.airflow_env),
            # In the profile `small` a path, as ever; a URL has no path to give.
            "journal": record.database_url("journal", self.journal).removeprefix("sqlite:///"),
            "logs": str(self.logs),
            "policy": record.policy,
            "isolation": record.isolation,
            "project": record.project,
        }

    def _cluster_status(self, record: LabRecord, alias: str) -> dict[str, Any]:
        clients = CLIENTS + (production.CERTIFICATE_CLIENT,) * record.is_production
        pids: dict[str, Any] = {kind: self.processes.pid(f"{kind}-{alias}") for kind in ("broker", "connect", "drill")}
        return {
            "bootstrap_servers": self.bootstrap_servers(alias),
            "client_properties": {client: self.client_properties(alias, client) for client in clients},
            "connect_url": self.connect_url(alias),
            "kafka_version": record.kafka_of(alias),
            "pids": pids | (self._member_pids(alias) if record.is_production else {}),
        }

    def _member_pids(self, alias: str) -> dict[str, Any]:
        pid, member_name = self.processes.pid, production.member_name
        workers = zip(self.connect_urls(alias), production.WORKERS, strict=True)
        return {
            "brokers": {str(node): pid(f"broker-{member_name(alias, node)}") for node in production.BROKERS},
            "controllers": {str(production.CONTROLLER): pid(self.load().controller_process(alias))},
            "workers": {url: pid(f"connect-{member_name(alias, number)}") for url, number in workers},
            "postgres": pid(production.POSTGRES),
        }

    def _airflow_status(self, record: LabRecord) -> dict[str, Any]:
        people = [name for name in ROLES if name != "switchback"]
        return {
            "url": self.airflow_url,
            "users": {name: {"password": record.passwords[f"airflow_{name}"], "role": ROLES[name]} for name in people},
        }


def drill_port(alias: str) -> str:
    """Return the name of the port of the Connect worker for drills beside a cluster."""
    return f"connect_drill_{alias}"


def private_folder(path: Path) -> Path:
    """Create a folder if absent, give it mode 0700, and return it."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600; safe in parallel, because each thread writes and renames another temporary file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
