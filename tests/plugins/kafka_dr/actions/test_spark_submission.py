"""What spark-submit gets for each master, by the real operator and hook of Airflow's provider."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from kafka_dr.actions.spark_jobs import submit_job
from kafka_dr.config.spark_settings import SparkSettings
from kafka_dr.config.storage import RecordExports
from kafka_dr.errors import BadInput, SparkFailed

from tests.support.spark_jobs import StandIn, run_of

LOGIN, SECRET, KEYTAB = "l0g1n-of-a-kafka-cluster", "s3cret-of-a-spark-cluster", "k3ytab-of-a-principal"
SECURE_HADOOP = """<configuration>
  <property><name>hadoop.security.authentication</name><value>kerberos</value></property>
  <property><name>hadoop.rpc.protection</name><value>privacy</value></property>
</configuration>"""
YARN = {
    "host": "yarn",
    "password": SECRET,
    "extra": {"queue": "dr", "principal": "dr@SITE", "keytab": base64.b64encode(KEYTAB.encode()).decode()},
}
MASTERS: dict[str, dict[str, Any]] = {
    "local[2]": {"host": "local[2]"},
    "spark://m:7077": {"host": "spark://m:7077", "password": SECRET, "extra": {"deploy-mode": "client"}},
    "yarn": YARN,
    "k8s://https://api:6443": {"host": "k8s://https://api:6443", "password": SECRET, "extra": {"namespace": "dr"}},
}
PROTECTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in, Hadoop's configuration, logins, and Kubernetes' client, which this environment lacks."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "x:1", "sasl.password": LOGIN}}
    (hadoop := tmp_path / "hadoop").mkdir()
    (hadoop / "core-site.xml").write_text(SECURE_HADOOP)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    for name in ("AIRFLOW_CONN_KAFKA_A", "AIRFLOW_CONN_KAFKA_B"):
        monkeypatch.setenv(name, json.dumps(kafka))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop))
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    return StandIn(tmp_path / "bin", monkeypatch)


def submitted(monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], seconds: float = 60.0, **conf: str) -> None:
    """Submit a job as a step does."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", **connection}))
    settings = SparkSettings(connection="spark_x", conf={name.replace("__", "."): one for name, one in conf.items()})
    submit_job(run_of(settings, seconds), {}, "translate_offsets", Path("in"), Path("out"), "Spark did not translate")


@pytest.mark.parametrize("job", ["find_stranded_records", "assess_data_loss", "translate_offsets"])
def test_only_jobs_that_export_get_the_login_of_the_store(
    job: str, submit: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the private file alone."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    options = {"key": "dr", "secret": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_STORE_X", json.dumps({"conn_type": "generic", "extra": options}))
    run = run_of(SparkSettings(connection="spark_x"), 60.0)
    run.topology.store, run.topology.exports = SimpleNamespace(connection="store_x"), RecordExports()
    submit_job(run, {}, job, Path("in"), Path("out"), "Spark failed")
    logins = json.loads(submit.contents["logins.json"])
    assert logins.get("store") == (None if job == "translate_offsets" else options)
    assert "hunter2" not in str(submit.words)


@pytest.mark.parametrize("master", MASTERS)
def test_no_secret_is_on_the_command_line_in_the_environment_or_in_a_log(
    master: str, submit: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any, tmp_path: Path
) -> None:
    """They are in private files, which are gone when spark-submit has ended."""
    before = dict(os.environ)
    with caplog.at_level(logging.DEBUG):
        submitted(monkeypatch, MASTERS[master])
    assert submit.option("--master") == master and submit.option("--deploy-mode") == "client"
    said = "".join(capfd.readouterr()) + caplog.text
    assert "INFO submitted" in said
    added = {name for name, value in submit.environment.items() if before.get(name) != value}
    assert added <= {"AIRFLOW_CONN_SPARK_X", "LC_CTYPE", "LINES", "COLUMNS"}
    for secret in (LOGIN, SECRET, KEYTAB, base64.b64encode(KEYTAB.encode()).decode()):
        assert secret not in " ".join(submit.words) and secret not in said
    logins = json.loads(submit.contents["logins.json"])
    assert logins["source"] == logins["target"] == {"bootstrap.servers": "x:1", "sasl.password": LOGIN}
    assert {oct(mode) for path, mode in submit.modes.items() if path.name.startswith("switchback")} == {"0o700"}
    assert {oct(mode) for path, mode in submit.modes.items() if not path.name.startswith("switchback")} == {"0o600"}
    assert not [path for path in submit.modes if path.exists()] and not list((tmp_path / "temporary").iterdir())


