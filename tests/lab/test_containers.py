"""What secrets-init writes, and the demo application as a service; on this machine, without Docker."""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import javaproperties
import pytest
import requests
import yaml
from cryptography import x509
from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.config.settings import check_topology
from kafka_dr.hooks.site.routing import ClientRoute, HttpRouting
from kafka_dr.steps.always_on.start_due_drill import _why_due

from lab.clients.application import ClientPlan
from lab.clients.service import Service, clients_of
from lab.containers import compose
from lab.containers.compose import STACK_FILE, ContainerLab, Stack
from lab.containers.prepare import main, prepare_folders
from lab.containers.stack import ROOT, SERVICES, SPARK_MACHINES, TASK_WORKERS, published_ports
from lab.environment.airflow_settings import store_login
from lab.environment.ports import free_ports
from lab.environment.production.profile import PRODUCTION, PROFILES, SMALL
from lab.environment.state import DRILL_CLIENT, Lab
from lab.errors import LabError
from lab.install.jars import PROJECT
from tests.file_modes import mode_of
from tests.support.stores.object_store import object_store

SETTINGS = {"PROFILE": SMALL, "DEMO_TOPICS": "demo-orders demo-payments", "DEMO_GROUPS": "demo-billing"}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The folder of the small stack as secrets-init leaves it."""
    lab = Lab(tmp_path / "switchback")
    prepare_folders(lab, SETTINGS)
    return lab


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The folder of the stack in production shape as secrets-init leaves it; tests change nothing in it."""
    lab = Lab(tmp_path_factory.mktemp("production") / "switchback")
    prepare_folders(lab, SETTINGS | {"PROFILE": PRODUCTION})
    return lab


def properties(lab: Lab, name: str) -> dict[str, str]:
    """One of the Java properties files."""
    found: dict[str, str] = javaproperties.loads((lab.home / "arguments" / f"{name}.properties").read_text())
    return found


def secrets_of(lab: Lab) -> list[str]:
    """Every password and key."""
    record = lab.load()
    return [*record.passwords.values(), *record.airflow_secrets.values(), (lab.home / "postgres/password").read_text()]


