"""Whether Spark starts, and its executors have what the jobs need."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from fsspec.registry import known_implementations
from fsspec.utils import get_protocol

from kafka_dr.actions.doctor.site import Site
from kafka_dr.actions.doctor.units import Unit
from kafka_dr.actions.spark_jobs import submit_job
from kafka_dr.domain.doctor.clocks import ClockReading
from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.doctor.versions import version_findings
from kafka_dr.errors import SparkFailed
from kafka_dr.hooks.doctor.machine import java_program, java_version
from kafka_dr.hooks.private_files import private_folder
from kafka_dr.hooks.redaction import one_line

if TYPE_CHECKING:
    from kafka_dr.procedure.run import Run

_JOB = "examine_executors"


def spark_units(site: Site) -> Iterator[Unit]:
    """Yield the units about Java and Spark."""
    name = site.topology.spark.connection
    # Jobs are given the logins of both clusters, which therefore must be readable.
    logins = tuple(f"connections {one.name}" for one in site.of_kind("kafka", "cluster"))
    yield Unit("spark", "java", _java)
    yield Unit("spark", "executors", partial(_executors, site), ("spark java", f"connections {name}", *logins))


def _java() -> Iterator[InstallationFinding]:
    program = java_program()
    version, line = java_version(program) if program else ("", "neither JAVA_HOME/bin nor PATH has a program java")
    if not version:
        yield InstallationFinding(
            "spark",
            "java",
            "Java is missing on this machine, or does not start",
            line,
            "Install Java 17 or newer on every machine where tasks run, and set JAVA_HOME in the environment of"
            " Airflow's workers if it is not on their PATH: spark-submit needs it.",
        )
        return
    yield from version_findings("Java", "this machine", version)


def _executors(site: Site) -> Iterator[InstallationFinding]:
    """Run a job that looks at its executors; keep their clocks."""
    flow = site.topology.flows[0]
    with tempfile.TemporaryDirectory(prefix="switchback-doctor-") as folder:
        # Of a run, a submission uses these attributes alone; a run needs a journal.
        run = SimpleNamespace(
            id="doctor",
            topology=site.topology,
            systems=site.systems,
            request=site.request(flow.source, flow.target),
            progress=SimpleNamespace(fence_deadline=lambda: None, now=lambda: 0.0),
        )
        output = Path(folder) / "output"
        given = private_folder(Path(folder) / "input")
        (given / "packages.json").write_text(json.dumps(_packages_of_store(site)), encoding="utf-8")
        try:
            submit_job(cast("Run", run), {}, _JOB, given, output, "Spark does not start")
            document = json.loads((output / "executors.json").read_text(encoding="utf-8"))
        except SparkFailed as error:
            document = {"error": error.seen}
        except (OSError, ValueError) as error:
            document = {"error": f"the job wrote no result ({type(error).__name__})"}
    if failure := document.get("error"):
        yield InstallationFinding(
            "spark",
            "start",
            "A job on Spark does not start, or does not end well",
            one_line(f"{site.topology.spark.connection}: {failure}"),
            "Read what spark-submit wrote, in the log of the task or by `switchback doctor --here --verbose`. Make sure"
            " that the master answers, has a free executor, and has the settings of runbooks/where_spark_runs.md.",
        )
        return
    yield from version_findings("Spark", "the master", str(document["spark"]))
    yield from version_findings("Java", "Spark's driver", str(document["java"]))
    for executor in document["executors"]:
        site.clocks[f"the Spark executor {executor['host']}"] = ClockReading(executor["ahead"], executor["doubt"])
        yield from executor_findings(executor, str(document["python"]))


def _packages_of_store(site: Site) -> list[str]:
    """Return the packages by which executors write exports to the store; [] without a store."""
    if site.topology.store is None:
        return []
    known = known_implementations.get(get_protocol(site.topology.store.uri), {"class": "fsspec"})
    return sorted({"fsspec", known["class"].partition(".")[0]})


def executor_findings(executor: Mapping[str, Any], python: str) -> Iterator[InstallationFinding]:
    """Yield a finding for each package that an executor lacks, and one for another Python.

    Args:
        executor: as the job wrote it: host, python, missing.
        python: version of the driver's.
    """
    host = executor["host"]
    for package, error in sorted(executor["missing"].items()):
        yield InstallationFinding(
            "spark",
            f"executor {host} {package}",
            f"A Spark executor cannot import the Python package {package}",
            f"executor {host}: {error}",
            f"Install the lock of Switchback in the Python of the executors (PYSPARK_PYTHON) on {host}, or ship an"
            " environment with the job (runbooks/where_spark_runs.md).",
        )
    if executor["python"].rsplit(".", 1)[0] != python.rsplit(".", 1)[0]:
        yield InstallationFinding(
            "spark",
            f"executor {host} Python",
            "A Spark executor has another Python than the driver",
            f"executor {host}: {executor['python']}, driver: {python}",
            "Set PYSPARK_PYTHON to a Python of the same minor version on every machine.",
        )
