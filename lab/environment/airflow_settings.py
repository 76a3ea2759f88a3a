"""The lab's Airflow settings and connections as environment variables, not in a database or command line."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from lab.environment.jvm import temporary_folder
from lab.environment.production.profile import REDIS, STORE, STORE_USER
from lab.environment.spark_cluster import SPARK, master_url
from lab.environment.state import (
    ALIASES,
    DATABASE_HOST,
    DRILL_CLIENT,
    LOOPBACK,
    METRICS,
    ROLES,
    Lab,
    LabRecord,
    write_private,
)
from lab.install.jars import LAB, PROJECT
from lab.install.spark_warm_up import spark_environment

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
DAG_FOLDERS = {"switchback": PROJECT / "dags", "lab": LAB / "dags"}
SQLITE_SECONDS = 60  # how long a writer waits for another writer; the default, 5, is too short on a busy disk


def airflow_environment(lab: Lab) -> dict[str, str]:
    """Return the environment variables of the lab's Airflow processes.

    These are the variables that the lab sets, and this process's own variables, except settings of another Airflow,
    Spark or Python.
    """
    foreign = ("AIRFLOW", "KAFKA_DR", "PYTHONPATH", "SPARK_")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return inherited | own_environment(lab)


def own_environment(lab: Lab) -> dict[str, str]:
    """Return the variables that the lab sets: Airflow's settings and connections, topology, recorder's key, Spark."""
    venv = Path(sys.executable).parent
    no_proxy = ",".join([LOOPBACK, "localhost", *sorted(set(lab.load().hosts.values()))])
    return {
        **_settings(lab),
        **_secrets(lab),
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in airflow_connections(lab).items()},
        "KAFKA_DR_TOPOLOGY": str(lab.topology),
        "SWITCHBACK_RECORDER_KEY": str(lab.recorder_key),
        "SWITCHBACK_JOURNAL_KEY": str(lab.journal_key),
        "KAFKA_DR_SPARK_HOME": str(PROJECT / "spark"),
        **spark_environment(),
        "SPARK_LOCAL_DIRS": str(temporary_folder(lab)),
        "TMPDIR": str(temporary_folder(lab)),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "PATH": f"{venv}:{os.environ.get('PATH', os.defpath)}",
    }


def write_environment(lab: Lab) -> None:
    """Write the lab's variables to airflow.env (mode 0600), for tests and shells: ``set -a; . airflow.env``."""
    lines = (f"{key}={shlex.quote(value)}\n" for key, value in sorted(own_environment(lab).items()) if key != "PATH")
    write_private(lab.airflow_env, "".join(lines))