def test_brokers_name_one_address_inside_and_one_outside(lab: Lab) -> None:
    """Clients in containers are sent to the service, clients of the machine to the published port."""
    found = properties(lab, "broker-primary")
    assert found["advertised.listeners"] == "CLIENTS://kafka-primary:9092,OUTSIDE://127.0.0.1:19092"
    assert found["listeners"].startswith("CLIENTS://kafka-primary:9092,OUTSIDE://kafka-primary:9094,CONTROLLER://")
    assert found["listener.security.protocol.map"] == (
        "CLIENTS:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    logins = [found[f"listener.name.{name}.scram-sha-512.sasl.jaas.config"] for name in ("clients", "outside")]
    assert logins[0] == logins[1] and lab.load().passwords["admin"] in logins[0]


def test_the_topology_is_one_that_the_product_takes(lab: Lab) -> None:
    """Clients are redirected over HTTP, for product and application share no file; drills have no workers."""
    topology = check_topology(yaml.safe_load(lab.topology.read_text()), "topology.yaml")
    assert (topology.routing.kind, topology.routing.connection) == ("http", "client_routing")
    assert topology.drill is None


def test_a_drill_of_the_stack_observes_and_none_starts_by_itself(lab: Lab) -> None:
    """No service is a worker for drills, and no connection or setting of the stack speaks of one."""
    topology = check_topology(yaml.safe_load(lab.topology.read_text()), "topology.yaml")
    (flow, _), none = topology.flows, SimpleNamespace(choices={"kind": None})
    run = SimpleNamespace(request=none, topology=topology, flow=flow)
    assert kind_of(run) == "observe" and _why_due(run) == ""
    assert "drill" not in (PROJECT / "docker-compose.yaml").read_text().lower()
    # The file names folders, too, and one of them may be called after this test.
    assert "_DRILL" not in lab.airflow_env.read_text()


def test_airflow_and_journal_are_on_postgresql_and_spark_on_its_cluster(lab: Lab) -> None:
    """Each with a role of its own, whose password stands in the file that makes the roles."""
    given = dict(word.split("=", 1) for word in shlex.split(lab.airflow_env.read_text()))
    passwords = lab.load().passwords
    airflow = f"postgresql+psycopg://airflow:{passwords['database_airflow']}@postgres:5432/airflow"
    assert given["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == given["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"] == airflow
    journal = json.loads(given["AIRFLOW_CONN_KAFKA_DR_JOURNAL"])["extra"]["url"]
    assert journal == f"postgresql+psycopg://journal:{passwords['database_journal']}@postgres:5432/journal"
    spark = json.loads(given["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert (spark["host"], spark["password"]) == ("spark://spark-master:7077", passwords["spark"])
    made = (lab.home / "postgres" / "databases.sql").read_text()
    for name in ("airflow", "journal"):
        assert f"CREATE ROLE {name} LOGIN PASSWORD '{passwords[f'database_{name}']}';" in made
        assert f"CREATE DATABASE {name} OWNER {name};" in made


def test_a_page_outside_and_tasks_inside_reach_the_api(lab: Lab) -> None:
    """Links lead to the published port, tasks to the service."""
    given = dict(word.split("=", 1) for word in shlex.split(lab.airflow_env.read_text()))
    assert given["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18080"
    assert given["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://airflow-api-server:8080/execution/"
    assert set(SERVICES[SMALL].hosts.values()) <= set(given["NO_PROXY"].split(","))


def test_brokers_of_a_site_name_the_addresses_of_their_own(production: Lab) -> None:
    """Each over TLS; who dials a service finds its name in the certificate, and so does who dials this machine."""
    found = properties(production, "broker-standby-3")
    assert found["advertised.listeners"] == (
        "CLIENTS://kafka-standby-3:9092,CERTIFICATES://kafka-standby-3:9095,OUTSIDE://127.0.0.1:29094"
    )
    assert found["listeners"].endswith("OUTSIDE://kafka-standby-3:9094")
    protocols = dict(pair.split(":") for pair in found["listener.security.protocol.map"].split(","))
    assert protocols == {"CLIENTS": "SASL_SSL", "OUTSIDE": "SASL_SSL", "CERTIFICATES": "SSL", "CONTROLLER": "SSL"}
    assert found["controller.quorum.voters"] == "100@kafka-standby-controller:9093"
    names = {"broker-standby-3": "kafka-standby-3", "connect-primary-2": "connect-primary-2"}
    for certificate, host in names.items():
        own = x509.load_pem_x509_certificate(production.authority.files_of(certificate).certificate.read_bytes())
        alternatives = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert host in alternatives.get_values_for_type(x509.DNSName)
        assert [str(address) for address in alternatives.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_tasks_of_production_go_through_celery_and_files_through_the_store(production: Lab) -> None:
    """Each with a password of its own; evidence folder and archive are no place that machines share."""
    given = dict(word.split("=", 1) for word in shlex.split(production.airflow_env.read_text()))
    record = production.load()
    assert given["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"
    assert given["AIRFLOW__CELERY__BROKER_URL"] == f"redis://:{record.passwords['redis']}@redis:6379/0"
    assert given["AIRFLOW__CELERY__RESULT_BACKEND"] == f"db+{given['AIRFLOW__DATABASE__SQL_ALCHEMY_CONN']}"
    login = json.loads(given["AIRFLOW_CONN_SWITCHBACK_STORE"])["extra"]
    assert login == {"endpoint_url": "http://store:8333", "key": "switchback", "secret": record.passwords["store"]}
    topology = check_topology(yaml.safe_load(production.topology.read_text()), "topology.yaml")
    assert topology.store is not None and topology.recorder is not None
    assert (topology.store.uri, topology.recorder.archive) == (
        "s3://switchback/evidence", "s3://switchback/lab/archive"
    )  # fmt: skip
    assert topology.store.connection == topology.recorder.connection == "switchback_store"
    assert (production.home / "redis" / "redis.conf").read_text() == f"requirepass {record.passwords['redis']}\n"
    (user,) = json.loads((production.home / "store" / "users.json").read_text())["identities"]
    assert user["credentials"] == [{"accessKey": login["key"], "secretKey": login["secret"]}]


def test_each_machine_gets_what_it_needs_and_no_more(production: Lab) -> None:
    """Readable by its group; neither the key of the CA nor the record of all passwords is there."""
    spark = {"lab/spark/conf/spark-defaults.conf", "lab/certificates/ca.pem"}
    airflow = {"airflow.env", "topology.yaml", "lab/airflow/airflow.cfg", "lab/certificates/ca.pem"}
    airflow |= {"lab/recorder-key.pem", "lab/journal-key.pem"}
    for machines, wanted in ((TASK_WORKERS, airflow), (SPARK_MACHINES, spark)):
        for machine in machines:
            folder = production.root / "machines" / machine
            files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
            assert set(files) == wanted
            assert {mode_of(path) for path in files.values()} == {0o640}
            assert all(path.read_bytes() == (production.root / name).read_bytes() for name, path in files.items())


def test_a_worker_makes_copies_that_it_alone_can_read(production: Lab, tmp_path: Path) -> None:
    """At each start, from the folder that it was handed; settings replace those of the start before."""
    handed, own = tmp_path / "handed", tmp_path / "own"
    shutil.copytree(production.root / "machines" / TASK_WORKERS[0], handed)
    own.mkdir()
    (own / "topology.yaml").write_text("old")
    script = (PROJECT / "lab" / "containers" / "bin" / "airflow-with-settings").read_text()
    script = script.replace("/var/lib/switchback-settings", str(handed)).replace(str(ROOT), str(own))
    script = script.replace('exec python -m airflow "$@"', 'echo "$AIRFLOW__CORE__EXECUTOR"')
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "CeleryExecutor\n"
    copies = {path.relative_to(own): path for path in own.rglob("*") if path.is_file()}
    assert {handed / name for name in copies} == {path for path in handed.rglob("*") if path.is_file()}
    (own / "topology.yaml").chmod(0o600)
    assert {mode_of(path) for path in copies.values()} == {0o600}
    assert (own / "topology.yaml").read_text() == production.topology.read_text()


def test_files_with_secrets_are_private(lab: Lab, production: Lab) -> None:
    """Whatever holds one can be read by its owner only; what is handed to another user, by the group, too."""
    for stack in (lab, production):
        handed, secrets = stack.root / "machines", [secret.encode() for secret in secrets_of(stack)]
        for path in (path for path in stack.root.rglob("*") if path.is_file()):
            if b"PRIVATE KEY" in path.read_bytes() or any(secret in path.read_bytes() for secret in secrets):
                assert mode_of(path) == (0o640 if path.is_relative_to(handed) else 0o600), path


def test_master_and_workers_of_spark_share_the_secret_of_its_connection(lab: Lab) -> None:
    """Nobody without it joins, and nothing is sent or stored in the clear; the script of both reads this folder."""
    found = javaproperties.loads((lab.home / "spark" / "conf" / "spark-defaults.conf").read_text())
    assert found.pop("spark.authenticate.secret") == lab.load().passwords["spark"]
    assert found.pop("spark.network.crypto.saslFallback") == "false"
    assert found == dict.fromkeys(
        ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"), "true"
    )
    script = (PROJECT / "lab" / "containers" / "bin" / "spark-process").read_text()
    assert f"SPARK_CONF_DIR={ROOT / (lab.home / 'spark' / 'conf').relative_to(lab.root)}\n" in script


def test_what_the_product_stores_is_private(lab: Lab) -> None:
    """Also in the volumes of an earlier version, which had open folders, and lacked some secrets."""
    record = lab.load()
    for name in (missing := ("spark", "metrics", DRILL_CLIENT)):
        record.passwords.pop(name)
    lab.save(record)
    for folder in (lab.evidence, lab.archive):
        folder.chmod(0o755)
    prepare_folders(lab, SETTINGS)
    assert [mode_of(folder) for folder in (lab.evidence, lab.archive)] == [0o700, 0o700]
    assert all(lab.load().passwords[name] for name in missing)


def test_a_second_start_keeps_what_the_volumes_hold(lab: Lab) -> None:
    """Passwords, and where clients are; published ports are those of now."""
    before = secrets_of(lab)
    (lab.root / "clients" / "routing.json").write_text('{"cluster": "standby"}')
    prepare_folders(lab, SETTINGS | {"KAFKA_PRIMARY_PORT": "20000", "DEMO_TOPICS": "other"})
    assert secrets_of(lab) == before
    assert (lab.root / "clients" / "routing.json").read_text() == '{"cluster": "standby"}'
    assert "OUTSIDE://127.0.0.1:20000" in properties(lab, "broker-primary")["advertised.listeners"]
    assert "demo-orders" in (lab.root / "clients" / "clients.json").read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PROFILE": PRODUCTION}, "contain the stack of the profile small, not production"),
        ({"PROFILE": "large"}, "PROFILE='large' is unknown"),
        ({"NAMING": "default"}, "contain clusters with identity naming"),
        ({"NAMING": "sideways"}, "NAMING='sideways' is unknown"),
        ({"ISOLATION": "none"}, "ISOLATION='none' is unknown"),
        ({"AIRFLOW_PORT": "0"}, "AIRFLOW_PORT='0' is not a port"),
        ({"AIRFLOW_PORT": "x"}, "AIRFLOW_PORT='x' is not a port"),
    ],
)
def test_wrong_settings_are_refused_and_nothing_changes(lab: Lab, settings: dict[str, str], words: str) -> None:
    """What was written before stays as it is."""
    before = {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()}
    with pytest.raises(LabError, match=words):
        prepare_folders(lab, SETTINGS | settings)
    assert {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()} == before


def test_a_refusal_is_the_jobs_last_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The container ends with 1 and says which setting is wrong."""
    monkeypatch.setenv("PROFILE", SMALL)
    monkeypatch.setenv("NAMING", "sideways")
    assert main() == 1
    assert capsys.readouterr().err.startswith("secrets-init: NAMING='sideways' is unknown")


@contextmanager
def running(folder: Path, url: str) -> Iterator[None]:
    """Run the service until the block ends; it is killed then, as a container may be."""
    process = subprocess.Popen([sys.executable, "-m", "lab.clients.service", str(folder)], cwd=PROJECT)
    try:
        for _ in range(300):
            try:
                requests.get(f"{url}/state", timeout=5)
                break
            except requests.ConnectionError:
                time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def service(lab: Lab) -> tuple[Path, str]:
    """Folder and address of a service without clients, on a port of this machine."""
    folder, port = lab.root / "clients", free_ports(["drain"])["drain"]
    url = f"http://127.0.0.1:{port}"
    given = json.loads((folder / "application.json").read_text())
    (folder / "application.json").write_text(json.dumps(given | {"url": url}))
    (folder / "clients.json").write_text(json.dumps({"name": "none", "topics": [], "groups": []}))
    return folder, url


def test_the_service_is_a_routing_that_the_product_takes(service: tuple[Path, str]) -> None:
    """Read, changed once, and kept over kill -9."""
    folder, url = service
    routing, there = HttpRouting(url), ClientRoute("standby", "kafka-standby:9092")
    with running(folder, url):
        assert routing.current().cluster == "primary"
        assert routing.redirect(there).changed and not routing.redirect(there).changed
    with running(folder, url):
        assert (routing.current().cluster, routing.current().version) == ("standby", 2)


def test_a_drained_application_stays_drained_over_a_restart(service: tuple[Path, str]) -> None:
    """Only the procedure that drained it lets it go on."""
    folder, url = service
    with running(folder, url):
        requests.post(f"{url}/drain", json={"procedure_id": "one"}, timeout=5).raise_for_status()
    with running(folder, url):
        assert requests.get(f"{url}/state", timeout=5).json()["drained_for"] == "one"
        assert requests.post(f"{url}/resume", json={"procedure_id": "two"}, timeout=5).json()["drained_for"] == "one"
        assert requests.post(f"{url}/resume", json={"procedure_id": "one"}, timeout=5).json()["drained_for"] is None


def test_other_clients_take_the_place_of_those_that_run(service: tuple[Path, str]) -> None:
    """Also after a restart; each set writes into a folder of its own."""
    folder, url = service
    wanted = {"name": "rehearsal-1", "topics": ["orders"], "groups": ["billing", "shipping"]}
    (folder / "drained.json").write_text('"one"')
    with running(folder, url):
        requests.put(f"{url}/clients", json=wanted, timeout=30).raise_for_status()
    made = Service(folder)
    assert made._application.folder == folder / "logs" / "rehearsal-1"
    assert [(plan.name, plan.group) for plan in made._application.clients] == [
        ("producer-0", None), ("consumer-0", "billing"), ("consumer-1", "shipping"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/clients", {"topics": [], "groups": []}),
        ("/clients", {"name": "../up", "topics": [], "groups": []}),
        ("/clients", {"name": "x", "topics": [1], "groups": []}),
        ("/clients", []),
        ("/route", {"cluster": "standby"}),
        ("/route", None),
    ],
)
def test_wrong_documents_are_refused(service: tuple[Path, str], path: str, document: Any) -> None:
    """With 400, and nothing is changed."""
    folder, url = service
    before = {name: (folder / name).read_text() for name in ("routing.json", "clients.json")}
    with running(folder, url):
        assert requests.put(f"{url}{path}", json=document, timeout=5).status_code == 400
        assert requests.put(f"{url}/elsewhere", json=document, timeout=5).status_code == 404
    assert {name: (folder / name).read_text() for name in before} == before


def test_no_topics_mean_no_clients() -> None:
    """Groups without a topic have nothing to read."""
    assert clients_of({"name": "none", "topics": [], "groups": ["billing"]}) == ("none", ())
    assert clients_of({"name": "one", "topics": ["a"], "groups": []}) == ("one", (ClientPlan("producer-0", ("a",)),))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_stack_is_found_again_by_its_folder(tmp_path: Path, profile: str) -> None:
    """Whoever takes it down needs no more than the folder of a demo that was killed."""
    assert Stack.of(tmp_path) is None
    stack = Stack.in_folder(tmp_path, profile)
    assert Stack.of(tmp_path) == stack and (tmp_path / STACK_FILE).exists() and stack.profile == profile
    assert len(set(published_ports(stack.settings, profile).values())) == len(SERVICES[profile].published)


def test_a_judged_stack_takes_nobodys_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one's own clusters nor another naming, from the environment or from `.env`; only how images are built."""
    for name in ("SWITCHBACK_SETTINGS", "NAMING", "DEMO_TOPICS", "KAFKA_PRIMARY_2_PORT", "SWITCHBACK_CA_FILE"):
        monkeypatch.setenv(name, "mine")
    printed = f"{sys.executable} -c 'import os; print(dict(os.environ)); import sys; print(sys.argv)' \"$@\""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(f"#!/bin/sh\n{printed}\n")
    (tmp_path / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    stack = Stack.in_folder(tmp_path)
    environment, arguments = (ast.literal_eval(line) for line in stack._compose("config").splitlines())
    assert environment["SWITCHBACK_SETTINGS"] == str(tmp_path / "settings")
    assert list((tmp_path / "settings").iterdir()) == []
    assert {"NAMING", "DEMO_TOPICS", "KAFKA_PRIMARY_2_PORT"}.isdisjoint(environment) and environment[
        "SWITCHBACK_CA_FILE"
    ] == "mine"
    assert arguments[arguments.index("--env-file") + 1] == os.devnull
    files = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--file"]
    assert files == [str(PROJECT / "docker-compose.yaml"), str(PROJECT / "docker-compose.small.yaml")]


def test_a_docker_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything that it has started."""
    monkeypatch.setattr(compose, "REQUEST_SECONDS", 0.5)
    with pytest.raises(LabError, match="had not ended after 0 s"):
        compose._run(["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; wait"], dict(os.environ), 0.4)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.1)
    pytest.fail("a child of the command still lives")


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({"State": "running", "Health": "healthy", "ExitCode": 0}, "healthy"),
        ({"State": "running", "Health": "starting", "ExitCode": 0}, "starting"),
        ({"State": "running", "Health": "", "ExitCode": 0}, "running"),
        ({"State": "exited", "Health": "", "ExitCode": 0}, "ended"),
        ({"State": "exited", "Health": "", "ExitCode": 137}, "exited"),
        ({"State": "restarting", "Health": "starting", "ExitCode": 1}, "restarting"),
    ],
)
def test_only_healthy_services_and_ended_jobs_count(row: dict[str, Any], state: str) -> None:
    """Whatever else Docker says is the state itself."""
    assert compose._state(row) == state


def test_the_lab_outside_has_the_published_addresses(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the passwords of the lab inside."""
    stack = Stack("some-project", {})
    monkeypatch.setattr(Stack, "read_file", lambda self, service, path: lab.record_path.read_text())
    outside = ContainerLab(tmp_path / "outside", stack)
    outside.adopt()
    status = outside.status()
    assert status["clusters"]["standby"]["bootstrap_servers"] == "127.0.0.1:29092"
    assert status["clusters"]["primary"]["connect_url"] == "http://127.0.0.1:18083"
    assert (status["airflow"]["url"], status["drain_url"]) == ("http://127.0.0.1:18080", "http://127.0.0.1:18090")
    assert outside.load().passwords == lab.load().passwords
    assert yaml.safe_load(lab.topology.read_text())["naming"] == {"policy": outside.load().policy}


def test_files_of_the_store_are_copied_with_their_times(
    production: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the published port; only what has changed is copied again, and what was never stored is no folder."""
    stack = Stack("some-project", {}, PRODUCTION)
    read = {production.record_path.name: production.record_path, "ca.pem": production.authority.certificate}
    monkeypatch.setattr(Stack, "read_file", lambda self, service, path: read[path.name].read_text())
    with object_store() as options:
        record = production.load()
        record.published["store"] = int(options["endpoint_url"].rpartition(":")[2])
        changed = tmp_path / "record.json"
        changed.write_text(json.dumps(asdict(record)))
        read["record.json"] = changed
        lab = ContainerLab(tmp_path / "outside", stack)
        lab.adopt()
        assert lab.authority.certificate.read_text() == production.authority.certificate.read_text()
        assert lab.connect_urls("primary") == ["https://127.0.0.1:18083", "https://127.0.0.1:18084"]
        files = fsspec.filesystem("s3", **store_login(lab.load()), skip_instance_cache=True)
        files.mkdir("switchback")
        assert lab.collected(lab.evidence) == lab.evidence and not lab.evidence.exists()
        files.pipe(stored := "switchback/evidence/run/evidence.json", b"first")
        copy = lab.collected(lab.evidence) / "run" / "evidence.json"
        stored_at = files.info(stored)["LastModified"].timestamp()
        assert (copy.read_text(), copy.stat().st_mtime) == ("first", stored_at)
        copy.write_text("FIRST")
        os.utime(copy, (stored_at, stored_at))
        lab.collected(lab.evidence)
        assert copy.read_text() == "FIRST"
        files.pipe(stored, b"second")
        lab.collected(lab.evidence)
        assert copy.read_text() == "second"


def test_a_site_is_killed_and_started_as_one() -> None:
    """All of a site's brokers with their controller, all its workers; in the small stack one of each."""
    assert SERVICES[SMALL].sites == {
        "broker-primary": ("kafka-primary",),
        "broker-standby": ("kafka-standby",),
        "connect-primary": ("connect-primary",),
        "connect-standby": ("connect-standby",),
    }
    assert SERVICES[PRODUCTION].sites["broker-standby"] == (
        "kafka-standby-controller", "kafka-standby", "kafka-standby-2", "kafka-standby-3",
    )  # fmt: skip
    assert SERVICES[PRODUCTION].sites["connect-primary"] == ("connect-primary", "connect-primary-2")
