"""doctor on a real lab: each planted fault is named alone, with its remedy; a healthy lab yields nothing.

Three brokers a site with TLS, PostgreSQL, Airflow, a Spark cluster. SWITCHBACK_DOCTOR_LAB names the folder of such a
lab that runs already, and goes on afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka_dr.domain.doctor.rights import NEEDED, OPTIONAL, NeededRight

from lab.environment.bring_up import up
from lab.environment.ports import free_ports
from lab.environment.production.profile import POSTGRES
from lab.environment.state import ALIASES, Lab
from lab.environment.take_down import down
from lab.install.jars import PROJECT
from lab.install.setup import faketime_library
from tests.faults.deployment.outages import restart_brokers
from tests.faults.doctor.doctor_server import DoctorServer, examine_once
from tests.faults.readiness.checked_site import ca_certificate
from tests.faults.support.scene import until
from tests.faults.support.stepping import product_environment
from tests.support.stores.object_store import object_store

#: Findings that may pass have to stand for so long: much less than in the command, as nothing restarts here.
STANDS = ("--stands", "20")
WITHOUT_SPARK = (*STANDS, "--skip", "spark")
Environment = dict[str, str]


class Site:
    """A lab, and examinations of it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.environment = product_environment(lab)
        self.log = folder / "doctor.log"
        self._server = DoctorServer(self.environment, self.log)

    def examine(self, environment: Environment | None = None, *options: str) -> dict[str, Any]:
        """Examine once; return what the command printed."""
        return self._server.examine(environment or self.environment, *options)

    def connection(self, name: str) -> dict[str, Any]:
        """A connection of the lab, as Airflow's JSON."""
        return json.loads(self.environment[f"AIRFLOW_CONN_{name.upper()}"])

    def with_connections(self, **connections: dict[str, Any]) -> Environment:
        """The environment with other connections."""
        changed = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()}
        return self.environment | changed

    def with_extra(self, name: str, **extra: Any) -> Environment:
        """The environment with other settings in the extra of one connection."""
        connection = self.connection(name)
        return self.with_connections(**{name: connection | {"extra": connection.get("extra", {}) | extra}})

    def with_topology(self, **changes: Any) -> Environment:
        """The environment with a topology that differs."""
        path = self.folder / f"topology-{uuid.uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(self.lab.topology.read_text()) | changes))
        return self.environment | {"KAFKA_DR_TOPOLOGY": str(path)}

    def close(self) -> None:
        """End the server."""
        self._server.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A healthy lab."""
    running = os.environ.get("SWITCHBACK_DOCTOR_LAB")
    state = Path(running) if running else tmp_path_factory.mktemp("doctor") / "lab"
    try:
        if not running:
            up(state, True, None, None, 1, profile="production")
        site = Site(Lab(state), tmp_path_factory.mktemp("examined"))
        try:
            yield site
        finally:
            site.close()
    finally:
        if not running:
            down(state)


def said(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Check, reason and remedy of each finding."""
    return [(one["check"], one["reason"], one["next_step"]) for one in document["findings"]]


def assert_alone(document: dict[str, Any], check: str, reason: str, remedy: str) -> None:
    """Exactly one thing is found: this one, with this remedy and a page; the exit code says so."""
    found = said(document)
    assert len(found) == 1, found
    assert found[0][0] == check and reason in found[0][1] and remedy in found[0][2], found
    assert document["findings"][0]["seen"] and document["code"] == 1


def test_a_healthy_lab_yields_nothing(site: Site) -> None:
    """All checks are made, none is left out, and the exit code is 0."""
    document = site.examine(None, *STANDS)
    assert said(document) == [] and document["code"] == 0
    (place,) = document["places"]
    assert place["not_examined"] == {} and len(place["examined"]) > 40


def test_topics_that_come_and_go_and_brokers_that_restart_yield_nothing(site: Site) -> None:
    """Every broker of both clusters restarts once, while one examination follows the other, as the command makes it."""
    admin, churned, documents = AdminClient(site.lab.client_properties("primary", "admin")), [], []
    restarted = threading.Event()

    def churn() -> None:
        while not restarted.wait(2.0):
            name = f"doctor-{uuid.uuid4().hex}"
            # A broker that restarts may refuse: the next topic has another name.
            with suppress(KafkaException):
                admin.create_topics([NewTopic(name, 3)], operation_timeout=30)[name].result(60)
                admin.delete_topics([name], operation_timeout=30)[name].result(60)
                churned.append(name)

    def restart() -> None:
        try:
            for alias in ALIASES:
                restart_brokers(site.lab, alias, lambda: None)
        finally:
            restarted.set()

    with ThreadPoolExecutor() as pool:
        works = [pool.submit(churn), pool.submit(restart)]
        while not restarted.is_set() or len(documents) < 2:
            documents.append(site.examine())
        for work in works:
            work.result()
    print(len(documents), "examinations,", len(churned), "topics")
    assert [said(document) for document in documents] == [[]] * len(documents)
    assert len(churned) > 4


