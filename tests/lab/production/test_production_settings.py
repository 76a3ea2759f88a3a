"""What the profile `production` writes for brokers, workers, clients and Airflow, and what `small` keeps."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_dr.config.settings import check_topology

from lab.__main__ import main
from lab.environment.acls import client_rights, standing_fence
from lab.environment.airflow_settings import airflow_connections, own_environment
from lab.environment.bring_up import _new_record, _open
from lab.environment.connect import cluster_client, connector_config, flow_worker, worker_properties
from lab.environment.production.nodes import node_properties, rights_by_certificate
from lab.environment.production.profile import BROKERS, CONTROLLER
from lab.environment.production.site import process_names
from lab.environment.production.supervisor import (
    LONGEST_PAUSE,
    SILENT_SECONDS,
    SOON_SECONDS,
    RestartPauses,
    SilenceWatch,
    silent_components,
)
from lab.environment.production.transport import create_certificates
from lab.environment.state import Lab
from lab.environment.topology_file import write_topology
from lab.environment.versions.choices import keep_versions
from lab.environment.versions.releases import NEWEST, RELEASES
from lab.errors import LabError

SIDES = ("primary", "standby")


def _opened(folder: Path, profile: str, policy: str = "identity") -> Lab:
    lab = Lab(folder)
    lab.save(_new_record(policy, "read_uncommitted", profile=profile))
    return lab


@pytest.fixture
def small(tmp_path: Path) -> Lab:
    """A lab of the profile `small` that runs nothing."""
    return _opened(tmp_path / "small", "small")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab of the profile `production` that runs nothing, with its certificates."""
    made = _opened(tmp_path / "production", "production")
    create_certificates(made)
    return made


def _texts_of(found: Any) -> list[str]:
    if isinstance(found, dict):
        return [text for value in found.values() for text in _texts_of(value)]
    return [text for value in found for text in _texts_of(value)] if isinstance(found, list) else [str(found)]


def test_no_listener_without_tls(lab: Lab) -> None:
    """Clients, brokers among themselves, and brokers with their controller."""
    for node in (*BROKERS, CONTROLLER):
        found = node_properties(lab, "primary", node)
        protocols = dict(re.findall(r"(\w+):(\w+)", str(found["listener.security.protocol.map"])))
        names = re.findall(r"(\w+)://", str(found["listeners"]))
        assert {protocols[name] for name in names} <= {"SSL", "SASL_SSL"}
        assert not [value for value in found.values() if "PLAINTEXT" in str(value)]
        assert protocols[str(found.get("inter.broker.listener.name", "CONTROLLER"))] == "SSL"
        required = [key for key, value in found.items() if key.endswith("ssl.client.auth") and value == "required"]
        assert required == ["listener.name.certificates.ssl.client.auth", "listener.name.controller.ssl.client.auth"]


@pytest.mark.parametrize("version", [one.version for one in RELEASES.values() if one.zookeeper])
def test_brokers_with_zookeeper_have_no_listener_without_tls_either(lab: Lab, version: str) -> None:
    """No controller; brokers know each other by their certificates, as with a controller; the other site stays."""
    keep_versions(lab, {"--kafka": {"primary": version}, "--connect": {}})
    for node in BROKERS:
        found = node_properties(lab, "primary", node)
        assert re.findall(r"(\w+)://", str(found["listeners"])) == ["CLIENTS", "CERTIFICATES"]
        assert found["listener.security.protocol.map"] == "CLIENTS:SASL_SSL,CERTIFICATES:SSL"
        assert found["inter.broker.listener.name"] == "CERTIFICATES"
        assert [key for key in found if key.endswith("ssl.client.auth")] == [
            "listener.name.certificates.ssl.client.auth"
        ]
        assert found["broker.id"] == node and not [key for key in found if key.startswith(("controller.", "process."))]
        users = str(found["super.users"]).split(";")
        assert {"User:admin", "User:CN=broker-primary-1"} <= set(users) and "User:ANONYMOUS" not in users
        assert found["zookeeper.connect"] == lab.load().address("controller_primary")
    assert node_properties(lab, "standby", 1)["process.roles"] == "broker"
    assert process_names(lab, "broker-primary")[0] == "zookeeper-primary"
    assert process_names(lab, "broker-standby")[0] == "controller-standby"
    status = lab.status()["clusters"]
    assert {alias: cluster["kafka_version"] for alias, cluster in status.items()} == {
        "primary": version,
        "standby": NEWEST,
    }
    assert list(status["primary"]["pids"]["controllers"]) == ["100"]


