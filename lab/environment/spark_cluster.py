"""Start the lab's optional standalone Spark cluster, on whose `spark://` master Spark jobs then run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import requests

from lab.environment.jvm import properties_text, temporary_folder
from lab.environment.progress import ProgressLines, wait_until
from lab.environment.state import Lab, write_private
from lab.install.java_flags import FLAGS

READY_SECONDS = 300.0
#: Name of the secret of the Spark cluster among the lab's passwords.
SPARK = "spark"


def master_url(lab: Lab) -> str:
    """Return the master URL for Spark jobs: the Spark cluster's if the lab has Spark workers, else `local[2]`."""
    record = lab.load()
    return f"spark://{record.address('spark_master')}" if record.spark_workers else "local[2]"


def write_spark_settings(lab: Lab) -> None:
    """Write the settings of Spark's master and workers, with the secret that they share with the jobs."""
    settings: dict[str, object] = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": lab.load().passwords[SPARK],
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
    }
    write_private(_settings_folder(lab) / "spark-defaults.conf", properties_text(settings))


def _settings_folder(lab: Lab) -> Path:
    return lab.home / "spark" / "conf"


def start_spark(lab: Lab, progress: ProgressLines) -> None:
    """Start those of Spark's master and workers that do not run; wait until the master has registered all workers."""
    write_spark_settings(lab)
    record = lab.load()
    page = record.ports["spark_page"]
    arguments = ["--host", "127.0.0.1", "--port", str(record.ports["spark_master"]), "--webui-port", str(page)]
    _start(lab, "spark-master", "org.apache.spark.deploy.master.Master", *arguments)
    workers = [f"spark-worker-{number}" for number in range(record.spark_workers)]
    for name in workers:
        folder = lab.home / "spark" / name
        arguments = [
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            str(folder),
        ]
        _start(lab, name, "org.apache.spark.deploy.worker.Worker", *arguments, master_url(lab))
    wait_until(
        lambda: requests.get(f"http://127.0.0.1:{page}/json/", timeout=10).json()["aliveworkers"] == len(workers),
        "Spark's workers to register",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live("spark-master", *workers),
    )
    progress.say(f"Spark: {len(workers)} workers at {master_url(lab)}")


def _start(lab: Lab, name: str, main: str, *arguments: str) -> None:
    if lab.processes.pid(name) is None:
        environment = {
            "SPARK_CONF_DIR": str(_settings_folder(lab)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(FLAGS),
        }
        environment |= {"SPARK_LOCAL_DIRS": str(temporary_folder(lab)), "PYSPARK_PYTHON": sys.executable}
        lab.processes.start(
            name,
            [str(Path(sys.executable).parent / "spark-class"), main, *arguments],
            os.environ | environment,
            lab.home,
        )