def airflow_connections(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return every connection that the topology names, by connection id, as Airflow's JSON with its secrets."""
    record = lab.load()
    drill = {"_drill": DRILL_CLIENT} if record.has_drill_workers else {}
    principals = {"": "orchestrator", "_probe": "probe", **drill}
    kafka = {
        f"kafka_{alias}{suffix}": {"conn_type": "kafka", "extra": lab.client_properties(alias, principal)}
        for alias in record.aliases
        for suffix, principal in principals.items()
    }
    web = {name: {"conn_type": "http", "host": url} | _tls(lab) for name, url in _workers(lab).items()}
    web |= {"client_routing": {"conn_type": "http", "host": lab.drain_url}} if record.published else {}
    web |= {"stop_mirror_maker": {"conn_type": "http", "host": lab.stop_hook_url}} if record.dedicated else {}
    has_store = STORE in record.hosts
    web |= {"switchback_store": {"conn_type": "generic", "extra": store_login(record)}} if has_store else {}
    spark_login = {"password": record.passwords[SPARK]} if record.spark_workers else {}
    login = {"login": "switchback", "password": record.passwords["airflow_switchback"]}
    return kafka | web | {
        "airflow_api": {"conn_type": "http", "host": lab.airflow_url, **login},
        "drain_app": {"conn_type": "http", "host": lab.drain_url},
        "kafka_dr_journal": {"conn_type": "generic", "extra": {"url": record.database_url("journal", lab.journal)}},
        "switchback_metrics": {"conn_type": "generic", "password": record.passwords[METRICS]},
        "spark_default": {"conn_type": "spark", "host": master_url(lab), **spark_login},
    }  # fmt: skip


def store_login(record: LabRecord) -> dict[str, str]:
    """Return fsspec's options for the lab's store."""
    return {"endpoint_url": f"http://{record.address(STORE)}", "key": STORE_USER, "secret": record.passwords[STORE]}


def _workers(lab: Lab) -> dict[str, str]:
    """Return the URLs of the lab's Connect workers, by connection id; those of one group separated by commas."""
    record = lab.load()
    flows = {
        f"connect_{alias}": ",".join(lab.connect_urls(alias))
        for alias in record.aliases
        if not record.runs_dedicated(alias)
    }
    drills = {f"connect_drill_{alias}": lab.drill_connect_url(alias) for alias in ALIASES if record.has_drill_workers}
    return flows | drills


def _tls(lab: Lab) -> dict[str, Any]:
    """Return the part of a connection to Connect that names the lab's CA; {} where Connect has no HTTPS."""
    return {"extra": {"verify": str(lab.authority.certificate)}} if lab.load().is_production else {}


def passwords_path(lab: Lab) -> Path:
    """Return the path of the password file of Airflow's simple auth manager."""
    return lab.airflow_home / "passwords.json"


def database_path(lab: Lab) -> Path:
    """Return the path of Airflow's SQLite database, which a lab with PostgreSQL does not have."""
    return lab.airflow_home / "airflow.db"


def write_passwords(lab: Lab) -> None:
    """Write the passwords of Airflow's users to a file, so that Airflow does not generate and print passwords."""
    passwords = lab.load().passwords
    write_private(passwords_path(lab), json.dumps({name: passwords[f"airflow_{name}"] for name in ROLES}))


def _secrets(lab: Lab) -> dict[str, str]:
    keys = lab.load().airflow_secrets
    return {
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt"],
        "AIRFLOW__API__SECRET_KEY": keys["api"],
    }


def _database(lab: Lab) -> dict[str, str]:
    """Return the settings of Airflow's database; for PostgreSQL the same URL for both of Airflow's engines."""
    record = lab.load()
    url = record.database_url("airflow", database_path(lab))
    if DATABASE_HOST not in record.hosts:
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{url}?timeout={SQLITE_SECONDS}"}
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": url}


def _settings(lab: Lab) -> dict[str, str]:
    record = lab.load()
    bundle = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": name, "classpath": bundle, "kwargs": {"path": str(path)}} for name, path in DAG_FOLDERS.items()]
    return {
        "AIRFLOW_HOME": str(lab.airflow_home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAG_FOLDERS["switchback"]),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{lab.airflow_url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords_path(lab)),
        **_database(lab),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(lab.logs / "airflow"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{record.published.get('airflow', record.ports['airflow'])}",
        "AIRFLOW__API__HOST": record.hosts.get("airflow", LOOPBACK),
        "AIRFLOW__API__PORT": str(record.ports["airflow"]),
        **(_IN_CONTAINERS if record.published else {}),
        **_ALWAYS,
        **_celery(record),
    }


def _celery(record: LabRecord) -> dict[str, str]:
    """Return the settings of Celery's queue and workers; {} in a lab whose scheduler runs the tasks."""
    if REDIS not in record.hosts:
        return {}
    database = record.database_url("airflow", Path())
    return {
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CELERY__BROKER_URL": f"redis://:{record.passwords[REDIS]}@{record.address(REDIS)}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
        "AIRFLOW__CELERY__WORKER_CONCURRENCY": "4",
        # A worker takes no task that it cannot start at once: the other worker may be idle.
        "AIRFLOW__CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
    }


# Docker's health check asks the scheduler at this address.
_IN_CONTAINERS = {
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "True",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": LOOPBACK,
}
_ALWAYS = {
    "AIRFLOW__API__EXPOSE_STACKTRACE": "True",
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "60",
    # At the first call the API server builds its routes: this takes seconds, on a busy machine a minute.
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
    # On a busy machine a DAG is stored minutes after its file was read, and would be called stale until then.
    "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "600",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