def test_each_master_gets_the_secret_where_spark_reads_it(submit: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master's in the job's file, Kubernetes' in a file of its own; on YARN Spark makes one itself."""
    got = {}
    for master, connection in MASTERS.items():
        submitted(monkeypatch, connection)
        logins = json.loads(submit.contents["logins.json"])
        got[master] = (sorted(submit.contents), logins.get("spark"), submit.settings)
    local, standalone, yarn, kubernetes = (got[master] for master in MASTERS)
    assert local == (["logins.json"], None, {"spark.ui.enabled": "false"})
    assert standalone[:2] == (["logins.json"], {"spark.authenticate.secret": SECRET})
    assert yarn[:2] == (["keytab", "logins.json"], None)
    assert kubernetes[:2] == (["logins.json", "spark_secret"], None)
    assert submit.contents["spark_secret"] == SECRET
    assert standalone[2] == yarn[2] == PROTECTED | {"spark.ui.enabled": "false"}
    assert {name: kubernetes[2][name] for name in PROTECTED} == PROTECTED
    assert Path(kubernetes[2]["spark.authenticate.secret.driver.file"]).name == "spark_secret"
    assert kubernetes[2]["spark.authenticate.secret.executor.file"] == "/etc/switchback-spark/secret"
    assert kubernetes[2]["spark.kubernetes.executor.secrets.switchback-spark"] == "/etc/switchback-spark"
    assert kubernetes[2]["spark.kubernetes.namespace"] == "dr"


def test_kerberos_keytab_is_private_and_named(submit: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider would have left it in the temporary folder, for others to read."""
    submitted(monkeypatch, YARN)
    keytab = Path(submit.option("--keytab") or "")
    assert submit.contents["keytab"] == KEYTAB and keytab.name == "keytab" and submit.modes[keytab] == 0o600
    assert submit.option("--principal") == "dr@SITE" and submit.option("--queue") == "dr"


def test_settings_of_the_topology_are_passed_on(submit: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's Python is this one, where only the executors' is named: theirs may be in an archive."""
    submitted(monkeypatch, YARN, spark__pyspark__python="./env/bin/python", spark__executor__memory="2g")
    assert submit.settings["spark.executor.memory"] == "2g"
    assert submit.settings["spark.pyspark.python"] == "./env/bin/python"
    assert submit.settings["spark.pyspark.driver.python"] == sys.executable
    submitted(monkeypatch, YARN, spark__pyspark__python="a", spark__pyspark__driver__python="b")
    assert submit.settings["spark.pyspark.driver.python"] == "b"


@pytest.mark.parametrize(
    ("behaviour", "seen"), [("3", "ended with 3"), ("killed", "ended with -9"), ("hangs", "killed")]
)
@pytest.mark.parametrize("master", MASTERS)
def test_the_files_are_gone_however_spark_submit_ends(
    behaviour: str, seen: str, master: str, submit: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It fails, somebody kills it, or it has not ended by its deadline."""
    submit.behaves(behaviour)
    with pytest.raises(SparkFailed) as failed:
        submitted(monkeypatch, MASTERS[master], seconds=5.0 if behaviour == "hangs" else 60.0)
    assert seen in str(failed.value) and LOGIN not in str(failed.value) and SECRET not in str(failed.value)
    assert submit.was_called and not list((tmp_path / "temporary").iterdir())


def test_a_machine_without_spark_submit_says_what_to_do(
    submit: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where a service starts Airflow by its full path; no file stays."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkFailed) as failed:
        submitted(monkeypatch, MASTERS["local[2]"])
    assert "spark-submit" in failed.value.seen and "PATH" in failed.value.next_step
    assert not list((tmp_path / "temporary").iterdir())


def test_what_a_killed_task_leaves_is_deleted_by_the_next(
    submit: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody else can: after a SIGKILL no code of the task runs."""
    submit.behaves("hangs")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    program = (
        "from pathlib import Path\nfrom kafka_dr.actions.spark_jobs import submit_job\n"
        "from kafka_dr.config.spark_settings import SparkSettings\nfrom tests.support.spark_jobs import run_of\n"
        "run = run_of(SparkSettings(connection='spark_x'), 600.0)\n"
        "submit_job(run, {}, 'translate_offsets', Path('in'), Path('out'), 'x')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True, cwd=Path.cwd()) as task:
        ends_at = time.monotonic() + 240
        while not submit.was_called:
            assert task.poll() is None and time.monotonic() < ends_at
            time.sleep(0.1)
        (left,) = (tmp_path / "temporary").glob("switchback-logins-*")
        os.utime(left, (0, 0))
        submit.behaves("0")
        submitted(monkeypatch, MASTERS["local[2]"])
        assert left.exists(), "its owner lives"
        os.killpg(task.pid, signal.SIGKILL)
        task.wait()
    submitted(monkeypatch, MASTERS["local[2]"])
    assert not list((tmp_path / "temporary").iterdir())


def test_kubernetes_needs_its_provider(submit: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark provider would fail with a NameError."""
    monkeypatch.delattr(spark_submit, "kube_client")
    with pytest.raises(BadInput, match="spark_x needs a package that is missing"):
        submitted(monkeypatch, MASTERS["k8s://https://api:6443"])
    assert not submit.was_called