def test_roles_are_apart_and_addresses_differ(lab: Lab) -> None:
    """Three brokers and one controller a site, each with a node id, a folder and ports of its own."""
    found = [node_properties(lab, alias, node) for alias in SIDES for node in (*BROKERS, CONTROLLER)]
    assert [one["process.roles"] for one in found] == ["broker", "broker", "broker", "controller"] * 2
    assert [one["node.id"] for one in found] == [1, 2, 3, 100] * 2
    for key in ("listeners", "log.dirs", "ssl.keystore.location"):
        assert len({str(one[key]) for one in found}) == len(found)
    ports = list(lab.load().ports.values())
    assert len(set(ports)) == len(ports)


def test_everything_has_three_replicas(lab: Lab) -> None:
    """Brokers' defaults, Kafka's own topics, and those of Connect and MirrorMaker 2."""
    for node in (*BROKERS, CONTROLLER):
        found = node_properties(lab, "standby", node)
        factors = {key: value for key, value in found.items() if key.endswith("replication.factor")}
        assert set(factors.values()) == {3} and len(factors) == 4
        assert {found[key] for key in found if key.endswith(("min.isr", "min.insync.replicas"))} == {2}
    config = {key: value for kind in ("source", "checkpoint", "heartbeat") for key, value in
              connector_config(lab, "primary", "standby", kind).items()}  # fmt: skip
    worker = worker_properties(lab, flow_worker(lab, "standby"))
    factors = {key: str(value) for key, value in {**config, **worker}.items() if key.endswith("replication.factor")}
    assert set(factors.values()) == {"3"} and len(factors) == 7


def test_small_stays_as_it_is(small: Lab) -> None:
    """One replica, no TLS, no files of a CA."""
    config = connector_config(small, "primary", "standby", "source")
    assert config["replication.factor"] == config["offset-syncs.topic.replication.factor"] == "1"
    assert cluster_client(small, "primary", "")["security.protocol"] == "SASL_PLAINTEXT"
    everything = [*_texts_of(worker_properties(small, flow_worker(small, "primary"))), *_texts_of(config)]
    assert not [text for text in everything if "ssl" in text.lower() or "https" in text]
    status = small.status()
    assert status["profile"] == "small"
    assert set(status["clusters"]["primary"]["pids"]) == {"broker", "connect", "drill"}
    assert status["journal"] == str(small.journal)
    assert own_environment(small)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("sqlite:")
    assert not small.authority.certificate.exists()


def test_status_has_the_agreed_shape(lab: Lab) -> None:
    """Comma lists, the CA's file, and pids by node, worker and server."""
    status = lab.status()
    assert status["profile"] == "production"
    for alias, cluster in status["clusters"].items():
        servers = cluster["bootstrap_servers"].split(",")
        assert len(set(servers)) == 3 and servers[0] == lab.load().address(alias)
        for name in ("admin", "producer", "consumer"):
            properties = cluster["client_properties"][name]
            assert properties["bootstrap.servers"] == cluster["bootstrap_servers"]
            assert properties["security.protocol"] == "SASL_SSL"
            assert Path(properties["ssl.ca.location"]).read_text().startswith("-----BEGIN CERTIFICATE")
        pids = cluster["pids"]
        assert set(pids) == {"broker", "connect", "drill", "brokers", "controllers", "workers", "postgres"}
        assert (list(pids["brokers"]), list(pids["controllers"])) == (["1", "2", "3"], ["100"])
        assert len(pids["workers"]) == 2 and next(iter(pids["workers"])) == cluster["connect_url"]
        assert all(url.startswith("https://") for url in pids["workers"])
    assert json.loads(json.dumps(status)) == status