# -- faults in what this machine is given -----------------------------------------------------------------------------


def closed_port() -> int:
    """A port on which nobody listens."""
    return free_ports(["closed"])["closed"]


def unreachable(site: Site) -> Environment:
    """One more address in the bootstrap servers."""
    servers = site.connection("kafka_primary")["extra"]["bootstrap.servers"]
    return site.with_extra("kafka_primary", **{"bootstrap.servers": f"{servers},127.0.0.1:{closed_port()}"})


def no_such_name(site: Site) -> Environment:
    """A name that no DNS has."""
    return site.with_extra("kafka_standby", **{"bootstrap.servers": "broker.standby.invalid:9092"})


def wrong_password(site: Site) -> Environment:
    """Of Switchback on one cluster."""
    return site.with_extra("kafka_standby", **{"sasl.password": "wrong"})


def wrong_ca(site: Site) -> Environment:
    """Brokers' certificates are signed by another."""
    return site.with_extra("kafka_primary", **{"ssl.ca.location": ca_certificate(site.folder, 300)})


def wrong_ca_of_connect(site: Site) -> Environment:
    """The same with Connect."""
    return site.with_extra("connect_standby", verify=ca_certificate(site.folder, 301))


def swapped(site: Site) -> Environment:
    """Each alias leads to the other cluster."""
    pairs = {
        f"kafka_{one}{kind}": f"kafka_{other}{kind}"
        for kind in ("", "_probe")
        for one, other in (("primary", "standby"), ("standby", "primary"))
    }
    return site.with_connections(**{name: site.connection(other) for name, other in pairs.items()})


def one_cluster(site: Site) -> Environment:
    """Both aliases lead to one cluster."""
    return site.with_connections(kafka_standby=site.connection("kafka_primary"))


def connect_stopped(site: Site) -> Environment:
    """Nobody listens where the workers should."""
    urls = ",".join(f"https://127.0.0.1:{closed_port()}" for _ in range(2))
    return site.with_connections(connect_primary=site.connection("connect_primary") | {"host": urls})


def wrong_airflow_password(site: Site) -> Environment:
    """Of Switchback's account."""
    return site.with_connections(airflow_api=site.connection("airflow_api") | {"password": "wrong"})


def missing_connection(site: Site) -> Environment:
    """The topology names it, and nobody made it."""
    return {name: value for name, value in site.environment.items() if name != "AIRFLOW_CONN_KAFKA_PRIMARY_PROBE"}


def broken_topology(site: Site) -> Environment:
    """A key that does not exist."""
    return site.with_topology(clusterz={})


def unnamed_mirror_maker(site: Site) -> Environment:
    """The topology of one cluster does not say as whom MirrorMaker 2 logs in."""
    clusters = yaml.safe_load(site.lab.topology.read_text())["clusters"]
    del clusters["primary"]["principals"]["mirror_maker"]
    return site.with_topology(clusters=clusters)


def probe_elsewhere(site: Site) -> Environment:
    """The probe of one cluster asks the other one."""
    return site.with_connections(kafka_standby_probe=site.connection("kafka_primary_probe"))


def spared_probe(site: Site) -> Environment:
    """The probe has Switchback's own login."""
    return site.with_connections(kafka_standby_probe=site.connection("kafka_standby"))


def other_protocol(site: Site) -> Environment:
    """The listener speaks TLS, and the connection does not."""
    return site.with_extra("kafka_primary", **{"security.protocol": "SASL_PLAINTEXT"})


