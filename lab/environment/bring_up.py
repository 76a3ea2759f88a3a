"""`up`: create a lab's missing parts, start what is not running, and prove that replication works."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from lab.environment import acls
from lab.environment.airflow_services import components_live, run_warm_up, start_airflow, wait_for_airflow
from lab.environment.airflow_settings import write_environment
from lab.environment.brokers import admin_client, start_broker
from lab.environment.connect import WorkerProcess, create_flows, flow_is_stopped, flow_worker, serve_worker
from lab.environment.dedicated_mirror_maker import start_dedicated
from lab.environment.drills.markers import mark_environment
from lab.environment.drills.worker import drill_worker
from lab.environment.layout.flows import (
    AGGREGATION,
    LAYOUTS,
    OPTION,
    PAIR,
    THIRD,
    LabFlow,
    choose_policy,
    refuse_combination,
)
from lab.environment.locks import exclusive_lock
from lab.environment.logins.kinds import ISSUER, SCRAM, has_issuer
from lab.environment.logins.set_up import named_as_logged_in, prepare_logins
from lab.environment.ports import free_ports
from lab.environment.production.nodes import rights_by_certificate, start_nodes
from lab.environment.production.postgres import start_postgres
from lab.environment.production.profile import (
    DATABASES,
    KEY_STORES,
    POSTGRES,
    PRODUCTION,
    SMALL,
    SUPERVISOR,
    WORKERS,
    extra_ports,
)
from lab.environment.production.supervisor import kill_components, start_supervisor
from lab.environment.production.transport import create_certificates
from lab.environment.progress import ProgressLines
from lab.environment.replication_check import prove_replication
from lab.environment.spark_cluster import SPARK, start_spark
from lab.environment.state import (
    ALIASES,
    LOOPBACK,
    METRICS,
    PRINCIPALS,
    ROLES,
    Lab,
    LabRecord,
    drill_port,
    private_folder,
)
from lab.environment.topology_file import write_routing, write_topology
from lab.environment.versions.choices import choose_versions, keep_versions
from lab.environment.versions.version_jars import fetch_versions
from lab.errors import LabError

POLICIES = ("identity", "default")
ISOLATIONS = ("read_uncommitted", "read_committed")
PORTS = [*ALIASES, *(f"{kind}_{alias}" for kind in ("controller", "connect") for alias in ALIASES)]
PORTS += map(drill_port, ALIASES)
THIRD_PORTS = [THIRD, f"controller_{THIRD}", f"connect_{THIRD}"]
PORTS += ["airflow", "airflow_worker_log", "airflow_trigger_log", "drain", "spark_master", "spark_page", "stop_hook"]
_OWN_NAMES = ("topology.yaml", "routing.json", "airflow.env", "journal.db", "lab")


def up(
    state: Path | str,
    airflow: bool = True,
    policy: str | None = None,
    isolation: str | None = None,
    spark_workers: int | None = None,
    dedicated: bool | None = None,
    progress: ProgressLines | None = None,
    profile: str | None = None,
    kafka: Mapping[str, str] | None = None,
    connect: Mapping[str, str] | None = None,
    logins: str | None = None,
    clusters: str | None = None,
) -> dict[str, Any]:
    """Start a lab, or the parts of an existing lab that are not running; return the lab's status document.

    Args:
        state: the lab's folder, which may exist and contain foreign files.
        airflow: start Airflow, too; False does not stop an Airflow that runs.
        policy: naming, ``identity`` or ``default``; None: as in the existing lab, ``identity`` for a new lab that is a
            pair.
        isolation: isolation level with which MirrorMaker 2 reads; None: as in the existing lab, ``read_uncommitted``
            for a new lab.
        spark_workers: number of workers of a standalone Spark cluster; 0: Spark runs inside the task; None: as in the
            existing lab, 0 for a new lab.
        dedicated: run MirrorMaker 2 for primary->standby in dedicated mode, without a Connect worker on the standby;
            None: as in the existing lab, False for a new lab.
        progress: prints progress lines; None: to the standard output.
        profile: `small` or `production`; None: as in the existing lab, `small` for a new lab.
        kafka: Kafka version of brokers, by cluster; clusters that are not named run the newest. None: as in the
            existing lab, the newest everywhere for a new lab.
        connect: Kafka version of Connect workers and MirrorMaker 2, likewise.
        logins: how clients log in, one of `CHOICES` in `logins/kinds.py`; None: as in the existing lab, `scram` for a
            new lab.
        clusters: the layout, one of `LAYOUTS` in `layout/flows.py`; None: as in the existing lab, `pair` for a new lab.

    Raises:
        LabError: a process did not start (the text has the last lines of its logs), the existing lab has other
            settings, the folder has files of the lab's names that no lab created, or a version does not exist.
    """
    lab, progress = Lab(state), progress or ProgressLines()
    with exclusive_lock(lab.root):
        policy = choose_policy(clusters, policy)
        refuse_combination(
            clusters,
            profile=profile not in (None, SMALL),
            dedicated_mode=dedicated,
            logins=logins not in (None, SCRAM),
            older_versions=kafka or connect,
        )
        versions = choose_versions(lab, kafka, connect, policy or "identity", dedicated or False)
        if logins not in (None, SCRAM) and (kafka or connect):
            raise LabError(f"only the newest Kafka has logins {logins} in the lab; leave out one of the two")
        _open(lab, policy, isolation, airflow, spark_workers, dedicated, profile, logins, clusters)
        keep_versions(lab, versions)
        progress.say(f"lab under {lab.root}, {lab.load().policy} naming")
        fetch_versions(versions, progress)
        if lab.load().is_production:
            create_certificates(lab)
        prepare_logins(lab)
        write_topology(lab)
        write_routing(lab)
        _make_private(lab)
        write_environment(lab)
        _in_parallel(_jobs_of(lab, progress))
        progress.say("ready")
    return lab.status()


def _make_private(lab: Lab) -> None:
    """Give what the product stores the modes that it demands, also in a lab that an earlier version started."""
    for folder in (lab.evidence, lab.archive):
        private_folder(folder)
    if not lab.load().is_production:
        private_folder(lab.root)
        for file in lab.root.glob(f"{lab.journal.name}*"):
            file.chmod(0o600)


def _jobs_of(lab: Lab, progress: ProgressLines) -> list[Callable[[], None]]:
    """Return the functions that start the lab's parts; these functions can run in parallel."""
    record = lab.load()
    parts: list[Callable[[], None]] = [lambda: _start_kafka(lab, progress)]
    if record.is_production:
        parts.append(lambda: _start_postgres_and_airflow(lab, progress))
    elif record.airflow:
        parts.append(lambda: _start_airflow_and_wait(lab, progress))
    if record.spark_workers:
        parts.append(lambda: start_spark(lab, progress))
    return parts