def test_a_client_logs_in_with_its_certificate(lab: Lab) -> None:
    """Its files exist, it has no password, and it has the rights and the standing fence of `producer`."""
    found = lab.client_properties("primary", "cert-producer")
    assert found["security.protocol"] == "SSL" and not [key for key in found if key.startswith("sasl")]
    assert all(Path(found[key]).exists() for key in found if key.endswith(".location"))
    assert not set(found["bootstrap.servers"].split(",")) & set(lab.bootstrap_servers("primary").split(","))
    rights = [*client_rights(), *standing_fence("standby", "identity")]
    own = rights_by_certificate(rights)
    assert {one.principal for one in own} == {"User:CN=cert-producer"}
    assert len(own) == len([one for one in rights if one.principal == "User:producer"])
    assert {str(one.permission_type) for one in own} == {"AclPermissionType.ALLOW", "AclPermissionType.DENY"}


def test_workers_of_a_group_trust_each_other(lab: Lab) -> None:
    """Same group, each its own address and key store; the password stands in no connector's configuration."""
    first, second = (worker_properties(lab, flow_worker(lab, "standby", number)) for number in (1, 2))
    assert first["group.id"] == second["group.id"]
    for key in ("listeners", "rest.advertised.port", "listeners.https.ssl.keystore.location"):
        assert first[key] != second[key]
    assert first["listeners.https.ssl.truststore.location"] == second["listeners.https.ssl.truststore.location"]
    for prefix in ("", "producer.", "consumer.", "admin."):
        assert first[f"{prefix}security.protocol"] == "SASL_SSL"
        assert first[f"{prefix}ssl.truststore.location"] == str(lab.authority.certificate)
    config = json.dumps(connector_config(lab, "primary", "standby", "source"))
    assert not [secret for secret in lab.load().passwords.values() if secret in config]
    assert str(lab.authority.certificate) in config


def test_airflow_gets_postgresql_and_the_ca(lab: Lab) -> None:
    """Two databases, each with a role and password of its own; Connect over HTTPS with the lab's CA."""
    connections = airflow_connections(lab)
    journal = connections["kafka_dr_journal"]["extra"]["url"]
    airflow = own_environment(lab)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    for name, url in (("journal", journal), ("airflow", airflow)):
        assert url.startswith(f"postgresql+psycopg://{name}:") and url.endswith(f"/{name}")
    assert lab.status()["journal"] == journal
    assert journal.split("@")[0].rsplit(":")[-1] != airflow.split("@")[0].rsplit(":")[-1]
    for alias in SIDES:
        worker = connections[f"connect_{alias}"]
        assert worker["host"].startswith("https://")
        assert worker["extra"] == {"verify": str(lab.authority.certificate)}


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_the_product_takes_the_topology(tmp_path: Path, policy: str) -> None:
    """As in the other profile, no address stands in it."""
    lab = _opened(tmp_path / "lab", "production", policy)
    write_topology(lab)
    text = lab.topology.read_text()
    assert len(check_topology(yaml.safe_load(text), "the lab's").flows) == 2
    assert not [port for port in lab.load().ports.values() if f":{port}" in text]


def test_no_secret_in_the_topology(lab: Lab) -> None:
    """The topology holds no password."""
    write_topology(lab)
    for secret in lab.load().passwords.values():
        assert secret not in lab.topology.read_text()


def test_another_profile_is_refused_by_name(lab: Lab, small: Lab) -> None:
    """A lab keeps its profile; who names none gets the lab's own."""
    for kept, profile, other in ((lab, "production", "small"), (small, "small", "production")):
        _open(kept, None, None, airflow=False)
        _open(kept, None, None, airflow=False, profile=profile)
        expected = f"created with profile: {profile}, not {other}.*first stop and remove the lab"
        with pytest.raises(LabError, match=expected):
            _open(kept, None, None, airflow=False, profile=other)


