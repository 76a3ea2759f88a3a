"""The command that makes a topology file and connections."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.commands import make_topology
from kafka_dr.commands.make_topology import main
from kafka_dr.config.settings import load_topology

from lab.environment.production.certificates import LabAuthority
from tests.support.json_server import JsonHandler, served

PROPERTIES = """\
clusters = primary, dr
primary.bootstrap.servers = primary-1:9092
primary.sasl.mechanism = PLAIN
primary.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="mm2" password="hunter2";
dr.bootstrap.servers = dr-1:9092
primary->dr.enabled = true
primary->dr.topics = .*
producer.linger.ms = 100
"""


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """A properties file with a password."""
    path = tmp_path / "mm2.properties"
    path.write_text(PROPERTIES)
    return path


def run(properties: Path, *more: str) -> int:
    """Runs the command with its files beside the properties file."""
    folder = properties.parent
    return main(
        [
            str(properties),
            "--out",
            str(folder / "out" / "topology.yaml"),
            "--connections",
            str(folder / "connections"),
            *more,
        ]
    )


def test_makes_a_topology_that_loads(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that is written loads, and the report names connections, what was left out and why, and no secret."""
    assert run(properties) == 0
    topology = load_topology(properties.parent / "out" / "topology.yaml")
    assert topology.flow("primary", "dr").mirror_maker == {"topics": ".*"}
    printed = "".join(capsys.readouterr())
    for expected in (
        "airflow connections import",
        "kafka_primary.json",
        "connect_primary_dr",
        "producer.linger.ms: tunes",
        "primary->dr",
    ):
        assert expected in printed
    assert "hunter2" not in printed and "hunter2" not in (properties.parent / "out" / "topology.yaml").read_text()


def test_a_program_reads_what_was_made(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files, what is left to create, and no secret."""
    assert run(properties, "--json") == 0
    printed = capsys.readouterr().out
    made = json.loads(printed)
    assert made["topology"] == str(properties.parent / "out" / "topology.yaml")
    assert all(Path(path).exists() for path in made["connections"]) and "hunter2" not in printed
    assert "producer.linger.ms" in made["keys_not_used"]


def test_connections_are_private_and_airflow_reads_them(properties: Path) -> None:
    """Connection files and their folder are the owner's alone, and Airflow reads user, password and addresses from
    them.
    """
    from airflow.secrets.local_filesystem import load_connections_dict

    old = os.umask(0)
    try:
        assert run(properties) == 0
    finally:
        os.umask(old)
    folder = properties.parent / "connections"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())] == [0o700, 0o600, 0o600]
    connection = load_connections_dict(str(folder / "kafka_primary.json"))["kafka_primary"]
    assert connection.conn_type == "kafka"
    assert connection.extra_dejson == {
        "bootstrap.servers": "primary-1:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mm2",
        "sasl.password": "hunter2",
    }


def test_does_not_overwrite_unless_told(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run refuses and changes nothing; with --force it replaces the files."""
    assert run(properties) == 0
    topology, connection = (
        properties.parent / "out" / "topology.yaml",
        properties.parent / "connections" / "kafka_dr.json",
    )
    topology.write_text("mine")
    connection.unlink()
    assert run(properties) == 2
    assert topology.read_text() == "mine" and not connection.exists() and "--force" in capsys.readouterr().err
    assert run(properties, "--force") == 0
    assert load_topology(topology).aliases == ("dr", "primary") and connection.exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (PROPERTIES.replace("enabled = true", "enabled = false"), "no direction"),
        (PROPERTIES.replace("= .*", "= (a+)+"), "too long on some names"),
        ("a=hunter2\\u00", "line 1"),
        (PROPERTIES.replace("dr", "d$r"), "an alias has letters, digits"),
        (PROPERTIES + "replication.policy.class = own.Policy", "--template"),
    ],
)
def test_nothing_is_written_when_anything_is_wrong(
    properties: Path, capsys: pytest.CaptureFixture[str], text: str, word: str
) -> None:
    """A file that makes no usable topology leaves nothing behind, and the reason is said without a secret."""
    properties.write_text(text)
    assert run(properties) == 2
    said = capsys.readouterr().err
    assert word in said and "hunter2" not in said
    assert [path.name for path in properties.parent.iterdir()] == ["mm2.properties"]


def test_missing_file_and_unwritable_folder(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, and a folder that is a file, end with a reason and no half-written file."""
    assert run(properties.parent / "missing.properties") == 2
    assert "is not a file" in capsys.readouterr().err
    (properties.parent / "connections").write_text("in the way")
    assert run(properties) == 2
    assert "stopped" in capsys.readouterr().err
    assert not [path for path in properties.parent.rglob(".*") if path.is_file()]


def test_own_policy_by_template(properties: Path) -> None:
    """With --template a policy class of one's own becomes a template naming."""
    properties.write_text(PROPERTIES + "replication.policy.class = own.Policy\n")
    assert run(properties, "--template", "replicated-<source>-<topic>", "--worker", "connect") == 0
    topology = load_topology(properties.parent / "out" / "topology.yaml")
    found = (topology.names.remote("primary", "orders"), topology.flows[0].connectors.source)
    assert found == ("replicated-primary-orders", ("primary-to-dr-source",))


def test_runs_as_a_module(properties: Path) -> None:
    """`python -m kafka_dr.commands.make_topology` is the way it is called."""
    command = [
        sys.executable,
        "-m",
        "kafka_dr.commands.make_topology",
        str(properties),
        "--out",
        str(properties.parent / "t.yaml"),
        "--connections",
        str(properties.parent / "c"),
    ]
    plugins = Path(__file__).parents[4] / "plugins"
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(plugins)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "") and (properties.parent / "t.yaml").exists()


