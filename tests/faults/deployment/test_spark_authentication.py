"""A real Spark cluster with a secret: the product's jobs run on it, and nobody without the secret takes part."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from kafka_dr.actions.spark_jobs import submit_job
from kafka_dr.config.spark_settings import SparkSettings
from kafka_dr.errors import SparkFailed

from lab.environment.bring_up import make_record
from lab.environment.ports import free_ports
from lab.environment.progress import ProgressLines
from lab.environment.spark_cluster import master_url, start_spark
from lab.environment.state import Lab
from lab.install.jars import PROJECT
from lab.install.spark_warm_up import spark_environment
from tests.faults.support.planted_secrets import CommandLines
from tests.support.spark_jobs import run_of

LOGIN = "l0g1n-of-a-kafka-cluster"
SECONDS = 120.0
#: Connects to Spark by the product's function, runs tasks on all executors, and tells how many executors there are.
PROBE = """
import argparse, json, pathlib, sys, time
sys.path.insert(0, {spark!r})
from kafka_dr_spark.contract.logins import take_logins
from kafka_dr_spark.session import start_spark

parser = argparse.ArgumentParser()
for option in ("--input", "--output", "--logins", "--wait-for-input"):
    parser.add_argument(option)
wanted = parser.parse_args()
given, output = pathlib.Path(wanted.input), pathlib.Path(wanted.output)
logins = take_logins(pathlib.Path(wanted.logins))
context = start_spark("probe", logins.spark)
login = logins.source["sasl.password"]
# A block of this size travels as a broadcast, which Spark may write to disk.
block = login * 100_000
answers = context.parallelize(range(4), 4).map(lambda n: [n, len(block)]).collect()
(output / "answers").write_text(json.dumps(answers))
while not (given / "end").exists():
    time.sleep(0.1)
executors = len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
(output / "executors").write_text(str(executors))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Master and one worker of a lab's Spark cluster, and nothing else of a lab."""
    lab = Lab(tmp_path / "lab")
    ports = free_ports(["spark_master", "spark_page", "driver"])
    lab.save(make_record("identity", "read_uncommitted", ports, spark_workers=1))
    try:
        start_spark(lab, ProgressLines())
        yield lab
    finally:
        lab.processes.stop(2.0)