def test_a_new_lab_is_small(tmp_path: Path) -> None:
    """Unless it is told otherwise."""
    _open(Lab(tmp_path / "x"), None, None, airflow=False)
    assert Lab(tmp_path / "x").load().profile == "small"


def test_combinations_that_do_not_exist_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By name, before anything is made."""
    with pytest.raises(LabError, match="profile production has no dedicated mode"):
        _open(Lab(tmp_path / "x"), None, None, airflow=False, dedicated=True, profile="production")
    with pytest.raises(SystemExit):
        main(["up", "--state", str(tmp_path / "x"), "--profile", "huge"])
    assert "huge" in capsys.readouterr().err and not (tmp_path / "x").exists()


def test_postgresql_that_is_missing_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setattr("lab.environment.production.postgres.postgresql_programs", lambda: None)
    from lab.environment.production.postgres import start_postgres

    with pytest.raises(LabError, match=r"needs a PostgreSQL server.*python3 -m lab.install.setup postgresql"):
        start_postgres(lab)


def test_a_component_that_dies_at_once_is_started_less_and_less_often() -> None:
    """The first start and a start after a long life are immediate; pauses grow up to a limit."""
    pauses, now, starts = RestartPauses(), 0.0, []
    while now < 300.0:
        if pauses.may_start("scheduler", now):
            starts.append(now)
        now += 0.5
    waits = [after - before for before, after in pairwise(starts)]
    assert starts[0] == 0.0 and waits[:4] == [1.0, 2.0, 4.0, 8.0] and max(waits) == LONGEST_PAUSE
    assert pauses.may_start("triggerer", now)
    later = starts[-1] + SOON_SECONDS + 1
    assert pauses.may_start("scheduler", later)
    assert not pauses.may_start("scheduler", later + 0.5) and pauses.may_start("scheduler", later + 2.0)


def _health(seconds_ago: float, database: str = "healthy") -> dict[str, Any]:
    at = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return {
        "metadatabase": {"status": database},
        "scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": at},
        "triggerer": {"status": "healthy", "latest_triggerer_heartbeat": NOW.isoformat()},
        "dag_processor": {"status": None, "latest_dag_processor_heartbeat": None},
    }


NOW = datetime(2026, 11, 26, tzinfo=UTC)


def test_who_gives_no_heartbeat_is_silent() -> None:
    """Not one that has never given one, and nobody while the database is away."""
    assert silent_components(_health(SILENT_SECONDS + 1), NOW) == ["scheduler"]
    assert silent_components(_health(SILENT_SECONDS - 1), NOW) == []
    assert silent_components(_health(SILENT_SECONDS + 1, database="unhealthy"), NOW) == []


def test_only_an_old_process_is_killed_for_its_silence(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat of the process before it is old, too."""
    watch, killed = SilenceWatch(lab), list[int]()
    monkeypatch.setattr(watch, "_silent", lambda: ["scheduler"])
    monkeypatch.setattr("os.kill", lambda pid, _: killed.append(pid))
    pids = iter([7] * 4 * 4)
    monkeypatch.setattr(type(lab.processes), "pid", lambda _, name: next(pids))
    for now in (0.0, 60.0, SILENT_SECONDS - 1):
        watch.kill_silent(now)
    assert killed == []
    watch.kill_silent(SILENT_SECONDS + 10)
    assert killed == [7]


def test_a_site_is_killed_as_a_whole(lab: Lab, small: Lab) -> None:
    """All brokers with their controller, or all workers; in `small` the one process."""
    assert process_names(small, "broker-primary") == ["broker-primary"]
    brokers = ["broker-primary", "broker-primary-2", "broker-primary-3"]
    assert process_names(lab, "broker-primary") == ["controller-primary", *brokers]
    assert process_names(lab, "connect-standby") == ["connect-standby", "connect-standby-2"]