def _start_postgres_and_airflow(lab: Lab, progress: ProgressLines) -> None:
    has_died = start_postgres(lab)
    progress.say(f"PostgreSQL answers on {lab.load().address(POSTGRES)}")
    if lab.load().airflow:
        start_airflow(lab, progress)
        if has_died:
            kill_components(lab)
        start_supervisor(lab)
        alive = partial(lab.processes.must_live, SUPERVISOR)
        wait_for_airflow(lab, progress, alive)
        if has_died:
            # For half a minute Airflow calls its components healthy by heartbeats of the killed ones.
            run_warm_up(lab, alive)


def _start_airflow_and_wait(lab: Lab, progress: ProgressLines) -> None:
    start_airflow(lab, progress)
    wait_for_airflow(lab, progress, partial(components_live, lab))


def _open(
    lab: Lab,
    policy: str | None,
    isolation: str | None,
    airflow: bool,
    spark_workers: int | None = None,
    dedicated: bool | None = None,
    profile: str | None = None,
    logins: str | None = None,
    clusters: str | None = None,
) -> None:
    if not lab.exists():
        if profile == PRODUCTION and dedicated:
            raise LabError("profile production has no dedicated mode; leave out one of the two")
        if logins not in (None, SCRAM) and (profile == PRODUCTION or dedicated):
            raise LabError(f"only profile small with Connect workers has logins {logins}; leave out one of the two")
        _refuse_foreign_files(lab)
        options = (policy or "identity", isolation or "read_uncommitted", spark_workers or 0, dedicated or False)
        lab.save(_new_record(*options, profile=profile or SMALL, logins=logins or SCRAM, clusters=clusters or PAIR))
    record = lab.load()
    choices = (
        (profile, record.profile, "profile"),
        (policy, record.policy, "naming"), (isolation, record.isolation, "isolation"),
        (spark_workers, record.spark_workers, "Spark workers"), (dedicated, record.dedicated, "dedicated mode"),
        (logins, record.logins, "logins"), (clusters, record.clusters, OPTION),
    )  # fmt: skip
    for requested, present, option in choices:
        if requested is not None and requested != present:
            raise LabError(
                f"the lab under {lab.root} was created with {option}: {present}, not {requested}; to change this,"
                f" first stop and remove the lab with: python -m lab down --state {lab.root}"
            )
    if airflow and not record.airflow:
        record.airflow = True
        lab.save(record)


def _refuse_foreign_files(lab: Lab) -> None:
    if set(str(lab.root)) & set(':${}"\n\r'):
        raise LabError(
            f"the path of the lab's folder has one of the characters :${{}}\" or a line feed: {lab.root}; choose"
            " another folder with --state"
        )
    conflicts = [name for name in _OWN_NAMES if (lab.root / name).exists()]
    if conflicts:
        raise LabError(
            f"{lab.root} contains {', '.join(conflicts)}, which no lab created; choose another folder with --state"
        )


def _new_record(
    policy: str,
    isolation: str,
    spark_workers: int = 0,
    dedicated: bool = False,
    profile: str = SMALL,
    logins: str = SCRAM,
    clusters: str = PAIR,
) -> LabRecord:
    options: dict[str, Any] = {"spark_workers": spark_workers, "dedicated": dedicated}
    options |= {"logins": logins, "clusters": clusters}
    if profile == SMALL:
        more = [*([ISSUER] if has_issuer(logins) else []), *(THIRD_PORTS if clusters == AGGREGATION else [])]
        ports = free_ports([*PORTS, *more])
        return make_record(policy, isolation, ports, **options)
    ports, hosts = free_ports([*PORTS, *extra_ports(ALIASES)]), {POSTGRES: LOOPBACK}
    record = make_record(policy, isolation, ports, DATABASES, profile=profile, hosts=hosts, **options)
    record.passwords |= {f"database_{POSTGRES}": secrets.token_hex(16)}
    return record


