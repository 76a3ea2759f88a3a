"""Examine an installation from this machine: all checks, in the order in which a person meets the problems."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Collection, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kafka_dr import __version__
from kafka_dr.actions.doctor.airflow_parts import airflow_units
from kafka_dr.actions.doctor.clusters import cluster_units
from kafka_dr.actions.doctor.connections import connection_units, reach_units
from kafka_dr.actions.doctor.site import Site
from kafka_dr.actions.doctor.spark_start import spark_units
from kafka_dr.actions.doctor.stored import stored_units
from kafka_dr.actions.doctor.units import Unit, from_error, run_units
from kafka_dr.actions.doctor.workers import worker_units
from kafka_dr.actions.readiness.fingerprint import code_digest
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.doctor.clocks import clock_findings
from kafka_dr.domain.doctor.finding import ExaminedPlace, InstallationFinding
from kafka_dr.domain.doctor.versions import version_findings
from kafka_dr.errors import BadInput

#: Check -> its units. The page runbooks/doctor.md has a heading for each check.
PARTS: tuple[Callable[[Site], Iterator[Unit]], ...] = (
    connection_units,
    reach_units,
    cluster_units,
    worker_units,
    airflow_units,
    stored_units,
    spark_units,
)
#: All checks, in the order of the page.
CHECKS = (
    "topology",
    "connections",
    "reach",
    "certificates",
    "cluster_identity",
    "kafka_rights",
    "optional_rights",
    "connect",
    "dns",
    "airflow",
    "airflow_rights",
    "dags",
    "queues",
    "journal",
    "files",
    "spark",
    "clocks",
    "versions",
)


def examine_place(
    place: str,
    connections: Any,
    executor: str,
    stands_seconds: float,
    say: Callable[[str], object],
    skip: Collection[str] = (),
) -> ExaminedPlace:
    """Run all checks on this machine and return what was seen; nothing is changed.

    Args:
        place: `here`, or the queue of the task that examines.
        connections: reads Airflow's connections.
        executor: Airflow's setting, which may name several.
        stands_seconds: how long a finding that may pass has to stand before it counts.
        say: takes a line of progress.
        skip: names of checks that are not made.
    """
    host = socket.gethostname()
    try:
        topology = load_topology()
    except BadInput as error:
        found = (from_error("topology", "file", error),)
        return ExaminedPlace(place, host, found, _facts(None), ("topology file",), {"all others": "no topology"})
    site = Site(topology, connections, executor)
    connections.read_ahead(one.name for one in site.named)
    units = [unit for part in (*PARTS, _machine_units) for unit in part(site) if unit.check not in skip]
    ended = run_units(units, stands_seconds, say)
    findings = tuple(
        finding
        for check in CHECKS
        for found in ended.findings.values()
        for finding in found
        if finding.check == check and check not in skip
    )
    return ExaminedPlace(place, host, findings, _facts(topology), tuple(ended.findings), ended.skipped)


def _machine_units(site: Site) -> Iterator[Unit]:
    reached = tuple(f"reach {one.name}" for one in site.named)
    yield Unit("versions", "this machine", _own_versions)
    yield Unit(
        "clocks", "", lambda: clock_findings(site.clocks, site.host), after=(*reached, "journal", "spark executors")
    )


def _own_versions() -> Iterator[InstallationFinding]:
    yield from version_findings("Python", "this machine", platform.python_version())
    yield from version_findings("Airflow", "this machine", _airflow_version())


def _airflow_version() -> str:
    for package in ("apache-airflow-core", "apache-airflow"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""


def _facts(topology: Topology | None) -> dict[str, str]:
    """Return what must be the same on all machines."""
    facts = {"Switchback": f"{__version__} ({code_digest()})", "Airflow": _airflow_version()}
    facts["Python"] = platform.python_version().rpartition(".")[0]
    return facts | ({"the topology": digest_of(topology.model_dump(mode="json"))[:16]} if topology else {})
