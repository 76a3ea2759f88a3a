"""What Airflow must have for Switchback's DAGs to run, judged by the answers of its API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.overview.setting_up import SetUpTask
from kafka_dr.domain.plain_text import first_few

#: Airflow's name of a part -> what does not work without it.
COMPONENTS = {
    "metadatabase": "nothing runs",
    "scheduler": "no task is started",
    "triggerer": "waits and gates never end, as they are deferred to it",
    "dag_processor": "DAGs are not parsed",
}


@dataclass(frozen=True)
class DagTask:
    """One task of a DAG: where it runs, and which pool it takes a slot of."""

    dag_id: str
    task_id: str
    queue: str
    pool: str


def component_findings(health: Mapping[str, str | None]) -> Iterator[InstallationFinding]:
    """Yield a finding for each part of Airflow that is not healthy; `health`: part -> status."""
    for part, lost in COMPONENTS.items():
        if health.get(part) != "healthy":
            yield InstallationFinding(
                "airflow",
                part,
                f"Airflow's {part} is not healthy",
                f"status {health.get(part) or 'unknown'}: {lost}",
                f"Start it, and read in its log why it ended: airflow {part.replace('_', '-')}."
                if part != "metadatabase"
                else "Start Airflow's database, and read the log of the API server.",
                may_pass=True,
            )


def import_findings(errors: Mapping[str, str], files: Iterable[str]) -> Iterator[InstallationFinding]:
    """Yield a finding for each of Switchback's DAG files that Airflow cannot import.

    Args:
        errors: name of a file -> Airflow's error.
        files: names of Switchback's DAG files.
    """
    own = set(files)
    for path, error in sorted(errors.items()):
        if path.rpartition("/")[2] in own:
            yield InstallationFinding(
                "dags",
                path,
                "Airflow cannot import a DAG file of Switchback",
                f"{path}: {_last_line(error)}",
                "Run the file with the Python of Airflow's dag-processor, and correct what it reports: mostly a package"
                " of the lock is missing there, or KAFKA_DR_TOPOLOGY, PYTHONPATH or a changed file is wrong.",
                may_pass=True,
            )


def _last_line(error: str) -> str:
    return next((line.strip() for line in reversed(error.splitlines()) if line.strip()), "no text")[:300]


def unready_findings(tasks: Iterable[SetUpTask]) -> Iterator[InstallationFinding]:
    """Yield what the first page says of DAGs that Airflow does not know, or that are paused."""
    for task in tasks:
        yield InstallationFinding("dags", task.lacking, task.lacking, "by Airflow's API", task.todo, may_pass=True)


def pool_findings(tasks: Iterable[DagTask], slots: Mapping[str, int]) -> Iterator[InstallationFinding]:
    """Yield a finding for each pool of tasks that does not exist, or has no slot; `slots`: pool -> its slots."""
    users: dict[str, set[str]] = {}
    for task in tasks:
        users.setdefault(task.pool, set()).add(task.task_id)
    for pool, names in sorted(users.items()):
        if slots.get(pool, 0) == 0:
            seen = "it has no slot" if pool in slots else "Airflow has no such pool"
            yield InstallationFinding(
                "queues",
                f"pool {pool}",
                f"Tasks of Switchback wait for ever for the pool {pool}",
                f"{seen}; tasks {first_few(sorted(names), 3)} need it",
                f"Create the pool with at least 8 slots: airflow pools set {pool} 8 Switchback",
            )


def queue_findings(tasks: Iterable[DagTask], examined: Iterable[str]) -> Iterator[InstallationFinding]:
    """Yield a finding for each queue that runs steps, and on which no task has examined the machine.

    Args:
        examined: queues of the tasks that examined a machine.
    """
    queues: dict[str, set[str]] = {}
    for task in tasks:
        queues.setdefault(task.queue, set()).add(f"{task.dag_id}.{task.task_id}")
    for queue in sorted(queues.keys() - set(examined)):
        yield InstallationFinding(
            "queues",
            f"queue {queue}",
            f"Steps run on the queue {queue}, whose machines were not examined",
            f"tasks {first_few(sorted(queues[queue]), 3)} run there",
            f"Name {queue} in SWITCHBACK_QUEUES, a comma list in the environment of Airflow's dag-processor and"
            " scheduler, so that doctor has a task there. If it is named: start a worker of this queue.",
        )