@pytest.fixture
def submitted(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Submits the probe as the product submits its jobs, and returns the folder of its output."""
    (home := tmp_path / "home" / "jobs").mkdir(parents=True)
    (home / "probe.py").write_text(PROBE.format(spark=str(PROJECT / "spark")))
    (conf := tmp_path / "conf").mkdir()
    (tmp_path / "events").mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.driver.port {lab.load().ports['driver']}\nspark.port.maxRetries 1\nspark.eventLog.enabled true\n"
        f"spark.eventLog.compress false\nspark.eventLog.dir file://{tmp_path / 'events'}\n"
    )
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "x:1", "sasl.password": LOGIN}}
    variables = {"KAFKA_DR_SPARK_HOME": str(home.parent), "SPARK_CONF_DIR": str(conf), **spark_environment()}
    variables |= dict.fromkeys(("AIRFLOW_CONN_KAFKA_A", "AIRFLOW_CONN_KAFKA_B"), json.dumps(kafka))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def submit(name: str, secret: str) -> Path:
        connection = {"conn_type": "spark", "host": master_url(lab), "password": secret}
        os.environ[f"AIRFLOW_CONN_SPARK_{name.upper()}"] = json.dumps(connection)
        given, output = tmp_path / f"{name}.input", tmp_path / name
        given.mkdir()
        output.mkdir()
        submit_job(
            run_of(SparkSettings(connection=f"spark_{name}"), SECONDS),
            {},
            "probe",
            given,
            output,
            "The probe did not end",
        )
        return output

    return submit


def awaited(ready: Callable[[], bool], job: Future[Path]) -> None:
    """Wait until it is so; fail at once if the job has ended."""
    ends_at = time.monotonic() + SECONDS
    while not ready():
        assert not job.done(), job.exception()
        assert time.monotonic() < ends_at
        time.sleep(0.1)


def executor(lab: Lab, number: int, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Start an executor by hand, which asks the driver to be one of its executors, for twenty seconds."""
    driver = f"spark://CoarseGrainedScheduler@127.0.0.1:{lab.load().ports['driver']}"
    arguments = {
        "--driver-url": driver, "--executor-id": str(number), "--bind-address": "127.0.0.1", "--hostname": "127.0.0.1",
        "--cores": "1", "--app-id": "app", "--resourceProfileId": "0",
    }  # fmt: skip
    words = [word for pair in arguments.items() for word in pair]
    line = ["timeout", "20", "spark-class", "org.apache.spark.executor.CoarseGrainedExecutorBackend", *words]
    return subprocess.run(line, env=os.environ | environment, capture_output=True, text=True, check=False)


def worker(lab: Lab, folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a worker without the secret, which asks the master to be one of its workers, for forty seconds."""
    folder.mkdir()
    line = ["timeout", "40", "spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
    line += ["--webui-port", "0", "--cores", "1", "--memory", "512m", "--work-dir", str(folder), master_url(lab)]
    environment = os.environ | {"SPARK_CONF_DIR": str(folder)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


def cluster(lab: Lab) -> dict[str, Any]:
    """What the master tells about its workers and applications."""
    found: dict[str, Any] = requests.get(f"http://127.0.0.1:{lab.load().ports['spark_page']}/json/", timeout=5).json()
    return found


def test_only_who_has_the_secret_takes_part(lab: Lab, submitted: Callable[[str, str], Path], tmp_path: Path) -> None:
    """The job with the secret runs; a job with another one, an executor and a worker without it do not get in."""
    secret = lab.load().passwords["spark"]
    with CommandLines().watching() as lines, ThreadPoolExecutor(3) as pool:
        job = pool.submit(submitted, "right", secret)
        awaited((tmp_path / "right" / "answers").exists, job)
        stranger = pool.submit(submitted, "wrong", "another-secret-of-this-length")
        unknown = pool.submit(worker, lab, tmp_path / "worker")
        refused = executor(lab, 98, {})
        pages = pages_of(lab)
        (tmp_path / "right.input" / "end").touch()
        assert job.result(SECONDS) == tmp_path / "right"
        with pytest.raises(SparkFailed):
            stranger.result(SECONDS)
        assert "Failed to connect to master" in unknown.result(SECONDS).stderr
    assert json.loads((tmp_path / "right" / "answers").read_text()) == [[n, 100_000 * len(LOGIN)] for n in range(4)]
    assert refused.returncode == 1 and (tmp_path / "right" / "executors").read_text() == "1"
    told = cluster(lab)
    assert [app["name"] for app in told["completedapps"]] == ["probe"] and not told["activeapps"]
    assert told["aliveworkers"] == 1
    told_lines = b"\n".join(lines.seen)
    for setting in (b"authenticate", b"network.crypto.enabled", b"io.encryption.enabled"):
        assert b"spark." + setting + b"=true" in told_lines
    assert b"spark.network.crypto.saslFallback=false" in told_lines
    events = b"".join(path.read_bytes() for path in (tmp_path / "events").rglob("*") if path.is_file())
    outputs = b"".join(path.read_bytes() for path in (lab.home / "spark").glob("*/app-*/*/std*"))
    outputs += b"".join(path.read_bytes() for path in lab.logs.iterdir())
    assert events and outputs and pages
    for place in (told_lines, events, outputs, pages):
        assert secret.encode() not in place and LOGIN.encode() not in place


def pages_of(lab: Lab) -> bytes:
    """The pages of master and worker: overview and environment, which names the secret's setting."""
    workers = [one["webuiaddress"] for one in cluster(lab)["workers"]]
    addresses = [f"http://127.0.0.1:{lab.load().ports['spark_page']}", *workers]
    found = [requests.get(f"{address}{page}", timeout=5) for address in addresses for page in ("/", "/environment/")]
    assert all(page.ok for page in found) and "spark.authenticate.secret" in found[1].text
    return b"".join(page.content for page in found)


def test_an_executor_with_the_secret_is_let_in(lab: Lab, submitted: Callable[[str, str], Path], tmp_path: Path) -> None:
    """The same executor by hand, with the secret: that another is not let in is not for another reason."""
    secret = lab.load().passwords["spark"]
    options = " ".join(
        f"-D{name}"
        for name in (
            "spark.authenticate=true",
            "spark.network.crypto.enabled=true",
            "spark.network.crypto.saslFallback=false",
        )
    )
    with ThreadPoolExecutor(2) as pool:
        job = pool.submit(submitted, "right", secret)
        awaited((tmp_path / "right" / "answers").exists, job)
        pool.submit(executor, lab, 99, {"_SPARK_AUTH_SECRET": secret, "SPARK_EXECUTOR_OPTS": options})
        time.sleep(10)
        (tmp_path / "right.input" / "end").touch()
        job.result(SECONDS)
    assert (tmp_path / "right" / "executors").read_text() == "2"
