"""The lab's folder, its record and what it tells others."""

from __future__ import annotations

import json
import shlex
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from kafka_dr.config.settings import check_topology

from lab.__main__ import main
from lab.environment.airflow_settings import (
    airflow_connections,
    airflow_environment,
    own_environment,
    write_environment,
)
from lab.environment.bring_up import _cluster_id, _make_private, _new_record, _open
from lab.environment.connect import KINDS, connector_config
from lab.environment.dedicated_mirror_maker import mirror_maker_properties
from lab.environment.jvm import properties_text
from lab.environment.state import Lab, write_private
from lab.environment.topology_file import write_routing, write_topology
from lab.errors import LabError
from tests.file_modes import mode_of


@pytest.fixture(params=[("identity", False), ("default", False), ("identity", True), ("default", True)], ids=str)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A lab that has been opened but runs nothing; its MirrorMaker 2 would run in dedicated mode or in a worker."""
    lab = Lab(tmp_path / "state")
    policy, dedicated = request.param
    lab.save(_new_record(policy, "read_uncommitted", dedicated=dedicated))
    return lab


def _secrets(lab: Lab) -> list[str]:
    record = lab.load()
    return [*record.passwords.values(), *record.airflow_secrets.values()]


def test_status_has_the_agreed_shape(lab: Lab) -> None:
    """Addresses, users, passwords and pids stand where tools look for them."""
    record = lab.load()
    record.airflow = True
    lab.save(record)
    status = lab.status()
    assert set(status["clusters"]) == {"primary", "standby"}
    for cluster in status["clusters"].values():
        assert set(cluster) == {"bootstrap_servers", "client_properties", "connect_url", "kafka_version", "pids"}
        assert set(cluster["client_properties"]) == {"admin", "producer", "consumer"}
        assert set(cluster["pids"]) == {"broker", "connect", "drill"}
        for properties in cluster["client_properties"].values():
            assert properties["bootstrap.servers"] == cluster["bootstrap_servers"]
            assert properties["sasl.password"] in _secrets(lab)
    assert set(status["airflow"]["users"]) == {"operator", "approver", "viewer"}
    assert all(set(user) == {"password", "role"} for user in status["airflow"]["users"].values())
    assert (status["topology"], status["evidence"]) == (str(lab.topology), str(lab.evidence))


def test_status_without_a_lab_is_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no lab is, the output is still JSON and names no cluster."""
    assert main(["status", "--json", "--state", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["clusters"] == {}


def test_all_ports_differ(lab: Lab) -> None:
    """No two services of a lab, and no two labs, share a port."""
    ports = list(lab.load().ports.values()) + list(_new_record("identity", "read_uncommitted").ports.values())
    assert len(set(ports)) == len(ports)


def test_threads_may_write_one_file_at_once(tmp_path: Path) -> None:
    """Both sites come up at the same time, and either writes the login that they share."""
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: write_private(tmp_path / "login", "text"), range(500)):
            assert (tmp_path / "login").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["login"]


def test_files_with_secrets_are_private(lab: Lab) -> None:
    """Record and environment file can be read by their owner only."""
    write_environment(lab)
    for path in (lab.record_path, lab.airflow_env):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_secret_in_topology_routing_or_connector(lab: Lab) -> None:
    """What others may read holds no password."""
    write_topology(lab)
    write_routing(lab)
    texts = [
        lab.topology.read_text(),
        lab.routing.read_text(),
        json.dumps(connector_config(lab, "primary", "standby", "source")),
    ]
    assert not [secret for secret in _secrets(lab) for text in texts if secret in text]


def test_every_connection_of_the_topology_exists(lab: Lab) -> None:
    """Each connection that the topology names is handed to Airflow."""
    write_topology(lab)
    topology = yaml.safe_load(lab.topology.read_text())
    named = {
        value
        for cluster in topology["clusters"].values()
        for key, value in cluster.items()
        if key.endswith("connection")
    }
    named |= {flow.get("connect") or flow["stop_hook"] for flow in topology["flows"]}
    named |= {topology[part]["connection"] for part in ("drain", "journal", "airflow_api", "spark", "metrics")}
    named |= {name for part in ("connect", "clients") for name in topology["drill"].get(part, {}).values()}
    assert named == set(airflow_connections(lab))


def test_both_flows_use_the_same_alias_for_a_cluster(lab: Lab) -> None:
    """A cluster has one alias in every connector, else heartbeat topics multiply without end."""
    forward, reverse = (
        connector_config(lab, *pair, "source") for pair in (("primary", "standby"), ("standby", "primary"))
    )
    for side, other in (("source", "target"), ("target", "source")):
        assert forward[f"{side}.cluster.alias"] == reverse[f"{other}.cluster.alias"]
        assert forward[f"{side}.cluster.bootstrap.servers"] == reverse[f"{other}.cluster.bootstrap.servers"]


def test_a_routing_record_is_kept(lab: Lab) -> None:
    """A second `up` leaves the routing as a failover has set it."""
    lab.routing.write_text('{"cluster": "standby"}')
    write_routing(lab)
    assert json.loads(lab.routing.read_text()) == {"cluster": "standby"}


def test_the_environment_file_can_be_read_back(lab: Lab) -> None:
    """Values with quotes and spaces survive the file, and foreign Airflow settings do not leak in."""
    write_environment(lab)
    own = own_environment(lab)
    assert dict(word.split("=", 1) for word in shlex.split(lab.airflow_env.read_text())) == {
        key: value for key, value in own.items() if key != "PATH"
    }


def test_foreign_airflow_settings_are_left_out(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of the caller's own Airflow does not reach the lab's."""
    monkeypatch.setenv("AIRFLOW__CORE__UNIT_TEST_MODE", "True")
    assert "AIRFLOW__CORE__UNIT_TEST_MODE" not in airflow_environment(lab)


def test_a_lab_keeps_its_policy(lab: Lab) -> None:
    """Asking for another naming than the lab has is refused; asking for none keeps it."""
    policy = lab.load().policy
    _open(lab, None, None, airflow=False)
    other = {"identity": "default", "default": "identity"}[policy]
    with pytest.raises(LabError, match="first stop and remove the lab with: python -m lab down"):
        _open(lab, other, None, airflow=False)


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    """A folder that holds a file under a name the lab needs is refused, by name, and left alone."""
    (tmp_path / "topology.yaml").write_text("mine")
    with pytest.raises(LabError, match=r"topology\.yaml"):
        _open(Lab(tmp_path), None, None, airflow=False)
    assert (tmp_path / "topology.yaml").read_text() == "mine"
    assert not Lab(tmp_path).exists()


@pytest.mark.parametrize("name", ["a:b", "a$b", 'a"b', "a}b"])
def test_a_path_that_java_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    """Characters with a meaning in Kafka's properties are refused before anything is made."""
    with pytest.raises(LabError, match="path"):
        _open(Lab(tmp_path / name), None, None, airflow=False)
    assert not (tmp_path / name).exists()


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    """Every id has Kafka's 22 characters and none begins with a dash."""
    ids = [_cluster_id() for _ in range(2000)]
    assert {len(one) for one in ids} == {22}
    assert not [one for one in ids if one.startswith("-")]


@pytest.mark.parametrize(("asked", "seconds"), [("true", ("2", "1")), ("false", ("86400", "86400"))])
def test_whether_checkpoints_are_written_is_asked_for_each_lab(
    lab: Lab, asked: str, seconds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that brings up one lab after the other may want them in one only."""
    often = ("refresh.groups.interval.seconds", "emit.checkpoints.interval.seconds")
    assert [connector_config(lab, "primary", "standby", "checkpoint")[name] for name in often] == ["2", "1"]
    monkeypatch.setenv("SWITCHBACK_EMIT_CHECKPOINTS", asked)
    config = connector_config(lab, "primary", "standby", "checkpoint")
    assert tuple(config[name] for name in often) == seconds
    assert often[1] not in connector_config(lab, "primary", "standby", "source")


def test_a_dedicated_mirror_maker_is_told_what_the_connectors_are(lab: Lab) -> None:
    """Connectors' settings under the flow's prefix, clusters' logins under their own, the password in a file."""
    told = mirror_maker_properties(lab)
    for kind in KINDS:
        config = connector_config(lab, "primary", "standby", kind)
        own = {
            key: value
            for key, value in config.items()
            if not key.startswith(("source.cluster.", "target.cluster.", "connector.class", "replication.policy"))
            and "converter" not in key
        }
        assert {key: told[f"primary->standby.{key}"] for key in own} == own
        assert told["replication.policy.class"] == config["replication.policy.class"]
        assert told["primary.sasl.jaas.config"] == config["source.cluster.sasl.jaas.config"]
    assert told["primary->standby.enabled"] == "true" and "standby->primary.enabled" not in told
    assert not [secret for secret in _secrets(lab) if secret in properties_text(told)]


def test_the_product_takes_the_topology(lab: Lab) -> None:
    """In dedicated mode the forward flow has a stop hook and says what it is told; the other one has its worker."""
    write_topology(lab)
    forward, reverse = check_topology(yaml.safe_load(lab.topology.read_text()), "the lab's").flows
    assert (forward.source, forward.target, reverse.source) == ("primary", "standby", "standby")
    assert reverse.connect == "connect_primary"
    assert (forward.stop_hook is not None) == lab.load().dedicated == (forward.connect is None)
    if lab.load().dedicated:
        assert forward.mirror_maker["offset-syncs.topic.location"] == "target"
        assert forward.connectors.source == ("MirrorSourceConnector",)


def test_a_lab_keeps_its_mode(lab: Lab) -> None:
    """A worker beside the standby would copy every record a second time."""
    _open(lab, None, None, airflow=False)
    with pytest.raises(LabError, match="dedicated mode.*first stop and remove the lab with: python -m lab down"):
        _open(lab, None, None, airflow=False, dedicated=not lab.load().dedicated)


def test_a_lab_of_an_earlier_version_becomes_private(tmp_path: Path) -> None:
    """The product refuses open folders; PostgreSQL's user must search a lab's folder of profile production."""
    for profile, root_mode in (("small", 0o700), ("production", 0o755)):
        lab = Lab(tmp_path / profile)
        lab.save(_new_record("identity", "read_uncommitted", profile=profile))
        lab.journal.touch(0o644)
        for folder in (lab.root, lab.evidence):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        _make_private(lab)
        assert [mode_of(folder) for folder in (lab.evidence, lab.archive, lab.root)] == [0o700, 0o700, root_mode]
    assert mode_of(tmp_path / "small" / "journal.db") == 0o600
