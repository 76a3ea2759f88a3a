"""Start Airflow's four components as processes, and wait until all components are ready."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import requests

from lab.environment.airflow_api import AirflowClient
from lab.environment.airflow_settings import (
    COMPONENTS,
    DAG_FOLDERS,
    airflow_environment,
    database_path,
    passwords_path,
    write_passwords,
)
from lab.environment.locks import exclusive_lock
from lab.environment.progress import ProgressLines, wait_until
from lab.environment.state import Lab
from lab.errors import LabError
from lab.install.jars import cache_folder

READY_SECONDS = 240.0
WARM_UP = "lab_warm_up"


def start_airflow(lab: Lab, progress: ProgressLines) -> None:
    """Start Airflow's components that are not running; if the lab has no database, first create it.

    In the profile `production` this creates Airflow's tables only: the supervisor starts the components.
    """
    lab.airflow_home.mkdir(parents=True, exist_ok=True)
    if not passwords_path(lab).exists():
        write_passwords(lab)
    # If airflow.cfg did not exist, all four components would write this file at the same time.
    (lab.airflow_home / "airflow.cfg").touch()
    if lab.load().is_production:
        lab.once("airflow-database", lambda: _migrate_server(lab, progress))
        return
    if not database_path(lab).exists():
        _copy_database(_migrated_template(progress), database_path(lab))
    start_components(lab, [name for name in COMPONENTS if lab.processes.pid(f"airflow-{name}") is None])


def start_components(lab: Lab, components: Iterable[str]) -> None:
    """Start these components of Airflow, none of which runs."""
    env = airflow_environment(lab)
    for component in components:
        lab.processes.start(f"airflow-{component}", _argv(component), env, lab.airflow_home)


def components_live(lab: Lab) -> None:
    """Raise LabError if the process of one of Airflow's components has ended."""
    lab.processes.must_live(*(f"airflow-{component}" for component in COMPONENTS))


def wait_for_airflow(lab: Lab, progress: ProgressLines, alive: Callable[[], None]) -> None:
    """Wait until all Airflow components are healthy, every DAG file is parsed, and a task has run.

    Args:
        lab: the lab; a marker file in its folder states that the warm-up task has run.
        progress: prints progress lines.
        alive: raises LabError if a component has ended, because waiting is then pointless.

    Raises:
        LabError: a component has ended, a DAG file cannot be imported, or the warm-up task failed.
    """
    wait_until(lambda: _get(lab, "/execution/health").ok, "Airflow's task API", READY_SECONDS, still_possible=alive)
    wait_until(lambda: _is_healthy(lab), "Airflow's components to be healthy", READY_SECONDS, still_possible=alive)
    progress.say(f"Airflow answers on {lab.airflow_url}")
    api = AirflowClient.of(lab, "operator")
    wait_until(lambda: WARM_UP in api.dag_ids(), f"the DAG {WARM_UP} to be parsed", READY_SECONDS, still_possible=alive)
    lab.once("warm-up", lambda: run_warm_up(lab, alive))
    progress.say("a task has run")
    count = wait_until(
        lambda: _all_parsed(api), "every DAG file to be parsed", READY_SECONDS, still_possible=alive, pause=0.3
    )
    progress.say(f"{count} DAG files parsed")


def _argv(component: str) -> list[str]:
    # Log servers would listen on every network interface, and are not needed: the API server reads the log files.
    options = ["--skip-serve-logs"] if component in ("scheduler", "triggerer") else []
    return [sys.executable, "-m", "airflow", component, *options]


def _is_healthy(lab: Lab) -> bool:
    health = _get(lab, "/api/v2/monitor/health").json()
    return all(
        health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "triggerer", "dag_processor")
    )


def _get(lab: Lab, path: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"{lab.airflow_url}{path}", timeout=60)


def run_warm_up(lab: Lab, alive: Callable[[], None]) -> None:
    """Have Airflow run a task that does nothing, and wait until it has run.

    Args:
        lab: the lab.
        alive: raises LabError if a component has ended, because waiting is then pointless.

    Raises:
        LabError: the task failed, or did not run in time.
    """
    api = AirflowClient.of(lab, "operator")
    run_id = api.trigger(WARM_UP, {})
    state = wait_until(
        lambda: (state := api.run(WARM_UP, run_id)["state"]) in ("success", "failed") and state,
        f"a run of {WARM_UP}",
        READY_SECONDS,
        still_possible=alive,
    )
    if state != "success":
        raise LabError(f"the run {run_id} of the DAG {WARM_UP} has failed; read the log of the run's task in Airflow")


def _all_parsed(api: AirflowClient) -> int:
    """Return the number of DAG files if Airflow has parsed all of them, else 0."""
    errors = api.import_errors()
    if errors:
        raise LabError(
            "Airflow cannot import these DAG files; correct the files, then start the lab again:\n"
            + "\n".join(f"{name}: {text}" for name, text in errors.items())
        )
    expected = {
        (bundle, file.name) for bundle, folder in DAG_FOLDERS.items() for file in folder.glob("*.py") if _is_dag(file)
    }
    return len(expected) if expected <= api.dag_files() else 0


def _is_dag(file: Path) -> bool:
    """Whether Airflow regards the file as a DAG file, by the same test as in Airflow."""
    text = file.read_text(errors="replace").lower()
    return "dag" in text and "airflow" in text


def _migrated_template(progress: ProgressLines) -> Path:
    """Return the path of a migrated, empty Airflow database; it is created once per user and Airflow version."""
    version = importlib.metadata.version("apache-airflow-core")
    template = cache_folder() / f"airflow-{version}.db"
    with exclusive_lock(template):
        if not template.exists():
            progress.say(f"migrating a database for Airflow {version} (once)")
            _migrate(template)
    return template


def _migrate(template: Path) -> None:
    temporary = Path(tempfile.mkdtemp(dir=template.parent))
    try:
        env = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
        env |= {"AIRFLOW_HOME": str(temporary), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        _run_migration(env, temporary)
        _copy_database(temporary / "airflow.db", temporary / "template.db")
        (temporary / "template.db").rename(template)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _migrate_server(lab: Lab, progress: ProgressLines) -> None:
    progress.say("creating Airflow's tables on PostgreSQL")
    _run_migration(airflow_environment(lab), lab.airflow_home)


def _run_migration(env: Mapping[str, str], folder: Path) -> None:
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(
            "airflow db migrate failed for a new, empty database; remove the cause, then start the lab again:"
            f" {(done.stdout + done.stderr)[-2000:]}"
        )


def _copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database with SQLite's own backup, which includes rows of the write-ahead log."""
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(part)) as new:
        old.backup(new)
    part.rename(target)