@pytest.fixture
def by_certificate(properties: Path, tmp_path: Path) -> Path:
    """A properties file by which MirrorMaker 2 logs in to one cluster by a certificate."""
    authority = LabAuthority(tmp_path / "ca")
    authority.issue_once("mm2")
    own = f"dr.security.protocol = SSL\ndr.ssl.keystore.type = PEM\ndr.ssl.keystore.location = {tmp_path}/ca/mm2.both.pem\n"
    properties.write_text(PROPERTIES + own)
    return properties


@pytest.mark.parametrize(
    ("options", "principal", "told"),
    [
        ((), "User:CN=mm2", "if the brokers have no ssl.principal.mapping.rules"),
        (("--mapping-rules", "RULE:^CN=(.*?)$/$1/,DEFAULT"), "User:mm2", "makes it User:mm2"),
        (("--mapping-rules", "RULE:^OU=.*$/x/"), None, "no rule fits the subject CN=mm2"),
        (("--mapping-rules", "RULE:"), None, "not a list of"),
    ],
)
def test_mirror_maker_is_known_by_its_certificate(
    by_certificate: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], principal: str | None, told: str
) -> None:
    """As the brokers name it; a principal that stays unknown is said, because the fence would refuse it."""
    assert run(by_certificate, *options) == 0
    topology = load_topology(by_certificate.parent / "out" / "topology.yaml")
    assert topology.cluster("dr").principals.mirror_maker == ((principal,) if principal else ())
    assert topology.cluster("primary").principals.mirror_maker == ("User:mm2",)
    assert told in "".join(capsys.readouterr())


def test_a_certificate_that_cannot_be_read_is_said(by_certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The topology is made all the same, without the principal."""
    (by_certificate.parent / "ca" / "mm2.both.pem").unlink()
    assert run(by_certificate) == 0
    assert "the certificate of MirrorMaker 2 cannot be read" in "".join(capsys.readouterr())


def test_brokers_that_do_not_answer_tell_no_rules(
    by_certificate: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --ask-brokers; no principal is guessed."""
    monkeypatch.setattr(make_topology, "_ASK_SECONDS", 0.5)
    by_certificate.write_text(by_certificate.read_text().replace("dr-1:9092", "127.0.0.1:9"))
    assert run(by_certificate, "--ask-brokers") == 0
    assert "the brokers did not tell their ssl.principal.mapping.rules" in "".join(capsys.readouterr())
    assert load_topology(by_certificate.parent / "out" / "topology.yaml").cluster("dr").principals.mirror_maker == ()


CONNECTOR = {
    "source.cluster.alias": "east",
    "target.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "east-1:9092",
    "target.cluster.bootstrap.servers": "west-1:9092",
    "source.cluster.sasl.jaas.config": 'a.PlainLoginModule required username="mm2" password="hunter2";',
}


def test_reads_the_connectors_of_a_connect_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the Airflow connection that the topology then names; secrets stand in the connections' files alone."""
    configs = {
        name: CONNECTOR | {"connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector"}
        for name, kind in (("orders", "Source"), ("points", "Checkpoint"))
    }
    answers: dict[str, Any] = {"/connectors": sorted(configs)}
    answers |= {f"/connectors/{name}/config": config for name, config in configs.items()}

    class ConnectAnswers(JsonHandler):
        """Answers as a Connect worker."""

        def do_GET(self) -> None:  # noqa: N802 (the base class's name)
            """Answer with what the path asks for."""
            known = self.path in answers
            self.answer(200 if known else 404, answers[self.path] if known else {"error_code": 404, "message": "none"})

    with served(ConnectAnswers) as url:
        monkeypatch.setenv("AIRFLOW_CONN_CONNECT_WEST", json.dumps({"conn_type": "http", "host": url}))
        out = ["--out", str(tmp_path / "topology.yaml"), "--connections", str(tmp_path / "connections")]
        assert main(["--connect-worker", "connect_west", *out]) == 0
    flow = load_topology(tmp_path / "topology.yaml").flow("east", "west")
    assert (flow.connect, flow.connectors.names) == ("connect_west", ("orders", "points"))
    assert "hunter2" not in "".join(capsys.readouterr()) + (tmp_path / "topology.yaml").read_text()
    assert "hunter2" in (tmp_path / "connections" / "kafka_east.json").read_text()


def test_a_file_and_a_worker_are_two_configurations(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And neither is none."""
    assert run(properties, "--connect-worker", "connect_west") == 2
    assert "names no configuration, or two" in capsys.readouterr().err