def no_java(site: Site) -> Environment:
    """Only Python's programs and the shell's."""
    programs = site.folder / "programs"
    programs.mkdir()
    for name in ("bash", "env", "dirname", "ps", "sh", "cat"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    without = {name: value for name, value in site.environment.items() if name != "JAVA_HOME"}
    return without | {"PATH": f"{Path(sys.executable).parent}:{programs}"}


def foreign_evidence(site: Site) -> Environment:
    """Others may read what is stored."""
    (folder := site.folder / "open").mkdir(mode=0o755)
    folder.chmod(0o755)
    return site.with_topology(evidence=str(folder))


#: Fault -> check, and parts of reason and remedy.
GIVEN: dict[Callable[[Site], Environment], tuple[str, str, str]] = {
    unreachable: ("reach", "of primary takes no connection from this machine", "correct host and port"),
    no_such_name: ("reach", "broker.standby.invalid:9092 of standby does not resolve", "DNS or /etc/hosts"),
    wrong_password: ("reach", "The brokers refuse the login of kafka_standby", "Correct user, password"),
    wrong_ca: ("reach", "of primary shows a certificate that this machine does not accept", "`ssl.ca.location`"),
    wrong_ca_of_connect: ("reach", "of connect_standby shows a certificate", "`verify`"),
    swapped: ("cluster_identity", "The connections of primary and standby are swapped", "Swap the two"),
    one_cluster: ("cluster_identity", "primary and standby lead to one cluster", "Correct bootstrap.servers"),
    connect_stopped: ("reach", "of connect_primary takes no connection", "Start the server"),
    wrong_airflow_password: ("reach", "Airflow refuses the login of airflow_api", "Correct login and password"),
    missing_connection: ("connections", "Connection kafka_primary_probe does not exist", "Create the connection"),
    broken_topology: ("topology", "cannot be used", "topology_reference.md"),
    unnamed_mirror_maker: (
        "kafka_rights",
        "The topology names no principal of MirrorMaker 2 on primary",
        "`principals: mirror_maker`",
    ),
    probe_elsewhere: (
        "cluster_identity",
        "The connection kafka_standby_probe leads to another cluster than standby",
        "Correct bootstrap.servers of kafka_standby_probe",
    ),
    spared_probe: (
        "kafka_rights",
        "The probe of standby logs in as a principal that a fence spares",
        "ordinary client",
    ),
    other_protocol: ("reach", "No broker answers kafka_primary, although its addresses", "Compare `security.protocol`"),
    no_java: ("spark", "Java is missing on this machine", "Install Java 17"),
    foreign_evidence: ("files", "Other users may read, write or search", "chmod 700"),
}


def test_each_fault_in_what_the_machine_is_given_is_named_alone(site: Site) -> None:
    """Some at a time: they meet nobody else. All are looked at before the first failure is told."""

    def examined(fault: Callable[[Site], Environment]) -> dict[str, Any]:
        options = STANDS if fault is no_java else WITHOUT_SPARK
        return site.examine(fault(site), *options)

    with ThreadPoolExecutor(4) as pool:
        documents = list(zip(GIVEN, pool.map(examined, GIVEN), strict=True))
    wrong = {}
    for fault, document in documents:
        try:
            assert_alone(document, *GIVEN[fault])
        except AssertionError as error:
            wrong[fault.__name__] = str(error)
        print(fault.__name__, said(document), flush=True)
    assert wrong == {}


def test_a_bucket_that_is_missing_is_named(site: Site) -> None:
    """And one that exists is not; nothing is left in it."""
    with object_store() as options:
        login = {"conn_type": "generic", "extra": options}
        for uri in ("s3://archive/files", "s3://nowhere/files"):
            environment = site.with_topology(store={"uri": uri, "connection": "store"})
            environment |= {"AIRFLOW_CONN_STORE": json.dumps(login)}
            document = site.examine(environment, *WITHOUT_SPARK)
            print(uri, said(document), flush=True)
            if "archive" in uri:
                assert said(document) == []
        assert_alone(document, "files", "The store cannot be written and read", "Create the bucket")


def test_a_package_that_executors_lack_is_named(site: Site, tmp_path: Path) -> None:
    """Executors of the lab's Spark master have a Python without Kafka's client."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    inherited = next(Path(sys.executable).parents[1].glob("lib/python3*/site-packages"))
    (packages := next((tmp_path / "bare").glob("lib/python3*/site-packages"))).mkdir(exist_ok=True)
    for name in ("numpy", "numpy.libs", "pandas", "pyarrow", "dateutil", "six.py", "pytz", "tzdata", "cloudpickle"):
        if (inherited / name).exists():
            (packages / name).symlink_to(inherited / name)
    programs = {"PYSPARK_PYTHON": str(tmp_path / "bare" / "bin" / "python"), "PYSPARK_DRIVER_PYTHON": sys.executable}
    document = site.examine(site.environment | programs, *STANDS)
    assert_alone(document, "spark", "cannot import the Python package confluent_kafka", "PYSPARK_PYTHON")


@pytest.mark.skipif(faketime_library() is None, reason="libfaketime is not installed here")
def test_a_clock_that_is_ahead_is_named(site: Site) -> None:
    """By two minutes; the database, Airflow and Connect agree with each other."""
    fake = {"LD_PRELOAD": str(faketime_library()), "FAKETIME": "+120", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    document = examine_once(site.environment | fake, site.log, *WITHOUT_SPARK)
    assert_alone(document, "clocks", "is ahead of the others", "time service")


# -- faults in the systems themselves ---------------------------------------------------------------------------------

KINDS = {
    "topic": (ResourceType.TOPIC, "*", "topics"),
    "group": (ResourceType.GROUP, "*", "groups"),
    "cluster": (ResourceType.BROKER, "kafka-cluster", "the cluster"),
    "transactional_id": (ResourceType.TRANSACTIONAL_ID, "*", "transactional ids"),
}


def rights_on(*kinds: str, alone: bool = False) -> list[NeededRight]:
    """The page's rights on these types; `alone`: without those that others of them imply."""
    stated = [right for right in (*NEEDED, *OPTIONAL) if right.resource_type in kinds]
    # READ, WRITE, ALTER and DELETE imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS.
    return [right for right in stated if not alone or right.operation != "describe"]


#: What is taken away at once, by cluster: together every right, and where rights imply others also these.
TAKEN = [
    {
        "primary": rights_on("topic", "group", "transactional_id", alone=True),
        "standby": rights_on("cluster", alone=True),
    },
    {"primary": rights_on("topic"), "standby": rights_on("group", "transactional_id")},
    {"primary": rights_on("cluster")},
]


@contextmanager
def right_taken_away(site: Site, alias: str, right: NeededRight) -> Iterator[None]:
    """Without one ACL entry of Switchback's principal."""
    admin = AdminClient(site.lab.client_properties(alias, "admin"))
    kind, name, _ = KINDS[right.resource_type]
    operation = AclOperation[right.operation.upper()]
    fields = (kind, name, ResourcePatternType.LITERAL, "User:orchestrator", "*", operation)
    (removed,) = admin.delete_acls([AclBindingFilter(*fields, AclPermissionType.ALLOW)]).values()
    assert len(removed.result(60)) == 1, right
    try:
        yield
    finally:
        for created in admin.create_acls([AclBinding(*fields, AclPermissionType.ALLOW)]).values():
            created.result(60)


@pytest.mark.parametrize("taken", TAKEN, ids=["one by one", "with what they imply", "on the cluster"])
def test_each_right_that_is_taken_away_is_named(site: Site, taken: dict[str, list[NeededRight]]) -> None:
    """Every right of the page has a finding of its own, with the command that gives it back, and nothing else has."""
    with ExitStack() as stack:
        for alias, rights in taken.items():
            for right in rights:
                stack.enter_context(right_taken_away(site, alias, right))
        document = site.examine(None, *WITHOUT_SPARK)
    print(taken, said(document), flush=True)
    found = {(check, reason.partition(" lacks the ")[2]) for check, reason, _ in said(document)}
    assert found == {
        (
            "optional_rights" if right in OPTIONAL else "kafka_rights",
            f"right {right.operation.upper()} on {KINDS[right.resource_type][2]} of {alias}",
        )
        for alias, rights in taken.items()
        for right in rights
    }
    assert len(document["findings"]) == len(found) and document["code"] == 1
    for one, (_, reason, remedy) in zip(document["findings"], said(document), strict=True):
        word = "".join(part.capitalize() for part in reason.split()[4].split("_"))
        assert f"--add --allow-principal User:orchestrator --allow-host '*' --operation {word} " in remedy
        assert one["seen"].startswith(reason.split()[4])


def test_a_database_that_confirms_commits_early_is_named(site: Site) -> None:
    """Its role has synchronous_commit off."""
    record = site.lab.load()
    address = {"host": "127.0.0.1", "port": record.ports[POSTGRES], "user": "postgres"}
    login = psycopg.connect(**address, password=record.passwords[f"database_{POSTGRES}"], autocommit=True)
    with login as server:
        server.execute("ALTER ROLE journal SET synchronous_commit = off")
        try:
            document = site.examine(None, *WITHOUT_SPARK)
        finally:
            server.execute("ALTER ROLE journal RESET synchronous_commit")
    assert_alone(document, "journal", "confirms commits before they are on disk", "RESET synchronous_commit")


def test_a_dag_that_cannot_be_imported_is_named(site: Site) -> None:
    """As Airflow's dag-processor reports it, with the error."""
    path = PROJECT / "dags" / "broken_for_a_test.py"
    path.write_text("from airflow.sdk import DAG\nimport package_that_nobody_has\n")
    try:
        document = {"findings": []}
        ends_at = time.monotonic() + 600
        while not document["findings"] and time.monotonic() < ends_at:
            document = site.examine(None, *WITHOUT_SPARK)
    finally:
        path.unlink()
    assert_alone(document, "dags", "Airflow cannot import a DAG file", "correct what it reports")
    assert "package_that_nobody_has" in document["findings"][0]["seen"]


def test_a_worker_that_has_died_is_named(site: Site) -> None:
    """Killed; the lab starts it again."""
    pid = site.lab.processes.pid("drill-standby")
    os.kill(pid, signal.SIGKILL)
    until(lambda: site.lab.processes.pid("drill-standby") is None, "the worker to end", 60.0)
    try:
        document = site.examine(None, *WITHOUT_SPARK)
    finally:
        up(site.lab.root, True, None, None, 1, profile="production")
    assert_alone(document, "reach", "of connect_drill_standby takes no connection", "Start the server")
