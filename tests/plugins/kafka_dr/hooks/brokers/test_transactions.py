"""Running Kafka's tool: its command and what its answers become, with a test program in place of Java."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from kafka_dr.config.importing.java_properties import read_properties
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers import java_tool as kafka_tool
from kafka_dr.hooks.brokers.transactions import TransactionTool

CONFIG = {
    "bootstrap.servers": "b1:9092,b2:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "dr",
    "sasl.password": "hunter2",
}
PROGRAM = """#!{python}
import json, os, sys, time
file = sys.argv[sys.argv.index("--command-config") + 1]
seen = dict(argv=sys.argv[1:], env=dict(os.environ), mode=os.stat(file).st_mode, names=os.stat(file).st_nlink, text=open(file).read())
with open({log!r}, "a") as log:
    log.write(json.dumps(seen) + "\\n")
{does}
"""


class Java:
    """A stand-in for Java, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.home, self.log = folder / "java", folder / "log"
        (self.home / "bin").mkdir(parents=True)

    def does(self, code: str) -> None:
        """What it does when it is run."""
        import sys

        program = self.home / "bin" / "java"
        program.write_text(PROGRAM.format(python=sys.executable, log=str(self.log), does=code))
        program.chmod(0o755)

    def runs(self) -> list[dict]:
        """What it was told, run by run."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Java stands in under JAVA_HOME; a folder of jars is there; the environment holds a secret."""
    made = Java(tmp_path)
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-tools-4.3.1.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(made.home))
    monkeypatch.setenv("AIRFLOW_CONN_SOMETHING", "hunter2")
    return made


def tool(java: Java) -> TransactionTool:
    """The tool on the stand-in."""
    return TransactionTool(str(java.home.parent / "libs"), CONFIG, "c1")


def test_secrets_travel_in_a_private_file_without_a_name(java: Java) -> None:
    """No secret on the command line or in the environment: a private file without a name holds the login."""
    java.does("print('TransactionalId\\tProducerId\\tTransactionState\\t')")
    assert tool(java).known() == []
    (run,) = java.runs()
    assert "hunter2" not in json.dumps([run["argv"], run["env"]])
    assert stat.S_IMODE(run["mode"]) == 0o600 and run["names"] == 0
    told = {p.key: p.value for p in read_properties(run["text"])}
    assert 'password="hunter2"' in told["sasl.jaas.config"]
    assert int(told["default.api.timeout.ms"]) < kafka_tool._SECONDS * 1000
    assert run["argv"][run["argv"].index("--bootstrap-server") + 1] == "b1:9092,b2:9092" and run["argv"][-1] == "list"


def test_names_that_look_like_options_stay_values(java: Java) -> None:
    """Topics and ids may begin with a dash or hold blanks."""
    java.does("print()")
    tool(java).end("--help me")
    tool(java).abort(TopicPartition("-t", 3), 17)
    assert [
        run["argv"][-len(wanted) :] == wanted
        for run, wanted in zip(
            java.runs(),
            (
                ["forceTerminateTransaction", "--transactionalId=--help me"],
                ["abort", "--topic=-t", "--partition=3", "--start-offset=17"],
            ),
            strict=True,
        )
    ] == [True, True]


def test_the_check_ends_a_transaction_of_our_own_only(java: Java) -> None:
    """Java, jars, version and rights are shown on an id that no application has."""
    java.does("print('TransactionalId\\tProducerId\\tTransactionState\\t')")
    tool(java).check()
    assert [run["argv"][-1] for run in java.runs()] == ["list", "--transactionalId=__switchback_check"]


def test_a_failure_says_the_tools_last_words(java: Java) -> None:
    """An exit code other than 0 is an error with what the tool said."""
    java.does("sys.stderr.write('one\\nnot authorized\\n'); sys.exit(1)")
    with pytest.raises(KafkaUnavailable, match="`list` on c1 failed|`list` on c1") as error:
        tool(java).known()
    assert "not authorized" in str(error.value) and "hunter2" not in str(error.value)


def test_a_tool_that_hangs_is_ended(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for without an end."""
    monkeypatch.setattr(kafka_tool, "_SECONDS", 1.0)
    java.does("time.sleep(60)")
    with pytest.raises(KafkaUnavailable, match="the tool did not end within 1 s"):
        tool(java).known()


def test_missing_jars_and_a_missing_java_are_named(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are said before anything runs, with what to correct."""
    with pytest.raises(BadInput, match=r"set `kafka_tools` in the topology to the folder `libs`"):
        TransactionTool("/nowhere", CONFIG, "c1").known()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(BadInput, match="JAVA_HOME"):
        tool(java).known()


def test_pem_files_are_read_and_a_missing_one_is_named(java: Java, tmp_path: Path) -> None:
    """Certificates travel by content, as Java wants them; a file that is not there is named by its key."""
    java.does("print('TransactionalId\\tProducerId\\tTransactionState\\t')")
    (tmp_path / "ca.pem").write_text("CA")
    libs, config = (
        str(tmp_path / "libs"),
        {"bootstrap.servers": "b:1", "security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")},
    )
    TransactionTool(libs, config, "c1").known()
    assert "ssl.truststore.certificates=CA\n" in java.runs()[0]["text"]
    with pytest.raises(BadInput, match=r"ssl\.ca\.location"):
        TransactionTool(libs, config | {"ssl.ca.location": "/nowhere"}, "c1").known()
