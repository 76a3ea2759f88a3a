"""`up`: everything that is not there is made, everything that is dead is started, and then it is looked at."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from lab.environment import acls
from lab.environment.airflow_services import components_live, start_airflow, wait_for_airflow
from lab.environment.airflow_settings import write_environment
from lab.environment.brokers import admin_client, start_broker
from lab.environment.connect import create_flow, flow_is_stopped, start_worker
from lab.environment.dedicated_mirror_maker import start_dedicated
from lab.environment.locks import exclusive_lock
from lab.environment.ports import free_ports
from lab.environment.progress import ProgressLines
from lab.environment.replication_check import prove_replication
from lab.environment.spark_cluster import start_spark
from lab.environment.state import ALIASES, PRINCIPALS, ROLES, Lab, LabRecord
from lab.environment.topology_file import write_routing, write_topology
from lab.errors import LabError

POLICIES = ("identity", "default")
ISOLATIONS = ("read_uncommitted", "read_committed")
PORTS = [*ALIASES, *(f"{kind}_{alias}" for kind in ("controller", "connect") for alias in ALIASES)]
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
) -> dict[str, Any]:
    """Bring a lab up, or bring back what is dead in it, and answer its status.

    Args:
        state: the lab's folder; it may exist and hold other files.
        airflow: whether Airflow is wanted; one that runs is not stopped.
        policy: ``identity`` or ``default`` naming; None keeps what is there, else identity.
        isolation: at which MM2 reads the source; None keeps what is there, else ``read_uncommitted``.
        spark_workers: workers of a standalone Spark cluster; 0 for none, with Spark inside the task; None keeps what is
            there, else none.
        dedicated: whether MirrorMaker 2 of primary->standby runs in dedicated mode, without a worker beside the
            standby; None keeps what is there, else not.
        progress: where lines about it go; the standard output by default.

    Raises:
        LabError: something did not come up, with the tail of its log.
    """
    lab, progress = Lab(state), progress or ProgressLines()
    with exclusive_lock(lab.root):
        _open(lab, policy, isolation, airflow, spark_workers, dedicated)
        progress.say(f"lab under {lab.root}, {lab.load().policy} naming")
        write_topology(lab)
        write_routing(lab)
        lab.evidence.mkdir(exist_ok=True)
        write_environment(lab)
        _in_parallel(_parts(lab, progress))
        progress.say("ready")
    return lab.status()


def _parts(lab: Lab, progress: ProgressLines) -> list[Callable[[], None]]:
    """What comes up side by side."""
    record = lab.load()
    parts: list[Callable[[], None]] = [lambda: _bring_kafka(lab, progress)]
    if record.airflow:
        parts.append(lambda: _bring_airflow(lab, progress))
    if record.spark_workers:
        parts.append(lambda: start_spark(lab, progress))
    return parts


def _bring_airflow(lab: Lab, progress: ProgressLines) -> None:
    start_airflow(lab, progress)
    wait_for_airflow(lab, progress, partial(components_live, lab))


def _open(
    lab: Lab,
    policy: str | None,
    isolation: str | None,
    airflow: bool,
    spark_workers: int | None = None,
    dedicated: bool | None = None,
) -> None:
    if not lab.exists():
        _refuse_foreign_files(lab)
        lab.save(
            _new_record(policy or "identity", isolation or "read_uncommitted", spark_workers or 0, dedicated or False)
        )
    record = lab.load()
    choices = (
        (policy, record.policy, "naming"), (isolation, record.isolation, "isolation"),
        (spark_workers, record.spark_workers, "Spark workers"), (dedicated, record.dedicated, "for dedicated mode"),
    )  # fmt: skip
    for wanted, present, what in choices:
        if wanted is not None and wanted != present:
            raise LabError(f"the lab under {lab.root} has {present} {what}, not {wanted}; take it down first")
    if airflow and not record.airflow:
        record.airflow = True
        lab.save(record)


def _refuse_foreign_files(lab: Lab) -> None:
    if set(str(lab.root)) & set(':${}"\n\r'):
        raise LabError(f"the lab's folder may hold none of the characters :${{}}\" in its path: {lab.root}")
    taken = [name for name in _OWN_NAMES if (lab.root / name).exists()]
    if taken:
        raise LabError(
            f"{lab.root} holds {', '.join(taken)}, which no lab has made; choose another folder with --state"
        )


def _new_record(policy: str, isolation: str, spark_workers: int = 0, dedicated: bool = False) -> LabRecord:
    return make_record(policy, isolation, free_ports(PORTS), spark_workers=spark_workers, dedicated=dedicated)


def make_record(
    policy: str, isolation: str, ports: dict[str, int], databases: Sequence[str] = (), **more: Any
) -> LabRecord:
    """Make the record of a new lab, with passwords and keys of its own.

    Args:
        databases: of PostgreSQL; each has a role of its own, named like it.
        more: other fields of `LabRecord`.
    """
    users = [*PRINCIPALS, *(f"airflow_{name}" for name in ROLES), *(f"database_{name}" for name in databases)]
    return LabRecord(
        policy=policy,
        isolation=isolation,
        ports=ports,
        passwords={user: secrets.token_hex(16) for user in users},
        airflow_secrets={
            name: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() for name in ("fernet", "jwt", "api")
        },
        cluster_ids={alias: _cluster_id() for alias in ALIASES},
        **more,
    )


def _cluster_id() -> str:
    """A Kafka UUID; with the first bit clear it never begins with a dash, which would be read as an option."""
    number = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([number[0] & 0x7F]) + number[1:]).decode().rstrip("=")


def _bring_kafka(lab: Lab, progress: ProgressLines) -> None:
    _in_parallel([partial(_start_site, lab, alias, progress) for alias in ALIASES])
    for alias in ALIASES:
        lab.once(f"flow-{alias}", partial(_start_flow, lab, alias))
    progress.say("MirrorMaker 2: forward flow runs, reverse flow stands by")
    # A record more could upset a procedure that has moved or stopped something.
    if flow_is_stopped(lab, "standby") or json.loads(lab.routing.read_text())["cluster"] != "primary":
        progress.say("replication is not proven: a procedure has stopped the forward flow or moved the clients")
    else:
        progress.say(prove_replication(lab))


def _start_flow(lab: Lab, worker: str) -> None:
    """Start a flow for the first time; an ended dedicated process stays so: a procedure may have ended it."""
    if lab.load().runs_dedicated(worker):
        start_dedicated(lab)
    else:
        create_flow(lab, worker)


def _start_site(lab: Lab, alias: str, progress: ProgressLines) -> None:
    """One cluster and the worker beside it; what is set up once is not set up again after a failover."""
    start_broker(lab, alias)
    grant_rights(lab, alias)
    progress.say(f"broker {alias} answers on {lab.bootstrap_servers(alias)}")
    if lab.load().runs_dedicated(alias):
        return
    start_worker(lab, alias)
    progress.say(f"Connect worker {alias} answers on {lab.connect_url(alias)}")


def grant_rights(lab: Lab, alias: str) -> None:
    """Create a cluster's ACLs, once: a fence that a failover has lifted or set stays as it is."""
    rights = [*acls.client_rights(), *acls.standing_fence(alias, lab.load().policy)]
    lab.once(f"acls-{alias}", lambda: acls.create_bindings(admin_client(lab, alias), rights))


def _in_parallel(jobs: list[Callable[[], None]]) -> None:
    """Run all; the first failure is raised once every job has ended."""
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        futures: list[Future[None]] = [pool.submit(job) for job in jobs]
        for future in as_completed(futures):
            future.result()