def make_record(
    policy: str, isolation: str, ports: dict[str, int], databases: Sequence[str] = (), **more: Any
) -> LabRecord:
    """Return the record of a new lab, with new passwords and keys.

    Args:
        databases: names of PostgreSQL databases; each also names a role, which gets a password.
        more: other fields of `LabRecord`.
    """
    users = [
        *PRINCIPALS,
        SPARK,
        METRICS,
        KEY_STORES,
        *(f"airflow_{name}" for name in ROLES),
        *(f"database_{name}" for name in databases),
    ]
    return LabRecord(
        policy=policy,
        isolation=isolation,
        ports=ports,
        passwords={user: secrets.token_hex(16) for user in users},
        airflow_secrets={
            name: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() for name in ("fernet", "jwt", "api")
        },
        cluster_ids={alias: _cluster_id() for alias in LAYOUTS[more.get("clusters", PAIR)].aliases},
        **more,
    )


def _cluster_id() -> str:
    """Return a Kafka UUID that does not start with a dash, so that no program takes it for an option."""
    number = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([number[0] & 0x7F]) + number[1:]).decode().rstrip("=")


def _start_kafka(lab: Lab, progress: ProgressLines) -> None:
    _in_parallel([partial(_start_site, lab, alias, progress) for alias in lab.load().aliases])
    # After the other workers, which so are ready sooner; beside the proof of replication, which mostly waits.
    drill_workers = [drill_worker(lab, alias) for alias in ALIASES if lab.load().has_drill_workers]
    starts = [partial(_start_worker, lab, worker, progress) for worker in drill_workers]
    _in_parallel([partial(_start_replication, lab, progress), *starts])


def _start_replication(lab: Lab, progress: ProgressLines) -> None:
    for alias in lab.load().aliases:
        lab.once(f"flow-{alias}", partial(_start_flows, lab, alias))
    told = [f"{flow.source}->{flow.target} {'runs' if flow.runs else 'is STOPPED'}" for flow in lab.load().layout.flows]
    progress.say(f"MirrorMaker 2: {', '.join(told)}")
    # After a procedure has stopped the flow or moved clients, a test record could disturb the procedure.
    if flow_is_stopped(lab, "standby") or json.loads(lab.routing.read_text())["cluster"] != "primary":
        progress.say("replication is not tested, because a procedure has stopped primary->standby or moved the clients")
    else:
        _in_parallel([partial(_prove, lab, flow, progress) for flow in lab.load().layout.flows if flow.runs])


def _prove(lab: Lab, flow: LabFlow, progress: ProgressLines) -> None:
    progress.say(prove_replication(lab, flow.source, flow.target))


def _start_flows(lab: Lab, worker: str) -> None:
    """Start the flows to a worker's cluster in a new lab; `up` does this once, because procedures stop flows later."""
    if lab.load().runs_dedicated(worker):
        start_dedicated(lab)
    else:
        create_flows(lab, worker)


def _start_site(lab: Lab, alias: str, progress: ProgressLines) -> None:
    """Start a cluster's broker and its Connect workers; create what the cluster lacks of ACL entries and marker."""
    if lab.load().is_production:
        start_nodes(lab, alias)
    else:
        start_broker(lab, alias)
    grant_rights(lab, alias)
    mark_environment(lab, alias)
    progress.say(f"broker {alias} answers on {lab.bootstrap_servers(alias)}")
    record = lab.load()
    if record.runs_dedicated(alias):
        return
    workers = [flow_worker(lab, alias, number) for number in (WORKERS if record.is_production else WORKERS[:1])]
    _in_parallel([partial(_start_worker, lab, worker, progress) for worker in workers])


def _start_worker(lab: Lab, worker: WorkerProcess, progress: ProgressLines) -> None:
    serve_worker(lab, worker)
    progress.say(f"Connect worker {worker.name} answers on {worker.url}")


def grant_rights(lab: Lab, alias: str) -> None:
    """Create a cluster's ACL entries, once per lab, so that fences that a procedure set or lifted stay unchanged."""
    record = lab.load()
    fence = acls.standing_fence(alias, record.policy, record.layout)
    rights = named_as_logged_in(lab, alias, [*acls.client_rights(), *fence])
    if record.is_production:
        rights += rights_by_certificate(rights)
    lab.once(f"acls-{alias}", lambda: acls.create_bindings(admin_client(lab, alias), rights))


def _in_parallel(jobs: list[Callable[[], None]]) -> None:
    """Run all jobs in parallel and wait until all have ended; then raise the first failure, if any."""
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        futures: list[Future[None]] = [pool.submit(job) for job in jobs]
        for future in as_completed(futures):
            future.result()
