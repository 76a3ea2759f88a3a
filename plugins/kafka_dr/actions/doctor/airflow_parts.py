"""Whether Airflow's parts work, and have Switchback's DAGs, pools and rights."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from kafka_dr.actions.doctor.connections import address_findings, look_at_all
from kafka_dr.actions.doctor.site import Site
from kafka_dr.actions.doctor.units import Unit
from kafka_dr.domain.doctor.airflow_state import (
    DagTask,
    component_findings,
    import_findings,
    pool_findings,
    unready_findings,
)
from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.doctor.versions import version_findings
from kafka_dr.domain.overview.setting_up import READINESS_DAG, unready_dags
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.doctor.addresses import http_context
from kafka_dr.hooks.doctor.airflow_examination import AirflowExamination
from kafka_dr.installation import dags_folder
from kafka_dr.procedures import PLANNED_FAILOVER, PROCEDURES
from kafka_dr.vocabulary import Step

#: The DAG whose tasks examine the machines of each queue.
EXAMINING_DAG = "doctor"
_RECORDER_DAG = "record_positions"


def airflow_units(site: Site) -> Iterator[Unit]:
    """Yield the units about Airflow's API and what it states."""
    name = site.topology.airflow_api.connection
    reach, works = f"reach {name}", "airflow"
    yield Unit("reach", name, partial(_reach, site, name), (f"connections {name}",))
    yield Unit("airflow", "", partial(_parts, site, name), (reach,))
    yield Unit("airflow_rights", "", partial(_rights, site), (works,))
    yield Unit("dags", "", partial(_dags, site), ("airflow_rights",))
    yield Unit("queues", "", partial(_pools, site), ("airflow_rights",))


def open_api(site: Site) -> AirflowExamination:
    """Return a client of Airflow's API with Switchback's account."""
    name = site.topology.airflow_api.connection
    url, user, password = site.connections.api_login(name)
    return AirflowExamination(url, user, password, site.connections.tls(name))


def _reach(site: Site, name: str) -> Iterator[InstallationFinding]:
    url, user, _ = site.connections.api_login(name)
    context = http_context(url, site.connections.tls(name), name)
    if findings := list(address_findings("Airflow's API", name, look_at_all([url], context))):
        yield from findings
        return
    try:
        open_api(site).version()
        sent = time.time()
        site.note_clock("Airflow's API server", open_api(site).time(), sent, time.time(), 1.0)
    except HookUnavailable as error:
        if "issued no token" not in error.reason or error.may_pass:
            raise
        yield InstallationFinding(
            "reach",
            name,
            f"Airflow refuses the login of {name}",
            f"user {user!r}: {error.seen}",
            "Correct login and password of the connection, or create the account in Airflow (README.md, Install).",
        )


def _parts(site: Site, _name: str) -> Iterator[InstallationFinding]:
    api = open_api(site)
    yield from version_findings("Airflow", "the API server", api.version())
    yield from component_findings(api.health())


def known_files() -> list[str]:
    """Return the names of Switchback's DAG files."""
    return sorted(path.name for path in dags_folder().glob("*.py"))


def _dags(site: Site) -> Iterator[InstallationFinding]:
    api = open_api(site)
    broken = list(import_findings(api.import_errors(), known_files()))
    yield from broken
    unimported = {finding.about.rpartition("/")[2].removesuffix(".py") for finding in broken}
    wanted = [*PROCEDURES, READINESS_DAG, str(Step.WATCH_OLD_SOURCE), EXAMINING_DAG]
    wanted += [_RECORDER_DAG] if site.topology.recorder else []
    paused = api.paused_dags()
    states = {dag: paused.get(dag) for dag in wanted if dag not in unimported}
    yield from unready_findings(unready_dags(states, states))


def dag_tasks(api: AirflowExamination) -> list[DagTask]:
    """Return the tasks of all of Switchback's DAGs that Airflow has."""
    known = api.paused_dags()
    return [
        task for dag in (name.removesuffix(".py") for name in known_files()) if dag in known for task in api.tasks(dag)
    ]


def _pools(site: Site) -> Iterator[InstallationFinding]:
    api = open_api(site)
    return pool_findings(dag_tasks(api), api.pools())


def _rights(site: Site) -> Iterator[InstallationFinding]:
    api = open_api(site)
    for what, seen in api.refused_reads(PLANNED_FAILOVER.dag_id, Step.APPROVE_FAILOVER).items():
        yield InstallationFinding(
            "airflow_rights",
            what,
            f"Switchback's account in Airflow may not read {what}",
            f"user {api.username!r}: {seen}",
            "Give the account's role the rights that runbooks/approvals_with_fab.md names for it; without them no"
            " approval counts, and doctor cannot look at everything.",
        )
